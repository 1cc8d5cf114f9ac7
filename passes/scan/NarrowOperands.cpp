//===- NarrowOperands.cpp - which sequences may enter 16-bit matmuls ------===//
#include "passes/scan/NarrowOperands.h"
#include "dialect/ejk/EjkShifts.h"
#include "passes/scan/ScanProperties.h"
#include "dialect/ejk/Attributes.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_NARROWOPERANDS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// The rule
//===----------------------------------------------------------------------===//

/// The sequences of rows that `values`, in the scan's step, are computed from.
static llvm::SmallSetVector<Value, 8> findSequences(ScanOp scan, ArrayRef<Value> values) {
  llvm::SmallSetVector<Value, 8> sequences;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> worklist(llvm::reverse(values));
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    // What is read has the rounding of the matmuls that made the state.
    if (auto read = value.getDefiningOp<ReadOp>())
      worklist.push_back(read.getVector());
    else if (Operation *op = value.getDefiningOp())
      worklist.append(op->operand_begin(), op->operand_end());
    else if (isa<VectorType>(value.getType()) && llvm::is_contained(scan.getSequenceArgs(), value))
      sequences.insert(scan.getSequences()[cast<BlockArgument>(value).getArgNumber()]);
  }
  return sequences;
}

static SmallVector<Value> operandsOfMatmuls(ScanOp scan) {
  SmallVector<Value> operands;
  scan.getStep().walk([&](Operation *op) {
    if (auto add = dyn_cast<OuterAddOp>(op))
      operands.append({add.getKey(), add.getValue()});
    else if (auto read = dyn_cast<ReadOp>(op))
      operands.push_back(read.getVector());
  });
  return operands;
}

static SmallVector<Value> gatesOf(ScanOp scan) {
  SmallVector<Value> gates;
  scan.getStep().walk([&](DecayOp decay) { gates.push_back(decay.getGate()); });
  return gates;
}

static bool isRows(Value tensor) {
  auto type = dyn_cast<RankedTensorType>(tensor.getType());
  return type && type.getRank() == 4 && isa<FloatType>(type.getElementType());
}

/// The operands that determine the elements of `value`; failure if they are not known.
static FailureOr<SmallVector<Value, 6>> inputsOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return failure();
  if (auto sum = dyn_cast<SumHeadsOp>(op))
    return SmallVector<Value, 6>{sum.getTensor()};
  if (auto scan = dyn_cast<ScanOp>(op)) {
    SmallVector<Value> values = operandsOfMatmuls(scan);
    if (auto place = llvm::find(scan.getOutputs(), value); place != scan.getOutputs().end())
      values.push_back(scan.getYield().getOutputs()[place - scan.getOutputs().begin()]);
    return llvm::to_vector<6>(findSequences(scan, values));
  }
  if (isa<ShiftOp>(op))
    return SmallVector<Value, 6>(op->getOperands().take_front(1));
  if (isa<linalg::GenericOp, linalg::FillOp, tensor::CastOp, tensor::EmptyOp, tensor::SplatOp>(
          op) ||
      op->hasTrait<OpTrait::ConstantLike>() || OpTrait::hasElementwiseMappableTraits(op))
    return SmallVector<Value, 6>(op->getOperands());
  return failure();
}

/// Whether a block program whose matmuls have 16-bit operands computed `rows`.
static bool isOfRoundingProgram(Value rows) {
  if (auto choose = rows.getDefiningOp<tile::ChooseOp>())
    rows = choose.getSeveral();
  auto program = rows.getDefiningOp<tile::ProgramOp>();
  return program && !program
                         .walk([](tile::DotOp dot) {
                           return getElementTypeOrSelf(dot.getLhs().getType()).isF32()
                                      ? WalkResult::interrupt()
                                      : WalkResult::advance();
                         })
                         .wasInterrupted();
}

static bool isNarrowRows(Value rows) {
  return isRows(rows) && getElementTypeOrSelf(rows.getType()).getIntOrFloatBitWidth() == 16;
}

/// Whether a scan without states makes `rows` of 16-bit rows. It may use others in f32, as angles
/// (ejk-cut-rows).
static bool isMadeOfNarrowRows(Value rows) {
  auto scan = rows.getDefiningOp<ScanOp>();
  if (!scan || scan.getNumStates() != 0)
    return false;
  auto inputs = inputsOf(rows);
  return succeeded(inputs) && llvm::any_of(*inputs, isNarrowRows);
}

namespace {
/// The tensors that a scan's operands come from.
class SourceSearch {
public:
  SourceSearch(ScanOp scan, bool roundComputed) : roundComputed(roundComputed) {
    if (roundComputed)
      markGates(scan);
  }

  void visit(Value rows) {
    if (!seen.insert(rows).second || !isRows(rows))
      return;
    // Results of a block program already have the rounding of its matmuls.
    if (getElementTypeOrSelf(rows.getType()).getIntOrFloatBitWidth() <= 16 || isSavedRead(rows) ||
        isOfRoundingProgram(rows)) {
      found.hasNarrow = true;
      return;
    }
    if (gates.contains(rows))
      return;
    if (auto scan = rows.getDefiningOp<ScanOp>(); scan && roundComputed)
      markGates(scan);
    auto inputs = roundComputed ? inputsOf(rows) : FailureOr<SmallVector<Value, 6>>(failure());
    if (failed(inputs)) {
      if (!found.wide)
        found.wide = rows;
      return;
    }
    if (isMadeOfNarrowRows(rows)) {
      found.hasNarrow = true;
      return;
    }
    for (Value input : *inputs)
      visit(input);
  }

  OperandSources found;

private:
  void markGates(ScanOp scan) {
    for (Value gate : findSequences(scan, gatesOf(scan)))
      markGate(gate);
  }
  void markGate(Value tensor) {
    if (!gates.insert(tensor).second)
      return;
    if (auto inputs = inputsOf(tensor); succeeded(inputs))
      for (Value input : *inputs)
        markGate(input);
  }

  bool roundComputed;
  llvm::DenseSet<Value> seen, gates;
};
} // namespace

OperandSources ejk::findOperandSources(ScanOp scan, bool roundComputed) {
  SourceSearch search(scan, roundComputed);
  for (Value rows : findSequences(scan, operandsOfMatmuls(scan)))
    search.visit(rows);
  return search.found;
}

//===----------------------------------------------------------------------===//
// Narrow sequences
//===----------------------------------------------------------------------===//

/// Whether `rows` were widened from 16 bits, so that narrowing restores them exactly.
static bool isWidened(Value rows) { return bool(rows.getDefiningOp<arith::ExtFOp>()); }

/// `rows` in 16 bits: the original if they were widened, otherwise bf16, which has the range of
/// f32.
static Value narrowed(Value rows) {
  if (auto widened = rows.getDefiningOp<arith::ExtFOp>())
    return widened.getIn();
  OpBuilder b(rows.getContext());
  b.setInsertionPointAfterValue(rows);
  auto type = cast<RankedTensorType>(rows.getType());
  // All scans use the same tensor, so that terms which cancel between them are rounded alike.
  for (Operation *user : rows.getUsers())
    if (auto rounded = dyn_cast<arith::TruncFOp>(user))
      if (rounded->getBlock() == rows.getParentBlock() &&
          getElementTypeOrSelf(rounded.getType()).isBF16()) {
        rounded->moveBefore(b.getInsertionBlock(), b.getInsertionPoint());
        return rounded;
      }
  auto rounded =
      arith::TruncFOp::create(b, rows.getLoc(), type.clone(b.getBF16Type()), rows);
  // Nor does a shape keep the wide rows.
  rows.replaceUsesWithIf(rounded, [](OpOperand &use) {
    auto sum = dyn_cast<SumHeadsOp>(use.getOwner());
    return sum && use == sum.getLikeMutable();
  });
  return rounded;
}

namespace {
/// What a step computes from its rows. The step does not change in the meantime. Each op is looked
/// at once for each question: a step may use one value in many ops, and paths multiply.
class RowUses {
public:
  /// Whether `use` only serves matmuls: operands, cancelling pairs with reads, and diagonal terms
  /// (x · y) z, which chunks include in a matmul.
  bool servesMatmuls(OpOperand &use) {
    Operation *op = use.getOwner();
    if (isa<OuterAddOp, ReadOp, CancellingPairOp>(op))
      return true;
    if (isa<YieldOp>(op) || op->getNumResults() != 1)
      return false;
    if (isa<arith::MulFOp>(op) && isSumOfChannels(op->getOperand(1 - use.getOperandNumber())))
      return true;
    return once(serves, op, [&] {
      return llvm::all_of(op->getResult(0).getUses(), [&](OpOperand &next) {
        return (isa<SumOp>(op) && isa<vector::BroadcastOp>(next.getOwner())) || servesMatmuls(next);
      });
    });
  }

  /// Whether an operand of a matmul is computed from `use`.
  bool feedsMatmuls(OpOperand &use) {
    Operation *op = use.getOwner();
    if (isa<OuterAddOp, ReadOp>(op))
      return true;
    return op->getNumResults() == 1 && once(feeds, op, [&] {
             return llvm::any_of(op->getResult(0).getUses(),
                                 [&](OpOperand &next) { return feedsMatmuls(next); });
           });
  }

  /// Whether a step only multiplies what it computes from `use`: then rounding the row costs what
  /// rounding a matmul's operand costs, and no difference makes it larger.
  bool isOnlyScaled(OpOperand &use) {
    Operation *op = use.getOwner();
    if (isa<OuterAddOp, ReadOp, YieldOp>(op))
      return true;
    return isa<arith::MulFOp, arith::NegFOp, arith::TruncFOp, arith::ExtFOp, SumOp>(op) &&
           once(scales, op, [&] {
             return llvm::all_of(op->getResult(0).getUses(),
                                 [&](OpOperand &next) { return isOnlyScaled(next); });
           });
  }

private:
  using Known = llvm::DenseMap<Operation *, bool>;

  template <typename Answer> static bool once(Known &known, Operation *op, Answer answer) {
    if (auto found = known.find(op); found != known.end())
      return found->second;
    bool result = answer();
    known[op] = result;
    return result;
  }

  /// Whether `value` is a sum over channels of a vector.
  bool isSumOfChannels(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<SumOp, ReadOp>(op))
      return isa_and_present<SumOp>(op);
    return once(sums, op, [&] {
      return llvm::any_of(op->getOperands(), [&](Value v) { return isSumOfChannels(v); });
    });
  }

  Known serves, feeds, scales, sums;
};
} // namespace

/// Whether a step computes from sequence `number` one value for matmuls and for others.
static bool isMixed(ScanOp scan, unsigned number, RowUses &step) {
  return llvm::any_of(scan.getStep().getArgument(number).getUses(), [&](OpOperand &use) {
    return !step.servesMatmuls(use) && step.feedsMatmuls(use);
  });
}

/// Whether a scan, or the program made of one, hands `rows` to scans that only multiply it.
static bool isHandedOn(Value rows) {
  if (!isa_and_nonnull<ScanOp, tile::ProgramOp, tile::ChooseOp>(rows.getDefiningOp()))
    return false;
  return llvm::all_of(rows.getUsers(), [&](Operation *user) {
    auto scan = dyn_cast<ScanOp>(user);
    RowUses step;
    return scan &&
           llvm::all_of(llvm::zip(scan.getSequenceArgs(), scan.getSequences()), [&](auto pair) {
             auto [arg, tensor] = pair;
             return tensor != rows || llvm::all_of(arg.getUses(), [&](OpOperand &use) {
                      return step.isOnlyScaled(use);
                    });
           });
  });
}

/// Lets the matmuls of the step take sequence `number` in 16 bits. Other uses keep the f32 rows,
/// unless those were only widened, or `all` uses take them. Returns whether any matmul does.
static bool narrowSequence(ScanOp scan, unsigned number, bool all) {
  Value wide = scan.getSequences()[number];
  BlockArgument arg = scan.getStep().getArgument(number);
  bool isExact = all || isWidened(wide);
  SmallVector<OpOperand *> matmuls;
  RowUses step;
  for (OpOperand &use : arg.getUses())
    if (isExact || step.servesMatmuls(use))
      matmuls.push_back(&use);
  if (matmuls.empty() && !isExact)
    return false;
  Value rows = narrowed(wide);
  auto type = cast<VectorType>(arg.getType());
  Type narrow = type.clone(getElementTypeOrSelf(rows.getType()));
  BlockArgument narrowArg = arg;
  if (llvm::hasNItems(arg.getUses(), matmuls.size())) {
    scan.getSequencesMutable()[number].set(rows);
    arg.setType(narrow);
  } else {
    unsigned place = scan.getSequences().size();
    scan.getSequencesMutable().append(rows);
    narrowArg = scan.getStep().insertArgument(place, narrow, arg.getLoc());
  }
  OpBuilder b = OpBuilder::atBlockBegin(&scan.getStep());
  auto widened = arith::ExtFOp::create(b, arg.getLoc(), type, narrowArg);
  for (OpOperand *use : matmuls)
    use->set(widened);
  return true;
}

/// The rows that gates' gradients multiply what is read by. Where operands have two terms, the matmuls that
/// make what is read take these rows as they are, too, in all scans of `function`.
static SmallVector<Value> rowsOfCancellingPairs(func::FuncOp function) {
  SmallVector<Value> rows;
  if (!function)
    return rows;
  for (ScanOp scan : function.getBody().getOps<ScanOp>())
    for (auto pair : scan.getStep().getOps<CancellingPairOp>())
      llvm::append_range(rows, findSequences(scan, pair.getVector()));
  return rows;
}

/// Rows that a scan before makes of 16-bit rows, as normalised keys, and that `scans` only multiply:
/// they are rounded for all uses, as if they had been given in 16 bits. Then what multiplies them in
/// one scan and in another has the same bits, and none of them is stored twice. Not in two terms.
static llvm::DenseSet<Value> rowsRoundedForAll(ArrayRef<ScanOp> scans) {
  llvm::DenseSet<Value> found;
  if (llvm::any_of(scans, isInTwoTerms))
    return found;
  for (ScanOp scan : scans)
    if (findOperandSources(scan, /*roundComputed=*/true).mayBeRounded())
      for (Value rows : findSequences(scan, operandsOfMatmuls(scan)))
        if (isMadeOfNarrowRows(rows))
          found.insert(rows);
  for (ScanOp scan : scans) {
    RowUses step;
    auto isMultiplied = [&](OpOperand &use) {
      return step.servesMatmuls(use) || step.isOnlyScaled(use);
    };
    for (auto [arg, rows] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
      if (!llvm::all_of(arg.getUses(), isMultiplied))
        found.erase(rows);
    for (Value rows : findSequences(scan, gatesOf(scan)))
      found.erase(rows);
  }
  return found;
}

unsigned ejk::narrowOperands(ArrayRef<ScanOp> scans, bool roundComputed) {
  unsigned count = 0;
  // What one scan needs in f32 for more than its matmuls stays f32 in all: states and their
  // gradients cancel only if the scans compute a value from the same rows.
  llvm::DenseSet<Value> mixed, handedOn;
  for (ScanOp scan : scans)
    if (isInTwoTerms(scan))
      mixed.insert_range(rowsOfCancellingPairs(scan->getParentOfType<func::FuncOp>()));
  for (ScanOp scan : scans) {
    RowUses step;
    for (auto [i, rows] : llvm::enumerate(scan.getSequences()))
      if (isRows(rows) && isMixed(scan, i, step))
        (isHandedOn(rows) && !isInTwoTerms(scan) ? handedOn : mixed).insert(rows);
    // Vectors that nearly cancel are rounded where matmuls take them, to two terms.
    SmallVector<Value> cancelling;
    for (auto add : scan.getStep().getOps<OuterAddOp>())
      if (add.getCorrects())
        cancelling.append({add.getKey(), add.getValue()});
    for (Value rows : findSequences(scan, cancelling))
      mixed.insert(rows);
  }
  llvm::DenseSet<Value> asGiven =
      roundComputed ? rowsRoundedForAll(scans) : llvm::DenseSet<Value>();
  for (ScanOp scan : scans) {
    auto narrowAll = [&](llvm::function_ref<bool(Value)> isWanted) {
      for (unsigned i = 0, n = scan.getSequences().size(); i < n; ++i) {
        Value rows = scan.getSequences()[i];
        if (!isRows(rows) || !getElementTypeOrSelf(rows.getType()).isF32() || !isWanted(rows))
          continue;
        count += narrowSequence(scan, i, handedOn.contains(rows) || asGiven.contains(rows));
      }
    };
    narrowAll([&](Value rows) { return isWidened(rows) || asGiven.contains(rows); });
    if (!findOperandSources(scan, roundComputed).mayBeRounded())
      continue;
    auto operands = findSequences(scan, operandsOfMatmuls(scan));
    auto gates = findSequences(scan, gatesOf(scan));
    narrowAll([&](Value rows) {
      return operands.contains(rows) && !gates.contains(rows) && !mixed.contains(rows);
    });
  }
  return count;
}

namespace {
struct NarrowOperandsPass : ejk::impl::NarrowOperandsBase<NarrowOperandsPass> {
  using NarrowOperandsBase::NarrowOperandsBase;

  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    numNarrowed += narrowOperands(scans, roundComputed);
  }
};
} // namespace
