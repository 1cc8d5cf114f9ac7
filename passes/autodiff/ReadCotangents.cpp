//===- ReadCotangents.cpp - cotangents of reads that feed states ----------===//
#include "passes/autodiff/ReadCotangents.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace ejk;

static Axis across(Axis axis) { return axis == Axis::key ? Axis::value : Axis::key; }

//===----------------------------------------------------------------------===//
// States at every row
//===----------------------------------------------------------------------===//

void RowStates::save(ScanBuilder &sb, IRMapping &primal, ScanOp scan, const StepAnalysis &step) {
  auto keep = [&](Value matrix, Value vector) {
    if (!step.dependsOnReads(vector) || saves.contains(matrix))
      return;
    auto type = sb.saveType(matrix.getType(), sb.b.getF32Type());
    saves[matrix] = sb.addSave(primal.lookup(matrix), /*every=*/1, type);
  };
  for (Operation &op : scan.getStep().without_terminator()) {
    if (auto read = dyn_cast<ReadOp>(op))
      keep(read.getState(), read.getVector());
    if (auto decay = dyn_cast<DecayOp>(op))
      keep(decay.getResult(), decay.getGate());
  }
}

void RowStates::finish(ScanBuilder &sb) {
  for (auto [matrix, number] : saves)
    tensors[matrix] = sb.save(number);
}

Value RowStates::innerProduct(ScanBuilder &sb, Location at, Value matrix, Value state, Axis axis) {
  auto type = cast<VectorType>(matrix.getType());
  Type result = sb.b.getF32Type();
  if (axis != Axis::head)
    result = VectorType::get({type.getDimSize(axis == Axis::key ? 1 : 0)}, result);
  Value zero = arith::ConstantOp::create(sb.b, at, sb.b.getZeroAttr(result));
  Value saved = sb.addSavedState(tensors.lookup(matrix), /*every=*/1);
  return CheckpointOp::create(sb.b, at, result, zero, state, saved, axis);
}

Value RowStates::read(ScanBuilder &sb, Location at, Value matrix, Value vector, Axis axis) {
  // Only a checkpoint can read a saved state, so the vector is broadcast along the other axis.
  OpBuilder &b = sb.b;
  auto type = cast<VectorType>(matrix.getType());
  auto ones = VectorType::get({type.getDimSize(axis == Axis::key ? 1 : 0)}, b.getF32Type());
  Value one = arith::ConstantOp::create(b, at, DenseElementsAttr::get(ones, 1.0f));
  Value zero = arith::ConstantOp::create(b, at, b.getZeroAttr(type));
  bool alongKey = axis == Axis::key;
  Value repeated =
      OuterAddOp::create(b, at, type, zero, alongKey ? vector : one, alongKey ? one : vector);
  return innerProduct(sb, at, matrix, repeated, axis);
}

//===----------------------------------------------------------------------===//
// Adjoints
//===----------------------------------------------------------------------===//

void ReadBackward::start(ArrayRef<Value> stateCotangents) {
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
    Value next = scan.getYield().getStates()[i];
    if (!isMatrix(arg) || !step.isMatrixActive(next))
      continue;
    auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
    adjoints[next] = sb.addState(type, stateCotangents[i]);
    carried.push_back({arg, adjoints[next]});
  }
}

Value ReadBackward::adjointOf(Value matrix) {
  Location at = scan.getLoc();
  Value &adjoint = adjoints[matrix];
  if (!adjoint)
    adjoint = splatLike(sb.b, at, matrix, 0);
  for (auto [key, value] : reads.lookup(matrix))
    adjoint = OuterAddOp::create(sb.b, at, adjoint.getType(), adjoint, key, value);
  reads.erase(matrix);
  return adjoint;
}

/// Cotangents of other values are computed in later passes.
void ReadBackward::give(Value operand, llvm::function_ref<Value()> cotangent) {
  if (!step.dependsOnReads(operand))
    return;
  Value value = cotangent();
  given[operand] = value;
  cotangents.add(sb.b, scan.getLoc(), operand, value);
}

void ReadBackward::pass(Operation *op) {
  OpBuilder &b = sb.b;
  Location at = op->getLoc();
  if (auto read = dyn_cast<ReadOp>(op)) {
    Value cotangent = cotangents.lookup(read.getResult());
    if (!cotangent)
      return;
    Value vector = primal.lookup(read.getVector());
    bool alongKey = read.getAxis() == Axis::key;
    give(read.getVector(),
         [&] { return rows.read(sb, at, read.getState(), cotangent, across(read.getAxis())); });
    if (step.isMatrixActive(read.getState()))
      reads[read.getState()].push_back(
          {alongKey ? vector : cotangent, alongKey ? cotangent : vector});
    return;
  }
  if (!step.isMatrixActive(op->getResult(0)))
    return;
  Value adjoint = adjointOf(op->getResult(0));
  if (auto add = dyn_cast<OuterAddOp>(op)) {
    Value key = primal.lookup(add.getKey()), value = primal.lookup(add.getValue());
    give(add.getKey(), [&] { return ReadOp::create(b, at, adjoint, value, Axis::value); });
    give(add.getValue(), [&] { return ReadOp::create(b, at, adjoint, key, Axis::key); });
    adjoints[add.getState()] = adjoint;
    return;
  }
  auto decay = cast<DecayOp>(op);
  Axis axis = decay.getAxis();
  give(decay.getGate(), [&] {
    return rows.innerProduct(sb, at, decay.getResult(), adjoint,
                             axis == Axis::head ? axis : across(axis));
  });
  adjoints[decay.getState()] =
      DecayOp::create(b, at, adjoint.getType(), adjoint, primal.lookup(decay.getGate()), axis);
}

void ReadBackward::end() {
  for (auto [arg, state] : carried)
    sb.setNext(state, adjointOf(arg));
}
