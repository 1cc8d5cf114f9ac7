//===- CoreAdjoint.cpp - derivative of the K×V states of a step ------------===//
#include "passes/autodiff/CoreAdjoint.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/Passes.h"
#include "passes/scan/TensorSums.h"

using namespace mlir;
using namespace ejk;

static Axis other(Axis axis) { return axis == Axis::key ? Axis::value : Axis::key; }
/// The index of an axis in arrays for key and value.
static unsigned placeOf(Axis axis) { return axis == Axis::value; }
static constexpr Axis kAxes[] = {Axis::key, Axis::value};

static Value times(OpBuilder &b, Location at, Value x, Value y) {
  return arith::MulFOp::create(b, at, x, y);
}

/// A term of a pair sum: `vector` times the read. With `corrects`, the other scan adds what corrects
/// its state.
static Value pairingTerm(OpBuilder &b, Location at, Value vector, Value read,
                         bool corrects = false) {
  return CancellingPairOp::create(b, at, vector, read, corrects);
}

/// The absolute value of `vector` times the read.
static Value termSize(OpBuilder &b, Location at, Value vector, Value read) {
  return math::AbsFOp::create(b, at, times(b, at, vector, read));
}

/// `vector` times the scalar product x · y.
static Value timesDot(OpBuilder &b, Location at, Value vector, Value x, Value y) {
  Value number = SumOp::create(b, at, b.getF32Type(), times(b, at, x, y));
  return times(b, at, vector, vector::BroadcastOp::create(b, at, vector.getType(), number));
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

Value CoreForward::read(ReadOp read, Value cotangent) {
  OpBuilder &b = sb.b;
  Axis axis = read.getAxis(), across = other(axis);
  bool paired = step.isMatrixActive(read.getState());
  if (sizes)
    return readSizes(read, cotangent);
  if (paired && step.needsPairing(across)) {
    // r before the segment's adds.
    Value start = primal.lookup(Segment::of(read.getState()).start);
    Value r =
        ReadOp::create(b, read.getLoc(), start, primal.lookup(read.getVector()), read.getAxis());
    pairingOutputs[read.getResult()][placeOf(across)] =
        sb.addOutput(pairingTerm(b, read.getLoc(), cotangent, r));
  }
  Value q =
      paired && step.needsPairing(axis)
          ? readSegment(read, cotangent)
          : ReadOp::create(b, read.getLoc(), primal.lookup(read.getState()), cotangent, across)
                .getResult();
  queryOutputs[read.getResult()] = sb.addOutput(q);
  return q;
}

Value CoreForward::readSizes(ReadOp read, Value cotangent) {
  OpBuilder &b = sb.b;
  Location at = read.getLoc();
  Axis axis = read.getAxis(), across = other(axis);
  Value q = ReadOp::create(b, at, primal.lookup(read.getState()), cotangent, across);
  if (!step.isMatrixActive(read.getState()))
    return q;
  auto &outputs = pairingOutputs[read.getResult()];
  if (step.needsPairing(axis))
    outputs[placeOf(axis)] = sb.addOutput(termSize(b, at, primal.lookup(read.getVector()), q));
  if (step.needsPairing(across))
    outputs[placeOf(across)] =
        sb.addOutput(termSize(b, at, cotangent, primal.lookup(read.getResult())));
  return q;
}

/// q̄ from before the segment's adds, which the pair sum uses, and the remainder.
Value CoreForward::readSegment(ReadOp read, Value cotangent) {
  OpBuilder &b = sb.b;
  Location at = read.getLoc();
  Axis axis = read.getAxis();
  Segment segment = Segment::of(read.getState());
  Value q = ReadOp::create(b, at, primal.lookup(segment.start), cotangent, other(axis));
  pairingOutputs[read.getResult()][placeOf(axis)] =
      sb.addOutput(pairingTerm(b, at, primal.lookup(read.getVector()), q));
  for (OuterAddOp add : segment.adds) {
    Value along = primal.lookup(axis == Axis::key ? add.getKey() : add.getValue());
    Value across = primal.lookup(axis == Axis::key ? add.getValue() : add.getKey());
    q = arith::AddFOp::create(b, at, q, timesDot(b, at, along, across, cotangent));
  }
  return q;
}

void CoreForward::saveCheckpoints() {
  bool wanted =
      checkpointEvery && llvm::any_of(kAxes, [&](Axis a) { return step.needsPairing(a); });
  for (Value next : scan.getYield().getStates()) {
    std::optional<unsigned> &save = saves.emplace_back();
    if (wanted && isMatrix(next) && step.isMatrixActive(next))
      save = sb.addSave(primal.lookup(Segment::of(next).start), checkpointEvery,
                        sb.saveType(next.getType(), sb.b.getF32Type()));
  }
}

CoreRecord CoreForward::finish() {
  CoreRecord record;
  for (auto [value, output] : queryOutputs)
    record.queryCotangents[value] = sb.output(output);
  for (auto &[value, outputs] : pairingOutputs)
    for (Axis axis : kAxes)
      if (std::optional<unsigned> output = outputs[placeOf(axis)])
        record.pairingTerms[value][placeOf(axis)] = sb.output(*output);
  for (std::optional<unsigned> save : saves)
    record.checkpoints.push_back(save ? sb.save(*save) : Value());
  for (Value arg : scan.getStateArgs())
    record.finalStates.push_back(sb.finalState(primal.lookup(arg)));
  return record;
}

//===----------------------------------------------------------------------===//
// Back
//===----------------------------------------------------------------------===//

/// The pair sum at the end of state `i`, as a state of the backward pass: zero if a checkpoint
/// replaces it, otherwise Σ ht ⊙ dht over the axis other than `axis`.
Value CoreBackward::startPairing(unsigned i, Axis axis, Value stateCotangent) {
  unsigned dim = axis == Axis::key ? 2 : 3;
  if (stateCotangent && !record.checkpoints[i]) {
    Value state = record.finalStates[i];
    if (gateSizes) {
      state = math::AbsFOp::create(outer, scan.getLoc(), state);
      stateCotangent = math::AbsFOp::create(outer, scan.getLoc(), stateCotangent);
    }
    Value initial =
        sumOfProducts(outer, scan.getLoc(), state, stateCotangent, axis == Axis::key ? 3 : 2);
    return sb.addState(cast<RankedTensorType>(initial.getType()), initial);
  }
  int64_t size = cast<RankedTensorType>(scan.getFinalStates()[i].getType()).getDimSize(dim);
  return sb.addState(sb.stateType(VectorType::get({size}, sb.b.getF32Type())), Value());
}

void CoreBackward::start(ArrayRef<Value> stateCotangents) {
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    Value next = scan.getYield().getStates()[i];
    if (!isMatrix(arg) || !step.isMatrixActive(next))
      continue;
    Matrix m;
    m.adjoint =
        sb.addState(cast<RankedTensorType>(scan.getFinalStates()[i].getType()), stateCotangents[i]);
    for (Axis axis : kAxes)
      if (step.needsPairing(axis))
        m.pairing[placeOf(axis)] = startPairing(i, axis, stateCotangents[i]);
    m.startSegment();
    carried.push_back({arg, m});
    if (record.checkpoints[i])
      m.saved = sb.addSavedState(record.checkpoints[i], checkpointEvery);
    matrices[next] = m;
  }
}

/// The adjoint of `value` from its users; zero if it has none.
CoreBackward::Matrix &CoreBackward::matrixOf(Value value) {
  Location at = scan.getLoc();
  Matrix &m = matrices[value];
  if (!m.adjoint) {
    m.adjoint = splatLike(sb.b, at, value, 0);
    m.startSegment();
  }
  auto type = cast<VectorType>(value.getType());
  for (Axis axis : kAxes) {
    Value &pairing = m.pairing[placeOf(axis)];
    auto vector = VectorType::get({type.getDimSize(placeOf(axis))}, sb.b.getF32Type());
    if (step.needsPairing(axis) && !pairing)
      pairing = arith::ConstantOp::create(sb.b, at, DenseElementsAttr::get(vector, 0.0f));
  }
  // Reads are applied here, because one may stand before the op that passes the adjoint on, but
  // after it in the step.
  for (const PendingRead &read : pendingReads.lookup(value)) {
    m.adjoint = OuterAddOp::create(sb.b, at, m.adjoint.getType(), m.adjoint, read.key, read.value);
    m.reads.push_back({read.key, read.value});
    for (Axis axis : kAxes)
      if (Value term = read.terms[placeOf(axis)])
        m.readTerms[placeOf(axis)].push_back(term);
  }
  pendingReads.erase(value);
  return m;
}

/// Moves the pair sums to the start of the segment. Its adds have been subtracted; the saved state
/// did not include them.
void CoreBackward::closeSegment(Matrix &m) {
  Location at = scan.getLoc();
  for (Axis axis : kAxes) {
    Value &pairing = m.pairing[placeOf(axis)];
    if (pairing && m.saved)
      pairing = CheckpointOp::create(sb.b, at, pairing.getType(), pairing, m.segmentEnd, m.saved,
                                     other(axis));
    for (Value term : m.readTerms[placeOf(axis)])
      pairing = arith::AddFOp::create(sb.b, at, pairing, term);
    m.readTerms[placeOf(axis)].clear();
  }
  m.saved = Value();
}

void CoreBackward::give(Value operand, Value cotangent) {
  if (gateSizes)
    return;
  if (step.isActive(operand))
    cotangents.add(sb.b, cotangent.getLoc(), operand, cotangent);
}

void CoreBackward::pass(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op))
    return passRead(read);
  if (!step.isMatrixActive(op->getResult(0)))
    return;
  if (auto decay = dyn_cast<DecayOp>(op))
    passDecay(decay);
  else
    passOuterAdd(cast<OuterAddOp>(op));
}

void CoreBackward::passRead(ReadOp read) {
  Value cotangent = cotangents.lookup(read.getResult());
  if (!cotangent)
    return;
  Value vector = primal.lookup(read.getVector());
  if (Value tensor = record.queryCotangents.lookup(read.getResult()))
    give(read.getVector(), sb.addSequence(tensor));
  if (!step.isMatrixActive(read.getState()))
    return;
  bool alongKey = read.getAxis() == Axis::key;
  PendingRead pending{alongKey ? vector : cotangent, alongKey ? cotangent : vector, {}};
  for (Axis axis : kAxes)
    if (step.needsPairing(axis))
      pending.terms[placeOf(axis)] =
          sb.addSequence(record.pairingTerms[read.getResult()][placeOf(axis)]);
  pendingReads[read.getState()].push_back(pending);
}

/// Whether a K×V value of the step is zero in the first step of the scan.
bool CoreBackward::startsAsZero(Value matrix) {
  while (auto decay = matrix.getDefiningOp<DecayOp>())
    matrix = decay.getState();
  ValueRange states = scan.getStateArgs();
  auto arg = llvm::find(states, matrix);
  return arg != states.end() && !scan.getInitialState(arg - states.begin());
}

void CoreBackward::passDecay(DecayOp decay) {
  OpBuilder &b = sb.b;
  Location at = decay.getLoc();
  Axis axis = decay.getAxis();
  Matrix m = matrixOf(decay.getResult());
  closeSegment(m);
  if (step.isActive(decay.getGate())) {
    // For a gate per head, the sum over either axis.
    Value pairing = m.pairing[placeOf(axis)];
    if (axis == Axis::head)
      pairing = m.pairing[0] ? m.pairing[0] : m.pairing[1];
    bool idle = startsAsZero(decay.getState());
    if (!gateSizes)
      pairing =
          GateGradientOp::create(b, at, pairing.getType(), pairing, primal.lookup(decay.getGate()),
                                 idle && !scan.getReverse(), idle && scan.getReverse());
    if (axis == Axis::head)
      pairing = SumOp::create(b, at, b.getF32Type(), pairing);
    if (gateSizes)
      gateSizes->add(b, at, decay.getGate(), pairing);
    give(decay.getGate(), pairing);
  }
  m.adjoint =
      DecayOp::create(b, at, m.adjoint.getType(), m.adjoint, primal.lookup(decay.getGate()), axis);
  m.startSegment();
  matrices[decay.getState()] = m;
}

void CoreBackward::passOuterAdd(OuterAddOp add) {
  Matrix m = matrixOf(add.getResult());
  for (Axis axis : kAxes) {
    Value operand = axis == Axis::key ? add.getKey() : add.getValue();
    if (gateSizes)
      addAddendSizes(m, add, axis);
    else if (record.handed && record.handed->add == add && record.handed->axis == axis)
      give(operand, widenToF32(sb.b, add.getLoc(), sb.addSequence(record.handed->tensor)));
    else if (step.isActive(operand) || step.needsPairing(axis))
      give(operand, passAddend(m, add, axis));
  }
  matrices[add.getState()] = m;
}

/// The cotangent of the key or value. Subtracts its term from the pair sum.
Value CoreBackward::passAddend(Matrix &m, OuterAddOp add, Axis axis) {
  OpBuilder &b = sb.b;
  Location at = add.getLoc();
  bool isKey = axis == Axis::key;
  Value key = primal.lookup(add.getKey()), value = primal.lookup(add.getValue());
  Value across = isKey ? value : key, &pairing = m.pairing[placeOf(axis)];
  Value cotangent = ReadOp::create(b, at, pairing ? m.segmentEnd : m.adjoint, across, other(axis));
  if (!pairing)
    return cotangent;
  pairing = arith::SubFOp::create(
      b, at, pairing, pairingTerm(b, at, isKey ? key : value, cotangent, add.getCorrects()));
  for (auto [readKey, readValue] : m.reads)
    cotangent = arith::AddFOp::create(
        b, at, cotangent,
        timesDot(b, at, isKey ? readKey : readValue, isKey ? readValue : readKey, across));
  return cotangent;
}

void CoreBackward::addAddendSizes(Matrix &m, OuterAddOp add, Axis axis) {
  if (!step.needsPairing(axis))
    return;
  OpBuilder &b = sb.b;
  Location at = add.getLoc();
  Value key = primal.lookup(add.getKey()), value = primal.lookup(add.getValue());
  bool isKey = axis == Axis::key;
  Value cotangent = ReadOp::create(b, at, m.adjoint, isKey ? value : key, other(axis));
  Value &pairing = m.pairing[placeOf(axis)];
  pairing = arith::AddFOp::create(b, at, pairing, termSize(b, at, isKey ? key : value, cotangent));
}

void CoreBackward::end() {
  for (auto &[arg, carriedMatrix] : carried) {
    Matrix begin = matrixOf(arg);
    closeSegment(begin);
    sb.setNext(carriedMatrix.adjoint, begin.adjoint);
    for (Axis axis : kAxes)
      if (Value state = carriedMatrix.pairing[placeOf(axis)])
        sb.setNext(state, begin.pairing[placeOf(axis)]);
  }
}

Value CoreBackward::initialStateCotangent(Value arg) {
  for (auto &[state, matrix] : carried)
    if (state == arg)
      return sb.finalState(matrix.adjoint);
  return {};
}
