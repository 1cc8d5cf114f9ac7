//===- HoistReductions.cpp - hoist sums over channels to their terms -------===//
//
// A vector is *only summed* if each use is an ejk.sum, or an addition, an ejk.checkpoint, a head's
// ejk.gate_gradient, a state, or a sequence of a later scan that is itself only summed. Such states
// and sequences become scalars: the sum over channels is taken of each term, because the sum of
// vectors is the sum of their sums.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/Searches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Passes.h"
#include "passes/scan/ScanGroups.h"
#include "passes/scan/TensorSums.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {
#define GEN_PASS_DEF_HOISTREDUCTIONS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

static bool isVector(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector && vector.getRank() == 1;
}

/// The index of `value` in `all`.
static unsigned placeIn(ValueRange all, Value value) {
  return llvm::find(all, value) - all.begin();
}

namespace {
/// Finds the values that are only summed, from the last scan to the first.
class OnlySummed {
public:
  explicit OnlySummed(ArrayRef<ScanOp> scans) {
    for (ScanOp scan : llvm::reverse(scans)) {
      for (auto [arg, final] : llvm::zip(scan.getStateArgs(), scan.getFinalStates()))
        if (isVector(arg) && !scan.getInitialState(placeIn(scan.getFinalStates(), final)) &&
            isTensorOnlySummed(final))
          args.insert(arg);
      for (bool changed = true; changed;) {
        changed = false;
        for (Value arg : scan.getStateArgs())
          if (args.contains(arg) && !holdsFor(arg))
            changed |= args.erase(arg);
      }
      for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
        if (isVector(arg) && isMadeBy(tensor, scans) && tensor.hasOneUse() && !arg.use_empty() &&
            holdsFor(arg)) {
          args.insert(arg);
          outputs.insert(tensor);
        }
    }
  }

  bool isArg(Value arg) const { return args.contains(arg); }
  bool isOutput(Value tensor) const { return outputs.contains(tensor); }
  unsigned size() const { return args.size(); }

private:
  static bool isMadeBy(Value tensor, ArrayRef<ScanOp> scans) {
    auto source = tensor.getDefiningOp<ScanOp>();
    return source && llvm::is_contained(scans, source) &&
           llvm::is_contained(source.getOutputs(), tensor) &&
           cast<RankedTensorType>(tensor.getType()).getElementType().isF32();
  }

  /// Whether the only use of a final state is its sum over channels.
  static bool isTensorOnlySummed(Value final) {
    return llvm::all_of(final.getUsers(), [](Operation *user) {
      auto generic = dyn_cast<linalg::GenericOp>(user);
      return isa<tensor::DimOp>(user) || (generic && isSumOver(generic, 2));
    });
  }

  /// Whether only sums take what `yield` hands on as its operand `number`.
  bool isSummedLater(YieldOp yield, unsigned number) const {
    unsigned states = yield.getStates().size();
    auto scan = cast<ScanOp>(yield->getParentOp());
    if (number < states)
      return args.contains(scan.getStateArgs()[number]);
    number -= states;
    return number < scan.getOutputs().size() && outputs.contains(scan.getOutputs()[number]);
  }

  bool holdsFor(Value value) const {
    return !meetsAmongUses(value, [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (isa<SumOp>(user))
        return Met::nothing;
      if (isa<arith::AddFOp, arith::SubFOp>(user) || isa<CheckpointOp>(user))
        return Met::more;
      if (auto masked = dyn_cast<GateGradientOp>(user))
        return isVector(masked.getGate()) ? Met::wanted : Met::more;
      auto yield = dyn_cast<YieldOp>(user);
      return yield && isSummedLater(yield, use.getOperandNumber()) ? Met::nothing : Met::wanted;
    });
  }

  llvm::DenseSet<Value> args, outputs;
};

/// Rewrites one scan.
class Rewriter {
public:
  Rewriter(ScanOp scan, const OnlySummed &summed)
      : scan(scan), summed(summed), outer(scan), inner(scan.getContext()) {}

  ScanOp run() {
    ScanOp made = create();
    inner.setInsertionPointToStart(&made.getStep());
    for (BlockArgument arg : narrowed)
      numbers[arg] =
          arg.getOwner()->insertArgument(arg.getArgNumber() + 1, inner.getF32Type(), arg.getLoc());
    SmallVector<Operation *> ops;
    for (Operation &op : made.getStep())
      ops.push_back(&op);
    for (Operation *op : ops)
      visit(op);
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
    for (BlockArgument arg : narrowed)
      arg.getOwner()->eraseArgument(arg.getArgNumber());
    replaceResults(made);
    return made;
  }

private:
  RankedTensorType withoutChannels(Type type) {
    return RankedTensorType::get(cast<RankedTensorType>(type).getShape().drop_back(),
                                 outer.getF32Type());
  }

  /// The new scan, whose step still has the vectors.
  ScanOp create() {
    SmallVector<Type> results(scan->getResultTypes());
    for (auto [i, output] : llvm::enumerate(scan.getOutputs()))
      if (summed.isOutput(output))
        results[i] = withoutChannels(output.getType());
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
      if (summed.isArg(arg)) {
        results[scan.getOutputs().size() + i] = withoutChannels(scan.getFinalStates()[i].getType());
        narrowed.push_back(cast<BlockArgument>(arg));
      }
    for (Value arg : scan.getSequenceArgs())
      if (summed.isArg(arg))
        narrowed.push_back(cast<BlockArgument>(arg));
    OperationState state(scan.getLoc(), scan->getName());
    state.addOperands(scan->getOperands());
    state.addTypes(results);
    state.propertiesAttr = scan->getPropertiesAsAttribute();
    state.attributes = scan->getDiscardableAttrDictionary();
    state.addRegion()->takeBody(scan.getBody());
    return cast<ScanOp>(outer.create(state));
  }

  /// The sum of `vector` over channels, before the current op.
  Value sumOf(Value vector) {
    Value &number = numbers[vector];
    if (!number)
      number = SumOp::create(inner, vector.getLoc(), inner.getF32Type(), vector);
    return number;
  }

  void visit(Operation *op) {
    inner.setInsertionPoint(op);
    auto isKnown = [&](Value v) { return numbers.contains(v); };
    if (auto sum = dyn_cast<SumOp>(op)) {
      if (isKnown(sum.getVector()))
        sum.replaceAllUsesWith(numbers[sum.getVector()]);
    } else if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      if (isKnown(checkpoint.getVector()))
        numbers[checkpoint.getResult()] = CheckpointOp::create(
            inner, op->getLoc(), inner.getF32Type(), numbers[checkpoint.getVector()],
            checkpoint.getState(), checkpoint.getSaved(), Axis::head);
    } else if (auto masked = dyn_cast<GateGradientOp>(op)) {
      if (isKnown(masked.getGradient()) && !isVector(masked.getGate()))
        numbers[masked.getResult()] = GateGradientOp::create(
            inner, op->getLoc(), inner.getF32Type(), numbers[masked.getGradient()],
            masked.getGate(), masked.getZeroFirst(), masked.getZeroLast());
    } else if (isa<arith::AddFOp, arith::SubFOp>(op) && isVector(op->getResult(0)) &&
               (isKnown(op->getOperand(0)) || isKnown(op->getOperand(1)))) {
      Value lhs = sumOf(op->getOperand(0)), rhs = sumOf(op->getOperand(1));
      numbers[op->getResult(0)] =
          isa<arith::AddFOp>(op) ? arith::AddFOp::create(inner, op->getLoc(), lhs, rhs).getResult()
                                 : arith::SubFOp::create(inner, op->getLoc(), lhs, rhs).getResult();
    } else if (auto yield = dyn_cast<YieldOp>(op)) {
      visitYield(yield);
    }
  }

  void visitYield(YieldOp yield) {
    unsigned states = yield.getStates().size();
    auto made = cast<ScanOp>(yield->getParentOp());
    for (auto [i, final] : llvm::enumerate(made.getFinalStates()))
      if (final.getType() != scan.getFinalStates()[i].getType())
        yield.setOperand(i, sumOf(yield.getStates()[i]));
    for (auto [i, output] : llvm::enumerate(made.getOutputs()))
      if (output.getType() != scan.getOutputs()[i].getType())
        yield.setOperand(states + i, sumOf(yield.getOutputs()[i]));
  }

  void replaceResults(ScanOp made) {
    for (auto [old, result] : llvm::zip(scan->getResults(), made->getResults())) {
      if (old.getType() == result.getType()) {
        old.replaceAllUsesWith(result);
        continue;
      }
      for (OpOperand &use : llvm::make_early_inc_range(old.getUses())) {
        auto generic = dyn_cast<linalg::GenericOp>(use.getOwner());
        if (!generic) { // a later scan's sequence, or a size
          use.set(result);
          continue;
        }
        // Its users may have other dynamic sizes.
        Value sum = result;
        if (Type type = generic.getResult(0).getType(); type != sum.getType()) {
          OpBuilder b(generic);
          sum = tensor::CastOp::create(b, generic.getLoc(), type, sum);
        }
        generic.getResult(0).replaceAllUsesWith(sum);
        generic.erase();
      }
    }
    scan.erase();
  }

  ScanOp scan;
  const OnlySummed &summed;
  OpBuilder outer, inner;
  /// States and sequences.
  SmallVector<BlockArgument> narrowed;
  /// The sums over channels of vectors.
  llvm::DenseMap<Value, Value> numbers;
};
} // namespace

unsigned ejk::hoistReductions(MutableArrayRef<ScanOp> scans) {
  OnlySummed summed(scans);
  if (!summed.size())
    return 0;
  for (ScanOp &scan : scans)
    if (llvm::any_of(scan.getStep().getArguments(), [&](Value v) { return summed.isArg(v); }) ||
        llvm::any_of(scan.getOutputs(), [&](Value v) { return summed.isOutput(v); }))
      scan = Rewriter(scan, summed).run();
  return summed.size();
}

namespace {
struct HoistReductionsPass : ejk::impl::HoistReductionsBase<HoistReductionsPass> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    // A scan with queries is no block program.
    getOperation()->walk([&](ScanOp scan) {
      if (scan.getQueries().empty())
        scans.push_back(scan);
    });
    numSummed += hoistReductions(scans);
  }
};
} // namespace
