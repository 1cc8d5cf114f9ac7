//===- RowKernel.cpp - the kernel of rows without a state ------------------===//
//
// Emits the kernel of a RowPlan: rows are computed in registers, side by side.
//
//   for each round:
//     load the rows of this group, and those that shifts of them are; rows of others are zero
//     for each row of the group: compute it, store its outputs, add what is summed over rows
//   add up what groups and warps have summed, in their order; store it
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/ShiftedRows.h"
#include "lowering/kernels/StepElements.h"
#include "lowering/step/StepEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

/// Whether the lanes of a row have different parts of `value`.
static bool isDivided(Value value) { return hasChannels(value); }

namespace ejk {
/// The values of one row that a lane has: its units of a vector, or a number that all lanes have.
using RowTile = SmallVector<Value>;

class RowEmitter {
public:
  explicit RowEmitter(StepEmitter &e) : e(e), b(e.b), scan(e.scan), plan(*e.plan.ofRows) {}
  void run();

private:
  struct Row {
    /// Counted from the round's first one, and in the sequence.
    Value place, position;
    llvm::DenseMap<Value, RowTile> known;
  };

  void locateLanes();
  /// Whether this lane is the one that stores the number of its row.
  Value hasNumber() { return plan.heads > 1 ? e.hasHead : b.equal(laneOfRow, 0); }
  void takeParameters();
  Type ofLane(Type type);
  RowTile load(Value base, Type element, bool isVector);
  unsigned sharedBy(unsigned sequence);
  RowTile loadRow(unsigned sequence, int64_t place, bool careful);
  RowTile evaluate(Value value, Row &row);
  RowTile compute(Value value, Row &row);
  Value reduced(Operation *op, const RowTile &vector);
  RowTile rotated(RowTile vector);
  Value shuffled(Value value, unsigned distance);
  void store(Row &row, Value exists);
  unsigned rowsOfRound() const { return plan.groups() * plan.rows; }
  Value isWithin(Value left);
  RowTile addTo(ArrayRef<Value> sums, Value added, Row &row);
  /// The units of the `i`-th sum.
  unsigned sumsOf(unsigned i) { return isDivided(scan.getStateArgs()[i]) ? plan.units : 1; }
  SmallVector<Value> computeRound(Value position, Value left, ValueRange sums, bool careful);
  void addUp(ArrayRef<RowTile> sums);

  StepEmitter &e;
  KernelBuilder &b;
  ScanOp scan;
  const RowPlan &plan;

  Value laneOfRow, group; // i32
  /// The first channel of each unit, at most the row's last one but `width`; and whether it is the
  /// row's, null where all are.
  SmallVector<Value> channels, isOfRow;
  llvm::DenseMap<Value, RowTile> parameters;
  /// The group's first row in a round, and the address of its first row of each sequence.
  Value groupRow;
  SmallVector<Value> starts;
  // Of a round: its first row; the least and the largest row that are of the sequence, counted from
  // it; and by sequence and place what is loaded.
  Value round, least, most;
  llvm::DenseMap<unsigned, Value> firstOfRound;
  llvm::DenseMap<std::pair<unsigned, int64_t>, RowTile> loaded;
};
} // namespace ejk

Type RowEmitter::ofLane(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  bool hasUnits = vector && vector.getNumElements() > 1;
  return KernelBuilder::withCount(type, hasUnits ? plan.width : 1);
}

void RowEmitter::locateLanes() {
  Value lane = b.rem(e.thread, kWarpSize);
  laneOfRow = b.rem(lane, plan.lanes);
  group = b.div(e.thread, plan.lanes);
  for (unsigned unit = 0; unit < plan.units; ++unit) {
    Value channel = b.mul(b.add(laneOfRow, unit * plan.lanes), plan.width);
    isOfRow.push_back(plan.isPadded() ? b.less(channel, plan.channels) : Value());
    if (plan.isPadded())
      channel = b.min(channel, b.i32(plan.channels - plan.width));
    channels.push_back(channel);
  }
}

RowTile RowEmitter::load(Value base, Type element, bool isVector) {
  if (!isVector)
    return {b.load(element, base)};
  RowTile tile;
  for (Value channel : channels)
    tile.push_back(
        b.load(KernelBuilder::withCount(element, plan.width), b.at(base, element, channel)));
  return tile;
}

void RowEmitter::takeParameters() {
  for (auto [arg, row] : llvm::zip(scan.getParameterArgs(), e.parameters))
    parameters[arg] = load(row.base, row.element, isDivided(arg));
}

/// The first of the sequences of the same tensor, and halo, which share what they load.
unsigned RowEmitter::sharedBy(unsigned sequence) {
  auto haloOf = [&](unsigned i) {
    ShiftOp shift = e.sequences[i].shift;
    return shift ? shift.getHalo() : Value();
  };
  Value tensor = loadedTensor(scan, scan.getSequences()[sequence]);
  unsigned first = 0;
  while (loadedTensor(scan, scan.getSequences()[first]) != tensor ||
         haloOf(first) != haloOf(sequence))
    ++first;
  return first;
}

/// Zero in the place of what is not `inside`.
static Value zeroUnless(KernelBuilder &b, Value inside, Value part) {
  // In words, of which a select is one instruction.
  unsigned bytes = KernelBuilder::bytesOf(part.getType());
  Type type = part.getType(), words;
  if (bytes % 4 == 0)
    part =
        b.make<LLVM::BitcastOp>(words = KernelBuilder::withCount(b.getI32Type(), bytes / 4), part);
  SmallVector<Value> each = b.unpack(part);
  for (Value &word : each)
    word = b.make<arith::SelectOp>(inside, word, b.zero(word.getType()));
  part = b.pack(each);
  return words ? b.make<LLVM::BitcastOp>(type, part).getResult() : part;
}

/// The row of a sequence at `place`, counted from the group's first one.
RowTile RowEmitter::loadRow(unsigned sequence, int64_t place, bool careful) {
  StepEmitter::Row &row = e.sequences[sequence];
  int64_t by = row.shift ? row.shift.getBy() : 0;
  place -= by;
  unsigned shared = sharedBy(sequence);
  RowTile &tile = loaded[{shared, place}];
  if (!tile.empty())
    return tile;
  bool isVector = isDivided(scan.getSequenceArgs()[sequence]);
  Value &first = firstOfRound[shared];
  if (!first)
    first = b.at(starts[shared], row.element, b.mul(round, row.stride));
  Value here = b.at(first, row.element, b.mul(row.stride, place));
  if (!careful)
    return tile = load(here, row.element, isVector);
  Value there = b.add(groupRow, place);
  Value inside = b.both(b.less(b.sub(least, 1), there), b.less(there, b.add(most, 1)));
  Value outside = row.base;
  if (row.haloBase) {
    int64_t rows = cast<RankedTensorType>(row.shift.getHalo().getType()).getDimSize(1);
    Value past = b.sub(there, by > 0 ? least : b.add(most, 1));
    Value inHalo = b.min(b.max(by > 0 ? b.add(past, rows) : past, b.i32(0)), b.i32(rows - 1));
    Value haloRow = b.add(b.mul(b.wide(e.sequence), rows), b.wide(inHalo));
    outside = b.at(row.haloBase, row.element, b.mul(haloRow, row.haloStride));
  }
  tile = load(b.make<arith::SelectOp>(inside, here, outside), row.element, isVector);
  if (!row.haloBase)
    for (Value &part : tile)
      part = zeroUnless(b, inside, part);
  return tile;
}

//===----------------------------------------------------------------------===//
// A row's values
//===----------------------------------------------------------------------===//

Value RowEmitter::shuffled(Value value, unsigned distance) {
  return b.make<gpu::ShuffleOp>(value, b.i32(distance), b.i32(kWarpSize), gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

/// The sum or maximum over a row's channels, with the same bits in each of its lanes.
Value RowEmitter::reduced(Operation *op, const RowTile &vector) {
  bool isMax = isa<MaxOp>(op);
  auto combine = [&](Value a, Value c) -> Value {
    return isMax ? b.make<arith::MaximumFOp>(a, c).getResult()
                 : b.make<arith::AddFOp>(a, c).getResult();
  };
  Value none = b.f32(isMax ? -std::numeric_limits<double>::infinity() : 0.0), result;
  for (auto [unit, part] : llvm::enumerate(vector))
    for (Value element : b.unpack(part)) {
      if (isOfRow[unit])
        element = b.make<arith::SelectOp>(isOfRow[unit], element, none);
      result = result ? combine(result, element) : element;
    }
  for (unsigned distance = 1; distance < plan.lanes; distance *= 2)
    result = combine(result, shuffled(result, distance));
  return result;
}

/// The second half of the channels, negated, and the first one.
RowTile RowEmitter::rotated(RowTile vector) {
  Value isFirst = b.less(laneOfRow, plan.lanes / 2);
  SmallVector<Value> elements = b.unpack(vector.front());
  for (Value &element : elements) {
    Value other = shuffled(element, plan.lanes / 2);
    element = b.make<arith::SelectOp>(isFirst, b.make<arith::NegFOp>(other), other);
  }
  return {b.pack(elements)};
}

RowTile RowEmitter::compute(Value value, Row &row) {
  Operation *op = value.getDefiningOp();
  Type type = ofLane(value.getType());
  if (DenseElementsAttr constant; matchPattern(value, m_Constant(&constant))) {
    Attribute element = constant.getSplatValue<Attribute>();
    if (auto vector = dyn_cast<VectorType>(type))
      element = DenseElementsAttr::get(vector, element);
    Value splat = b.make<arith::ConstantOp>(cast<TypedAttr>(element));
    return RowTile(isDivided(value) ? plan.units : 1, splat);
  }
  if (isOnlyChannel(op))
    return evaluate(op->getOperand(0), row);
  if (isReduction(op))
    return {reduced(op, evaluate(op->getOperand(0), row))};
  if (auto rotate = dyn_cast<RotateHalfOp>(op))
    return rotated(evaluate(rotate.getVector(), row));
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    Value number = evaluate(broadcast.getSource(), row).front();
    if (number.getType() != type)
      number = b.make<vector::BroadcastOp>(type, number);
    return RowTile(isDivided(value) ? plan.units : 1, number);
  }
  if (isa<HeadIndexOp, NumHeadsOp>(op)) {
    Value number = isa<HeadIndexOp>(op) ? b.wide(e.queryHead) : e.queryHeads;
    return {b.make<arith::IndexCastOp>(b.getIndexType(), number)};
  }
  if (isa<StepIndexOp>(op))
    return {b.make<arith::IndexCastOp>(b.getIndexType(), row.position)};
  SmallVector<RowTile> operands;
  for (Value operand : op->getOperands())
    operands.push_back(evaluate(operand, row));
  RowTile results;
  for (unsigned unit = 0, n = isDivided(value) ? plan.units : 1; unit < n; ++unit) {
    IRMapping parts;
    for (auto [operand, tile] : llvm::zip(op->getOperands(), operands))
      parts.map(operand, tile[tile.size() == 1 ? 0 : unit]);
    results.push_back(cloneStepOp(b, op, parts, type));
  }
  return results;
}

RowTile RowEmitter::evaluate(Value value, Row &row) {
  if (auto found = row.known.find(value); found != row.known.end())
    return found->second;
  if (auto found = parameters.find(value); found != parameters.end())
    return found->second;
  RowTile tile = compute(value, row);
  row.known[value] = tile;
  return tile;
}

void RowEmitter::store(Row &row, Value exists) {
  Value first = hasNumber();
  Value memoryRow = b.add(round, b.wide(row.place));
  for (auto [value, output] : llvm::zip(scan.getYield().getOutputs(), e.outputs)) {
    RowTile tile = evaluate(value, row);
    Value start = b.at(output.base, output.element, b.mul(memoryRow, output.stride));
    bool isVector = isDivided(value);
    for (unsigned unit = 0; unit < tile.size(); ++unit) {
      Value valid = b.both(exists, isVector ? isOfRow[unit] : first);
      b.onlyIf(valid, [&] {
        b.store(tile[unit], isVector ? b.at(start, output.element, channels[unit]) : start);
      });
    }
  }
}

//===----------------------------------------------------------------------===//
// Sums over rows
//===----------------------------------------------------------------------===//

/// Adds up what the block's groups have summed and stores it. Lanes of a warp's groups come first,
/// then the warps in their order.
void RowEmitter::addUp(ArrayRef<RowTile> sums) {
  Value warp = b.div(e.thread, kWarpSize), lane = b.rem(e.thread, kWarpSize);
  Value leads = b.less(lane, plan.lanes);
  Value shared = e.sharedBase();
  for (auto [i, tile] : llvm::enumerate(sums)) {
    Value pointer = e.finalPointers[i];
    if (!pointer)
      continue;
    Value arg = scan.getStateArgs()[i];
    bool isVector = isDivided(arg);
    unsigned count = isVector ? plan.width : 1;
    if (i)
      b.make<gpu::BarrierOp>(); // the sums before have been read
    auto place = [&](Value ofWarp, unsigned unit) {
      Value channel = isVector         ? b.mul(b.add(laneOfRow, unit * plan.lanes), plan.width)
                      : plan.heads > 1 ? laneOfRow
                                       : b.i32(0);
      return b.at(shared, b.getF32Type(), b.add(b.mul(ofWarp, plan.paddedChannels()), channel));
    };
    for (unsigned unit = 0; unit < tile.size(); ++unit) {
      SmallVector<Value> elements = b.unpack(tile[unit]);
      for (Value &element : elements)
        for (unsigned distance = plan.lanes; distance < kWarpSize; distance *= 2)
          element = b.make<arith::AddFOp>(element, shuffled(element, distance));
      b.onlyIf(leads, [&] { b.store(b.pack(elements), place(warp, unit)); });
    }
    b.make<gpu::BarrierOp>();
    Value start = b.at(pointer, b.getF32Type(), e.stateOffset(arg.getType(), e.stateIndex));
    for (unsigned unit = 0; unit < tile.size(); ++unit) {
      Value first = b.both(leads, b.equal(warp, 0));
      first = b.both(first, isVector ? isOfRow[unit] : hasNumber());
      b.onlyIf(first, [&] {
        Type type = KernelBuilder::withCount(b.getF32Type(), count);
        Value sum = b.load(type, place(b.i32(0), unit));
        for (unsigned other = 1; other < plan.warps; ++other)
          sum = b.make<arith::AddFOp>(sum, b.load(type, place(b.i32(other), unit)));
        b.store(sum, isVector ? b.at(start, b.getF32Type(), channels[unit]) : start);
      });
    }
  }
}

//===----------------------------------------------------------------------===//
// The rounds
//===----------------------------------------------------------------------===//

/// Whether all rows of a round exist, and all that shifts of them are.
Value RowEmitter::isWithin(Value left) {
  int64_t before = 0, after = 0;
  for (const StepEmitter::Row &row : e.sequences)
    if (ShiftOp shift = row.shift) {
      before = std::max<int64_t>(before, shift.getBy());
      after = std::max<int64_t>(after, -int64_t(shift.getBy()));
    }
  Value within = b.less(b.i32(rowsOfRound() - 1), left);
  if (before)
    within = b.both(within, b.less(least, 1 - before));
  if (after)
    within = b.both(within, b.less(b.i32(rowsOfRound() + after - 2), most));
  return within;
}

/// `sums` with what `row` adds to them. As in an outer product, a product is added before it is
/// rounded.
RowTile RowEmitter::addTo(ArrayRef<Value> sums, Value added, Row &row) {
  auto product = added.getDefiningOp<arith::MulFOp>();
  bool isFused = product && product->hasOneUse();
  RowTile x = evaluate(isFused ? product.getLhs() : added, row);
  RowTile y = isFused ? evaluate(product.getRhs(), row) : RowTile();
  RowTile totals;
  for (auto [i, sum] : llvm::enumerate(sums)) {
    auto part = [&](const RowTile &tile) { return tile[tile.size() == 1 ? 0 : i]; };
    totals.push_back(isFused ? b.make<math::FmaOp>(part(x), part(y), sum).getResult()
                             : b.make<arith::AddFOp>(sum, part(x)).getResult());
  }
  return totals;
}

/// Computes a round's rows. Rows that do not exist, or are not of the sequence, are only looked for
/// if `careful`.
SmallVector<Value> RowEmitter::computeRound(Value position, Value left, ValueRange sums,
                                            bool careful) {
  loaded.clear();
  firstOfRound.clear();
  SmallVector<Row> rows(plan.rows);
  for (auto [j, row] : llvm::enumerate(rows)) {
    row.place = b.add(groupRow, j);
    row.position = b.add(position, b.wide(row.place));
    for (auto [i, arg] : llvm::enumerate(scan.getSequenceArgs()))
      row.known[arg] = loadRow(i, j, careful);
  }
  SmallVector<Value> next(sums);
  for (Row &row : rows) {
    Value exists = careful ? b.less(row.place, left) : Value();
    store(row, exists);
    auto sum = next.begin();
    for (unsigned i = 0, n = scan.getNumStates(); i < n; ++i)
      for (Value total : addTo(ArrayRef(&*sum, sumsOf(i)), RowPlan::addedTo(scan, i), row)) {
        *sum = exists ? b.make<arith::SelectOp>(exists, total, *sum).getResult() : total;
        ++sum;
      }
  }
  return next;
}

void RowEmitter::run() {
  locateLanes();
  takeParameters();
  SmallVector<Value> carried;
  for (Value arg : scan.getStateArgs())
    carried.append(isDivided(arg) ? plan.units : 1, b.zero(ofLane(arg.getType())));
  groupRow = b.mul(group, plan.rows);
  for (const StepEmitter::Row &row : e.sequences)
    starts.push_back(b.at(row.base, row.element, b.mul(b.wide(groupRow), row.stride)));
  Value before = e.firstPosition ? e.firstPosition : b.i64(0);
  carried = b.loop(b.i64(0), e.length, rowsOfRound(), carried, [&](Value at, ValueRange sums) {
    round = at;
    // No row that is loaded is farther than this from the round's first one.
    constexpr int64_t kFar = 1 << 20;
    Value position = b.add(before, at);
    least = b.narrow(b.max(b.sub(b.i64(0), position), b.i64(-kFar)));
    most = b.narrow(b.min(b.sub(b.sub(e.sequenceLength, 1), position), b.i64(kFar)));
    Value left = b.narrow(b.min(b.sub(e.length, at), b.i64(rowsOfRound())));
    auto branch = b.make<scf::IfOp>(TypeRange(sums), isWithin(left), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    for (bool careful : {false, true}) {
      b.setInsertionPointToStart(careful ? branch.elseBlock() : branch.thenBlock());
      SmallVector<Value> next = computeRound(position, left, sums, careful);
      if (!next.empty()) // without results, the builder has made the terminators
        b.make<scf::YieldOp>(next);
    }
    return SmallVector<Value>(branch.getResults());
  });
  SmallVector<RowTile> sums;
  auto next = carried.begin();
  for (Value arg : scan.getStateArgs()) {
    unsigned parts = isDivided(arg) ? plan.units : 1;
    sums.emplace_back(next, next + parts);
    next += parts;
  }
  if (!sums.empty())
    addUp(sums);
}

void StepEmitter::runRows() { RowEmitter(*this).run(); }
