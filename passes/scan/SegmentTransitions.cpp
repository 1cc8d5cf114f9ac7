//===- SegmentTransitions.cpp - what segments make of their starts --------===//
#include "passes/scan/SegmentTransitions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/TensorSums.h"

using namespace mlir;
using namespace ejk;

llvm::SetVector<Value> ejk::computedFrom(ArrayRef<Value> roots) {
  llvm::SetVector<Value> needed(roots.begin(), roots.end());
  for (unsigned i = 0; i < needed.size(); ++i)
    if (Operation *op = needed[i].getDefiningOp())
      op->walk([&](Operation *inner) { needed.insert_range(inner->getOperands()); });
  return needed;
}

Value ejk::sequenceWithHeads(ScanOp scan, const llvm::SetVector<Value> &needed) {
  for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
    if (needed.contains(arg) && haveSameSize(tensor, scan.getSequences().front(), 2))
      return tensor;
  return {};
}

void SegmentTransitions::visitChain(Value value, llvm::function_ref<void(Operation *)> visit) {
  llvm::SetVector<Value> open;
  open.insert(value);
  for (unsigned i = 0; i < open.size(); ++i) {
    if (open[i] == arg)
      continue;
    Operation *op = open[i].getDefiningOp();
    visit(op);
    open.insert(op->getOperand(0));
    auto add = dyn_cast<OuterAddOp>(op);
    if (const CorrectionParts *parts = add ? corrections.of(add, 1) : nullptr)
      for (auto &[read, factor] : parts->factors)
        open.insert(cast<ReadOp>(read).getState());
  }
}

Operation *SegmentTransitions::findObstacle(llvm::function_ref<bool(Value)> isStateful,
                                            std::string &why) {
  Operation *obstacle = nullptr;
  visitChain(next, [&](Operation *op) {
    auto refuse = [&](Operation *at, StringRef reason) {
      if (!obstacle) {
        obstacle = at;
        why = reason.str();
      }
    };
    if (auto decay = dyn_cast<DecayOp>(op)) {
      if (isStateful(decay.getGate()))
        refuse(op, "its gate depends on a state");
      if (decay.getAxis() == Axis::value)
        refuse(op, "a state that is corrected has a gate for each value channel");
      return;
    }
    auto add = cast<OuterAddOp>(op);
    const CorrectionParts *parts = corrections.of(add, 1);
    if (isStateful(add.getKey()) || (!parts && isStateful(add.getValue())))
      return refuse(op, "what it adds depends on a state");
    if (!parts)
      return;
    if (isStateful(parts->rest))
      refuse(op, "what it adds depends on another state");
    for (auto &[read, factor] : parts->factors)
      if (isStateful(factor) || isStateful(cast<ReadOp>(read).getVector()))
        refuse(op, "how it corrects a state depends on another one");
  });
  return obstacle;
}

Value SegmentTransitions::makeIdentities(OpBuilder &b, SegmentViews &views) {
  Location loc = scan.getLoc();
  int64_t keys = cast<VectorType>(arg.getType()).getDimSize(0);
  Value empty = views.emptyOfSegments({keys, keys});
  Type type = empty.getType();
  SmallVector<utils::IteratorType> loops(4, utils::IteratorType::parallel);
  auto made = linalg::GenericOp::create(
      b, loc, type, ValueRange(), empty, ArrayRef<AffineMap>{b.getMultiDimIdentityMap(4)}, loops,
      [&](OpBuilder &nested, Location l, ValueRange) {
        auto number = [&](float x) -> Value {
          return arith::ConstantOp::create(nested, l, nested.getF32FloatAttr(x));
        };
        Value row = linalg::IndexOp::create(nested, l, 2),
              column = linalg::IndexOp::create(nested, l, 3);
        Value isDiagonal =
            arith::CmpIOp::create(nested, l, arith::CmpIPredicate::eq, row, column);
        Value one = number(1), zero = number(0);
        linalg::YieldOp::create(
            nested, l, arith::SelectOp::create(nested, l, isDiagonal, one, zero).getResult());
      });
  return made.getResult(0);
}

Value SegmentTransitions::measure(OpBuilder &b, Value transitions) {
  Location loc = scan.getLoc();
  auto type = cast<RankedTensorType>(transitions.getType());
  // Of each row first, so that there are threads enough.
  auto rowsType = RankedTensorType::get(type.getShape().drop_back(), type.getElementType());
  SmallVector<Value> sizes;
  for (unsigned dim = 0; dim < 2; ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(tensor::DimOp::create(b, loc, transitions, dim));
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value empty = tensor::EmptyOp::create(b, loc, rowsType, sizes);
  Value init = linalg::FillOp::create(b, loc, zero, empty).getResult(0);
  AffineMap all = b.getMultiDimIdentityMap(4);
  SmallVector<utils::IteratorType> loops(4, utils::IteratorType::parallel);
  loops.back() = utils::IteratorType::reduction;
  auto rows = linalg::GenericOp::create(
      b, loc, rowsType, transitions, init, ArrayRef<AffineMap>{all, all.getMajorSubMap(3)}, loops,
      [&](OpBuilder &nested, Location l, ValueRange args) {
        Value unit = arith::ConstantOp::create(nested, l, nested.getF32FloatAttr(0x1p25f));
        Value x = arith::MulFOp::create(nested, l, args[0], unit);
        Value square = arith::MulFOp::create(nested, l, x, x);
        linalg::YieldOp::create(nested, l,
                                arith::AddFOp::create(nested, l, args[1], square).getResult());
      });
  return sumOver(b, loc, rows.getResult(0), 2);
}

Value SegmentTransitions::scanTransitions(OpBuilder &b, SegmentsAttr segments, Value identities,
                                          TrailingRows trailing) {
  SmallVector<Operation *> chain;
  SmallVector<Value> roots;
  visitChain(next, [&](Operation *op) {
    chain.push_back(op);
    if (auto decay = dyn_cast<DecayOp>(op)) {
      roots.push_back(decay.getGate());
      return;
    }
    auto add = cast<OuterAddOp>(op);
    const CorrectionParts *parts = corrections.of(add, 1);
    if (!parts)
      return;
    roots.push_back(add.getKey());
    for (auto &[read, factor] : parts->factors)
      roots.append({factor, cast<ReadOp>(read).getVector()});
  });
  llvm::SetVector<Value> needed = computedFrom(roots);

  ScanBuilder builder(b, scan, /*turned=*/false, sequenceWithHeads(scan, needed));
  builder.divide(segments);
  builder.leaveOut(trailing);
  IRMapping map;
  for (auto [own, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
    if (needed.contains(own))
      map.map(own, builder.addSequence(tensor));
  for (auto [own, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
    if (needed.contains(own))
      map.map(own, builder.addParameter(tensor, own.getType()));
  int64_t keys = cast<VectorType>(arg.getType()).getDimSize(0);
  auto vector = VectorType::get({keys}, b.getF32Type());
  Value state = builder.addState(
      builder.stateType(VectorType::get({keys, keys}, b.getF32Type())), identities);
  map.map(arg, state);

  Location loc = scan.getLoc();
  OpBuilder &step = builder.b;
  auto correction = [&](const CorrectionParts &parts) {
    Value sum;
    for (auto &[op, factor] : parts.factors) {
      auto read = cast<ReadOp>(op);
      Value seen = ReadOp::create(step, loc, vector, map.lookup(read.getState()),
                                  map.lookup(read.getVector()), Axis::key);
      Value number = vector::BroadcastOp::create(step, loc, vector, map.lookup(factor));
      Value term = arith::MulFOp::create(step, loc, number, seen);
      sum = sum ? arith::AddFOp::create(step, loc, sum, term).getResult() : term;
    }
    return sum;
  };
  // The step's ops in their order: what they are computed from stands before them.
  for (Operation &op : scan.getStep().without_terminator()) {
    if (llvm::any_of(op.getResults(), [&](Value v) { return needed.contains(v); })) {
      step.clone(op, map);
      continue;
    }
    if (!llvm::is_contained(chain, &op))
      continue;
    Value before = map.lookup(op.getOperand(0));
    if (auto decay = dyn_cast<DecayOp>(op)) {
      before = DecayOp::create(step, loc, before, map.lookup(decay.getGate()), decay.getAxis());
    } else if (auto add = cast<OuterAddOp>(op); const CorrectionParts *parts = corrections.of(add, 1)) {
      before = OuterAddOp::create(step, loc, before, map.lookup(add.getKey()), correction(*parts));
    }
    map.map(op.getResult(0), before);
  }
  builder.setNext(state, map.lookup(next));
  builder.finish();
  return builder.finalState(state);
}
