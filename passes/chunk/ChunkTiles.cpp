//===- ChunkTiles.cpp - a step's values as a chunk's tiles ----------------===//
#include "passes/chunk/ChunkTiles.h"
#include "mlir/IR/Matchers.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"
#include <limits>

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

VectorType ChunkTiles::tileType(Type type, bool sliced) {
  SmallVector<int64_t> shape = {plan.chunk};
  if (auto vector = dyn_cast<VectorType>(type))
    shape.push_back(plan.width(vector.getDimSize(0), sliced));
  return VectorType::get(shape, getElementTypeOrSelf(type));
}

Type ChunkTiles::paddedType(Type type, bool sliced) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return type;
  return VectorType::get({plan.width(vector.getDimSize(0), sliced)}, vector.getElementType());
}

Value ChunkTiles::channelOffset(int64_t channels, bool sliced) {
  if (!sliced || plan.slices == 1)
    return prologue.index(0);
  return prologue.mulIndex(program.getSlice(), prologue.index(plan.width(channels, true)));
}

static int64_t channelsOf(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.getDimSize(0) : 1;
}

Value ChunkTiles::cloneOp(OpBuilder &b, Operation *op, ValueRange operands, Type type) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(op->getAttrs());
  return b.create(state)->getResult(0);
}

//===----------------------------------------------------------------------===//
// Constant in time
//===----------------------------------------------------------------------===//

Value ChunkTiles::constant(Value value, bool sliced) {
  sliced &= isa<VectorType>(value.getType()) && plan.slices > 1;
  Value &made = constants[{value, sliced}];
  if (!made) {
    Value result = makeConstant(value, sliced);
    return constants[{value, sliced}] = result;
  }
  return made;
}

Value ChunkTiles::padded(arith::ConstantOp op, bool sliced) {
  auto vector = dyn_cast<VectorType>(op.getType());
  if (!vector)
    return cloneOp(prologue.b, op, {}, op.getType());
  auto wide = cast<VectorType>(paddedType(vector, sliced));
  TypedAttr attr;
  if (auto splat = dyn_cast<SplatElementsAttr>(op.getValue())) {
    attr = DenseElementsAttr::get(wide, splat.getSplatValue<Attribute>());
  } else {
    auto elements = cast<DenseElementsAttr>(op.getValue()).getValues<Attribute>();
    SmallVector<Attribute> all(elements.begin(), elements.end());
    all.resize(wide.getDimSize(0), prologue.b.getZeroAttr(vector.getElementType()));
    attr = DenseElementsAttr::get(wide, all);
  }
  return arith::ConstantOp::create(prologue.b, op.getLoc(), attr);
}

Value ChunkTiles::makeConstant(Value value, bool sliced) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    ValueRange stepArgs = plan.scan.getParameterArgs();
    Value inside = program.getParameterArgs()[llvm::find(stepArgs, arg) - stepArgs.begin()];
    if (!isa<tile::SlotsType>(inside.getType()))
      return inside;
    return tile::LoadSlotOp::create(prologue.b, arg.getLoc(), paddedType(arg.getType(), sliced),
                                    inside, prologue.index(0),
                                    ValueRange{channelOffset(channelsOf(arg), sliced)});
  }
  Operation *op = value.getDefiningOp();
  if (auto number = dyn_cast<arith::ConstantOp>(op))
    return padded(number, sliced);
  if (isa<HeadIndexOp>(op))
    return program.getHead();
  if (isa<NumHeadsOp>(op))
    return program.getNumHeads();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(constant(operand, sliced));
  return cloneOp(prologue.b, op, operands, paddedType(value.getType(), sliced));
}

//===----------------------------------------------------------------------===//
// Values that change over time
//===----------------------------------------------------------------------===//

Value ChunkTiles::tile(Value value, bool sliced) {
  sliced &= isa<VectorType>(value.getType()) && plan.slices > 1;
  Value known = tiles.lookup({value, sliced});
  if (!known) {
    known = makeTile(value, sliced);
    tiles[{value, sliced}] = known;
  }
  return known;
}

Value ChunkTiles::makeTile(Value value, bool sliced) {
  VectorType type = tileType(value.getType(), sliced);
  if (plan.isConstant(value)) {
    // A vector with equal channels is broadcast from its scalar.
    Value number = value;
    if (auto spread = value.getDefiningOp<vector::BroadcastOp>())
      number = spread.getSource();
    if (auto splat = value.getDefiningOp<arith::ConstantOp>())
      if (auto attr = dyn_cast<SplatElementsAttr>(splat.getValue()))
        return arith::ConstantOp::create(
            prologue.b, value.getLoc(),
            DenseElementsAttr::get(type, attr.getSplatValue<Attribute>()));
    Value source = constant(number, sliced);
    if (!isa<VectorType>(source.getType()))
      return body.broadcast(source, type);
    // A tile is broadcast in f32, which holds narrower floats exactly.
    Value wide = body.broadcast(body.widen(source), 1, type.getShape());
    return body.round(wide, type.getElementType());
  }
  if (auto [accumulator, k] = plan.sumOf(value); accumulator)
    return sumTile(*accumulator, k);
  if (auto arg = dyn_cast<BlockArgument>(value))
    return tile::LoadOp::create(body.b, arg.getLoc(), type,
                                program.getSequenceArgs()[arg.getArgNumber()], first,
                                channelOffset(channelsOf(arg), sliced));
  Operation *op = value.getDefiningOp();
  if (const StateChain *chain = plan.chainOfWhole(op)) {
    if (!readTiles.contains(op))
      computeChain(*chain);
    return readTiles.lookup(op);
  }
  if (auto pair = dyn_cast<CancellingPairOp>(op); pair && pair.getReadOp()) {
    tile(pair.getRead(), sliced);
    return readTiles.lookup(op);
  }
  if (auto sum = dyn_cast<SumOp>(op)) {
    Value vector = sum.getVector();
    if (plan.isSummedPair(vector)) {
      for (Value operand : vector.getDefiningOp()->getOperands())
        if (auto read = operand.getDefiningOp<ReadOp>())
          computeChain(*plan.chainOf(read));
      return readTiles.lookup(vector.getDefiningOp());
    }
    bool isPadded = channelsOf(vector) != tileType(vector.getType(), false).getDimSize(1);
    return sumOver(isPadded ? masked(vector, false) : tile(vector, false));
  }
  if (auto gradient = dyn_cast<GateGradientOp>(op))
    return gateGradient(gradient, sliced);
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
    return body.broadcast(tile(broadcast.getSource(), false), 0, type.getShape());
  if (ChunkPlan::isPosition(value)) {
    Value start =
        arith::IndexCastOp::create(body.b, body.loc, body.b.getI64Type(), firstPosition());
    start = arith::SIToFPOp::create(body.b, body.loc, body.b.getF32Type(), start);
    return body.add(body.broadcast(start, type),
                    body.cumsum(body.constant(type, 1), /*reverse=*/false, /*exclusive=*/true));
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    bool isNumber = isa<VectorType>(value.getType()) && !isa<VectorType>(operand.getType());
    operands.push_back(!isNumber                  ? tile(operand, sliced)
                       : plan.isConstant(operand) ? constant(operand, false)
                                                  : conditionTile(operand, type));
  }
  if (isa<arith::MulFOp, CancellingPairOp>(op)) {
    for (unsigned side : {0, 1})
      if (Value mul = withScalarsScaled(operands[side], operands[1 - side]))
        return mul;
    return arith::MulFOp::create(body.b, op->getLoc(), operands[0], operands[1]);
  }
  return cloneOp(body.b, op, operands, type);
}

/// Broadcasts a condition per step to the elements of a tile of `type`.
Value ChunkTiles::conditionTile(Value condition, VectorType type) {
  Value bits = tile(condition, false);
  VectorType numbers = body.f32(body.shapeOf(bits));
  Value chosen = body.select(bits, body.constant(numbers, 1), body.constant(numbers, 0));
  return arith::CmpFOp::create(body.b, body.loc, arith::CmpFPredicate::OGT,
                               body.broadcast(chosen, 0, type.getShape()),
                               body.zeros(type.getShape()));
}

/// The position in its sequence of the chunk's first row.
Value ChunkTiles::firstPosition() {
  Value start = program.getFirstPosition();
  return start ? body.addIndex(start, first) : first;
}

Value ChunkTiles::gateGradient(GateGradientOp op, bool sliced) {
  Value gradient = tile(op.getGradient(), sliced), gate = tile(op.getGate(), sliced);
  auto type = cast<VectorType>(gradient.getType());
  if (gate.getType() != type)
    gate = body.broadcast(gate, 0, type.getShape());
  Value lowest = prologue.constant(type, -std::numeric_limits<double>::infinity());
  Value forgets =
      arith::CmpFOp::create(body.b, op.getLoc(), arith::CmpFPredicate::OEQ, gate, lowest);
  Value result = body.select(forgets, prologue.constant(type, 0.0), gradient);
  if (Value inRange = ranges.lookup(op.getGate()))
    result = body.select(inRange, gradient, result);
  if (!op.getZeroFirst() && !op.getZeroLast())
    return result;
  SmallVector<Value> from, to;
  for (int64_t size : type.getShape()) {
    from.push_back(prologue.index(0));
    to.push_back(prologue.index(size));
  }
  Value zero = prologue.index(0), one = prologue.index(1);
  if (op.getZeroFirst()) {
    auto isFirst =
        arith::CmpIOp::create(body.b, op.getLoc(), arith::CmpIPredicate::eq, firstPosition(), zero);
    from.front() = body.select(isFirst, one, zero);
  }
  if (op.getZeroLast()) {
    // Of a segment's rows, those that are left in the sequence.
    Value left = rows;
    if (Value length = program.getSequenceLength())
      left = body.subIndex(length, firstPosition());
    to.front() = body.subIndex(left, one);
  }
  return body.window(result, from, to);
}

/// The constant that `tile` is multiplied by, if any.
static std::optional<double> constantMultiplier(Value tile) {
  auto mul = tile.getDefiningOp<arith::MulFOp>();
  DenseElementsAttr constant;
  if (!mul || !matchPattern(mul.getRhs(), m_Constant(&constant)) || !constant.isSplat())
    return std::nullopt;
  return constant.getSplatValue<APFloat>().convertToDouble();
}

/// `tile` times a scalar per step, `scalars`. A constant multiplier of the tile moves to the
/// scalars, which are fewer; null if there is none.
Value ChunkTiles::withScalarsScaled(Value tile, Value scalars) {
  auto spread = scalars.getDefiningOp<tile::BroadcastOp>();
  std::optional<double> constant = constantMultiplier(tile);
  if (!spread || !constant || !spread.getVector().getType().getElementType().isF32())
    return {};
  Value scaled = body.scale(spread.getVector(), *constant);
  return body.mul(tile.getDefiningOp<arith::MulFOp>().getLhs(),
                  body.broadcast(scaled, spread.getDim(), spread.getType().getShape()));
}

/// The sums of a tile's rows. A constant multiplier is applied after the sum.
Value ChunkTiles::sumOver(Value tile) {
  if (std::optional<double> constant = constantMultiplier(tile))
    return body.scale(body.sum(tile.getDefiningOp<arith::MulFOp>().getLhs(), 1), *constant);
  return body.sum(tile, 1);
}

Value ChunkTiles::masked(Value value, bool sliced) {
  sliced &= isa<VectorType>(value.getType()) && plan.slices > 1;
  Value plain = tile(value, sliced);
  if (plan.isZeroPastEnd(value))
    return plain;
  Value &known = maskedTiles[{value, sliced}];
  if (known)
    return known;
  Value zero = prologue.index(0);
  SmallVector<Value> from = {zero}, to = {rows};
  if (isa<VectorType>(value.getType())) {
    Value channels = prologue.index(channelsOf(value));
    from.push_back(zero);
    to.push_back(sliced && plan.slices > 1
                     ? prologue.subIndex(channels, channelOffset(channelsOf(value), true))
                     : channels);
  }
  return known = body.window(plain, from, to);
}

Value ChunkTiles::scaled(Value tile, ArrayRef<Value> multipliers) {
  auto type = cast<VectorType>(tile.getType());
  for (Value multiplier : multipliers) {
    Value wide;
    if (auto splat = multiplier.getDefiningOp<arith::ConstantOp>()) {
      Attribute number = cast<SplatElementsAttr>(splat.getValue()).getSplatValue<Attribute>();
      wide = arith::ConstantOp::create(prologue.b, splat.getLoc(),
                                       DenseElementsAttr::get(type, number));
    } else {
      Value number = multiplier.getDefiningOp<vector::BroadcastOp>().getSource();
      wide = plan.isConstant(number) ? body.broadcast(constant(number, false), type)
                                     : body.broadcast(this->tile(number, false), 0, type.getShape());
    }
    tile = body.mul(tile, wide);
  }
  return tile;
}

//===----------------------------------------------------------------------===//
// States that add up
//===----------------------------------------------------------------------===//

Value ChunkTiles::termTile(const Accumulator &accumulator, unsigned count) {
  Value sum;
  unsigned termNumber = 0;
  for (const Accumulator::Term &term : ArrayRef(accumulator.terms).take_front(count)) {
    Value tile = masked(term.value, accumulator.isSliced);
    if (termNumber++ < accumulator.termsBeforeCheckpoint && !plan.options.saveEntries)
      tile = withoutEntry(tile);
    if (!sum)
      sum = term.isNegative ? body.sub(body.zeros(body.shapeOf(tile)), tile) : tile;
    else
      sum = term.isNegative ? body.sub(sum, tile) : body.add(sum, tile);
  }
  return sum;
}

/// Sets the row that enters the chunk to zero if sums restart there.
Value ChunkTiles::withoutEntry(Value tile) {
  SmallVector<Value> from, to;
  for (int64_t size : body.shapeOf(tile)) {
    from.push_back(prologue.index(0));
    to.push_back(prologue.index(size));
  }
  Value &bound = plan.scan.getReverse() ? to.front() : from.front();
  Value inside = plan.scan.getReverse() ? lastRow() : prologue.index(1);
  bound = entersSaved ? body.select(entersSaved, inside, bound) : inside;
  return body.window(tile, from, to);
}

Value ChunkTiles::lastRow() {
  Value whole = prologue.index(plan.chunk), one = prologue.index(1);
  return body.subIndex(arith::MinSIOp::create(body.b, body.loc, rows, whole), one);
}

Value ChunkTiles::sumTile(const Accumulator &accumulator, unsigned k) {
  bool reverse = plan.scan.getReverse();
  if (accumulator.checkpoint)
    computeChain(*plan.chainFrom(accumulator.checkpoint.getState()));
  Value entry = entries.lookup(&accumulator);
  auto type = tileType(accumulator.arg.getType(), accumulator.isSliced);
  Value wide = isa<VectorType>(entry.getType()) ? body.broadcast(entry, 1, type.getShape())
                                                : body.broadcast(entry, type);
  unsigned all = accumulator.terms.size();
  if (!all)
    return wide;
  // All earlier steps, and this step's terms so far.
  Value total = termTile(accumulator, all);
  Value sum = body.cumsum(total, reverse, /*exclusive=*/k != all);
  if (k && k != all)
    sum = body.add(sum, termTile(accumulator, k));
  return body.add(wide, sum);
}

Value ChunkTiles::exitOf(const Accumulator &accumulator) {
  if (accumulator.checkpoint)
    computeChain(*plan.chainFrom(accumulator.checkpoint.getState()));
  if (accumulator.terms.empty())
    return entries.lookup(&accumulator);
  bool sliced = accumulator.isSliced && plan.slices > 1;
  if (!tiles.contains({accumulator.sums.back(), sliced})) {
    // Intermediate sums are unused.
    Value terms = termTile(accumulator, accumulator.terms.size());
    bool isMatrix = body.shapeOf(terms).size() == 2;
    return body.add(entries.lookup(&accumulator),
                    isMatrix ? body.sum(terms, 0) : body.totalOf(terms));
  }
  // Nothing is added past the end, so the last row has the total.
  Value next = tile(accumulator.sums.back(), accumulator.isSliced);
  int64_t last = plan.scan.getReverse() ? 0 : plan.chunk - 1;
  return body.row(next, body.b.getIndexAttr(last));
}
