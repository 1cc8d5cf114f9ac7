//===- TileProgram.cpp - a block program as nested lists of actions -------===//
#include "dialect/reference/TileProgram.h"
#include "dialect/reference/Constants.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <utility>

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

bool ejk::reference::fail(TileFrame &frame, Operation *op, std::string problem) {
  if (!frame.problem.at)
    frame.problem = {op, std::move(problem), {}};
  return false;
}

bool ejk::reference::runAll(const TileActions &actions, TileFrame &frame) {
  for (const TileAction &action : actions)
    if (!action(frame))
      return false;
  return true;
}

static void copy(TileFrame &frame, Slot from, Slot to) {
  Row source = frame.row(from), target = frame.row(to);
  if (from.isInt)
    std::copy_n(source.ints, from.size, target.ints);
  else
    std::copy_n(source.floats, from.size, target.floats);
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

Slot TileCompiler::allocate(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  Slot slot;
  slot.isInt = !isa<FloatType>(getElementTypeOrSelf(type));
  slot.size = vector ? vector.getNumElements() : 1;
  size_t &end = slot.isInt ? program.numInts : program.numFloats;
  slot.offset = end;
  end += slot.size;
  return slot;
}

void TileCompiler::compileHandOver(ArrayRef<Slot> from, ArrayRef<Slot> to, TileActions &into) {
  SmallVector<std::pair<Slot, Slot>> moves;
  for (auto [source, target] : llvm::zip_equal(from, to))
    if (!(source == target))
      moves.push_back({source, target});
  bool direct = llvm::none_of(moves, [&](auto move) { return llvm::is_contained(to, move.first); });
  SmallVector<Slot> waiting;
  for (auto [source, target] : moves) {
    Slot slot = source;
    if (!direct) {
      size_t &end = slot.isInt ? program.numInts : program.numFloats;
      slot.offset = end;
      end += slot.size;
    }
    waiting.push_back(slot);
  }
  into.push_back([=](TileFrame &frame) {
    if (!direct)
      for (auto [move, slot] : llvm::zip(moves, waiting))
        copy(frame, move.first, slot);
    for (auto [move, slot] : llvm::zip(moves, waiting))
      copy(frame, slot, move.second);
    return true;
  });
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

LogicalResult TileCompiler::compileFor(scf::ForOp op) {
  SmallVector<Slot> args, results, yielded;
  Slot index = slots[op.getInductionVar()] = allocate(op.getInductionVar().getType());
  for (auto [arg, result] : llvm::zip(op.getRegionIterArgs(), op.getResults())) {
    args.push_back(slots[arg] = allocate(arg.getType()));
    results.push_back(slots[result] = args.back());
  }
  SmallVector<Slot> inits =
      llvm::map_to_vector(op.getInitArgs(), [&](Value v) { return slotOf(v); });
  compileHandOver(inits, args, *actions);
  TileActions body;
  if (failed(compileBlock(*op.getBody(), body)))
    return failure();
  for (Value value : op.getYieldedValues())
    yielded.push_back(slotOf(value));
  compileHandOver(yielded, args, body);
  Slot lower = slotOf(op.getLowerBound()), upper = slotOf(op.getUpperBound()),
       step = slotOf(op.getStep());
  Operation *loop = op;
  add([=, body = std::move(body)](TileFrame &frame) {
    int64_t begin = *frame.row(lower).ints, end = *frame.row(upper).ints;
    int64_t stride = *frame.row(step).ints;
    if (stride <= 0)
      return fail(frame, loop, "the step must be positive, but is " + std::to_string(stride));
    for (int64_t i = begin; i < end; i += stride) {
      *frame.row(index).ints = i;
      if (!runAll(body, frame))
        return false;
    }
    return true;
  });
  return success();
}

LogicalResult TileCompiler::compileSide(Region &side, ArrayRef<Slot> results, TileActions &into) {
  if (side.empty())
    return success();
  if (failed(compileBlock(side.front(), into)))
    return failure();
  SmallVector<Slot> yielded;
  for (Value value : side.front().getTerminator()->getOperands())
    yielded.push_back(slotOf(value));
  compileHandOver(yielded, results, into);
  return success();
}

LogicalResult TileCompiler::compileIf(scf::IfOp op) {
  SmallVector<Slot> results;
  for (Value result : op.getResults())
    results.push_back(slots[result] = allocate(result.getType()));
  TileActions branches[2];
  for (unsigned i = 0; i < 2; ++i)
    if (failed(compileSide(op->getRegion(i), results, branches[i])))
      return failure();
  Slot condition = slotOf(op.getCondition());
  add([=, then = std::move(branches[0]), otherwise = std::move(branches[1])](TileFrame &frame) {
    return runAll(*frame.row(condition).ints ? then : otherwise, frame);
  });
  return success();
}

/// Whether a path moves items of a ring. Running both paths would move them twice.
static bool movesItems(tile::GuardedOp op) {
  return op
      ->walk([](Operation *inner) {
        return isa<tile::AcquireOp, tile::FillOp, tile::TakeOp, tile::ReleaseOp>(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// ‖a − b‖ / ‖b‖, where numbers that are equal, or both NaN, do not differ.
static double relativeDistance(ArrayRef<double> a, ArrayRef<double> b) {
  double difference = 0, norm = 0;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    if (x != y && !(std::isnan(x) && std::isnan(y)))
      difference += (x - y) * (x - y);
    norm += std::isfinite(y) ? y * y : 0;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

LogicalResult TileCompiler::compileGuarded(tile::GuardedOp op) {
  auto newSlots = [&] {
    return llvm::map_to_vector(op.getResultTypes(), [&](Type type) { return allocate(type); });
  };
  SmallVector<Slot> results = newSlots();
  for (auto [result, slot] : llvm::zip_equal(op.getResults(), results))
    slots[result] = slot;
  TileActions fast, exact, compared;
  if (failed(compileSide(op.getFast(), results, fast)) ||
      failed(compileSide(op.getExact(), results, exact)))
    return failure();
  Slot guard = slotOf(op.getGuard());
  if (!pathTolerance || movesItems(op)) {
    add([=, fast = std::move(fast), exact = std::move(exact)](TileFrame &frame) {
      return runAll(*frame.row(guard).ints ? fast : exact, frame);
    });
    return success();
  }
  SmallVector<Slot> exactResults = newSlots();
  if (failed(compileSide(op.getExact(), exactResults, compared)))
    return failure();
  Operation *at = op;
  double tolerance = *pathTolerance;
  add([=, fast = std::move(fast), exact = std::move(exact),
       compared = std::move(compared)](TileFrame &frame) {
    if (!*frame.row(guard).ints)
      return runAll(exact, frame);
    bool dropped = std::exchange(frame.dropsStores, true);
    bool ran = runAll(compared, frame);
    frame.dropsStores = dropped;
    if (!ran || !runAll(fast, frame))
      return false;
    for (auto [number, pair] : llvm::enumerate(llvm::zip_equal(results, exactResults))) {
      auto [mine, other] = pair;
      if (mine.isInt)
        continue;
      double distance =
          relativeDistance({frame.at(mine), mine.size}, {frame.at(other), other.size});
      if (!(distance <= tolerance))
        return fail(frame, at,
                    llvm::formatv("result {0} of the fast path differs from the exact path's by "
                                  "{1:E3} of its norm, more than {2:E3}",
                                  number, distance, tolerance)
                        .str());
    }
    return true;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Scalars and vectors
//===----------------------------------------------------------------------===//

LogicalResult TileCompiler::compileConstant(arith::ConstantOp op) {
  FailureOr<Tensor> value = constantValue(op, precision);
  if (failed(value))
    return failure();
  program.constants.emplace_back(resultSlot(op), std::move(*value));
  return success();
}

LogicalResult TileCompiler::compileBroadcast(vector::BroadcastOp op) {
  if (isa<VectorType>(op.getSourceType()))
    return op.emitError("in a block program the interpreter broadcasts numbers only; spread a "
                        "vector by 'tile.broadcast'");
  Slot source = slotOf(op.getSource()), result = resultSlot(op);
  addSimple([=](TileFrame &frame) {
    Row in = frame.row(source), out = frame.row(result);
    if (source.isInt)
      std::fill_n(out.ints, result.size, *in.ints);
    else
      std::fill_n(out.floats, result.size, *in.floats);
  });
  return success();
}

namespace {
/// The offset in a tile of the elements that `vector.extract` or `vector.insert` names.
class Position {
public:
  Position(Operation *op, ArrayRef<OpFoldResult> entries, ArrayRef<int64_t> shape, size_t size,
           llvm::function_ref<Slot(Value)> slotOf)
      : op(op) {
    for (auto [entry, dimension] : llvm::zip(entries, shape)) {
      size /= dimension;
      auto attr = dyn_cast<Attribute>(entry);
      parts.push_back({attr ? cast<IntegerAttr>(attr).getInt() : 0,
                       attr ? Slot() : slotOf(cast<Value>(entry)), !attr, dimension, size});
    }
  }

  /// The offset; null, with an error recorded, if it is out of range.
  std::optional<size_t> in(TileFrame &frame) const {
    size_t offset = 0;
    for (const Part &part : parts) {
      int64_t at = part.isDynamic ? *frame.row(part.slot).ints : part.fixed;
      if (at < 0 || at >= part.size) {
        fail(frame, op,
             "position " + std::to_string(at) + " lies outside a dimension of " +
                 std::to_string(part.size));
        return std::nullopt;
      }
      offset += at * part.stride;
    }
    return offset;
  }

private:
  struct Part {
    int64_t fixed;
    Slot slot;
    bool isDynamic;
    int64_t size;
    size_t stride;
  };
  Operation *op;
  SmallVector<Part> parts;
};
} // namespace

static void copyElements(const Slot &from, Row in, size_t first, Row out, size_t to, size_t count) {
  if (from.isInt)
    std::copy_n(in.ints + first, count, out.ints + to);
  else
    std::copy_n(in.floats + first, count, out.floats + to);
}

LogicalResult TileCompiler::compileExtract(vector::ExtractOp op) {
  Slot source = slotOf(op.getSource()), result = resultSlot(op);
  Position position(op, op.getMixedPosition(), op.getSourceVectorType().getShape(), source.size,
                    [&](Value v) { return slotOf(v); });
  add([=](TileFrame &frame) {
    std::optional<size_t> first = position.in(frame);
    if (first)
      copyElements(source, frame.row(source), *first, frame.row(result), 0, result.size);
    return first.has_value();
  });
  return success();
}

LogicalResult TileCompiler::compileInsert(vector::InsertOp op) {
  Slot part = slotOf(op.getValueToStore()), dest = slotOf(op.getDest()), result = resultSlot(op);
  Position position(op, op.getMixedPosition(), op.getDestVectorType().getShape(), dest.size,
                    [&](Value v) { return slotOf(v); });
  add([=](TileFrame &frame) {
    std::optional<size_t> first = position.in(frame);
    if (!first)
      return false;
    copyElements(dest, frame.row(dest), 0, frame.row(result), 0, dest.size);
    copyElements(part, frame.row(part), 0, frame.row(result), *first, part.size);
    return true;
  });
  return success();
}

LogicalResult TileCompiler::compileElementwise(Operation *op) {
  RowKernel kernel = elementwiseKernel(op, precision);
  if (!kernel)
    return unknownOp(op);
  SmallVector<Slot> operands =
      llvm::map_to_vector(op->getOperands(), [&](Value v) { return slotOf(v); });
  Slot result = resultSlot(op);
  // A select's condition may be one i1 for a whole tile.
  SmallVector<std::pair<Slot, Slot>> spread;
  for (Slot &operand : operands)
    if (operand.size != result.size) {
      Slot wide =
          allocate(VectorType::get({int64_t(result.size)}, IndexType::get(op->getContext())));
      spread.push_back({operand, wide});
      operand = wide;
    }
  addSimple([=](TileFrame &frame) {
    for (auto [narrow, wide] : spread)
      std::fill_n(frame.row(wide).ints, wide.size, *frame.row(narrow).ints);
    Row rows[4];
    for (size_t i = 0; i < operands.size(); ++i)
      rows[i] = frame.row(operands[i]);
    kernel(rows, frame.row(result), result.size);
  });
  return success();
}

LogicalResult TileCompiler::compileOp(Operation *op) {
  checkTaken(op);
  for (Type type : op->getResultTypes())
    if (!isa<tile::MakeRingOp, tile::SlotRowsOp>(op) &&
        !isSupportedElement(getElementTypeOrSelf(type)))
      return op->emitError() << "the interpreter does not hold values of type " << type;
  if (isa<tile::TileDialect>(op->getDialect()))
    return compileTileOp(op);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp op) { return compileFor(op); })
      .Case([&](scf::IfOp op) { return compileIf(op); })
      .Case([&](arith::ConstantOp op) { return compileConstant(op); })
      .Case([&](vector::BroadcastOp op) { return compileBroadcast(op); })
      .Case([&](vector::ExtractOp op) { return compileExtract(op); })
      .Case([&](vector::InsertOp op) { return compileInsert(op); })
      .Default([&](Operation *op) { return compileElementwise(op); });
}

LogicalResult TileCompiler::compileBlock(Block &block, TileActions &into) {
  TileActions *outer = actions;
  actions = &into;
  // A partition's block has no terminator.
  bool terminated = block.mightHaveTerminator();
  for (Operation &op :
       llvm::make_range(block.begin(), terminated ? std::prev(block.end()) : block.end()))
    if (failed(compileOp(&op)))
      return failure();
  if (terminated)
    checkTaken(block.getTerminator());
  actions = outer;
  return success();
}

//===----------------------------------------------------------------------===//
// The whole program
//===----------------------------------------------------------------------===//

FailureOr<TileProgram> TileCompiler::compile() {
  for (BlockArgument arg : op.getBlock().getArguments()) {
    bool isMemory = isa<tile::RowsType, tile::SlotsType>(arg.getType());
    program.argumentSlots.push_back(isMemory ? Slot() : slots[arg] = allocate(arg.getType()));
  }
  program.lengthSlot = slotOf(op.getLength());
  program.sliceSlot = slotOf(op.getSlice());
  program.headSlot = slotOf(op.getHead());
  program.numHeadsSlot = slotOf(op.getNumHeads());
  program.isSegmented = op.getSegments().has_value();
  if (program.isSegmented) {
    program.firstPositionSlot = slotOf(op.getFirstPosition());
    program.sequenceLengthSlot = slotOf(op.getSequenceLength());
  }
  if (failed(compileBlock(op.getBlock(), program.actions)))
    return failure();
  return std::move(program);
}

FailureOr<TileProgram> TileProgram::compile(tile::ProgramOp op, const Options &options) {
  return TileCompiler(op, options).compile();
}

TileFrame TileProgram::makeFrame() const {
  TileFrame frame;
  frame.floats.resize(numFloats);
  frame.ints.resize(numInts);
  frame.memory.resize(argumentSlots.size());
  frame.rings.resize(numRings);
  for (const auto &[slot, value] : constants) {
    llvm::copy(value.floats, frame.floats.begin() + slot.offset * value.isFloat());
    llvm::copy(value.ints, frame.ints.begin() + slot.offset * !value.isFloat());
  }
  return frame;
}

bool TileProgram::run(TileFrame &frame) const {
  *frame.row(lengthSlot).ints = frame.length;
  *frame.row(sliceSlot).ints = frame.slice;
  *frame.row(headSlot).ints = frame.head;
  *frame.row(numHeadsSlot).ints = frame.numHeads;
  if (isSegmented) {
    *frame.row(firstPositionSlot).ints = frame.firstPosition;
    *frame.row(sequenceLengthSlot).ints = frame.sequenceLength;
  }
  return runAll(actions, frame);
}
