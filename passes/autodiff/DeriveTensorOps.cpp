//===- DeriveTensorOps.cpp - derivative of ops between scans ---------------===//
#include "passes/autodiff/DeriveTensorOps.h"
#include "dialect/ejk/EjkShifts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/autodiff/AdjointRules.h"
#include "passes/Passes.h"
#include "passes/scan/TensorSums.h"

using namespace mlir;
using namespace ejk;

/// Every head of the tensor gets the cotangent of its group. A scan without states reads it so.
static LogicalResult reverseSumHeads(OpBuilder &b, SumHeadsOp op, Value g,
                                     llvm::function_ref<void(Value, Value)> add) {
  auto type = cast<RankedTensorType>(op.getTensor().getType());
  if (op.getDim() != 2 || type.getRank() < 3)
    return op.emitError("the sum of a parameter's gradients has no derivative rule; leave the "
                        "parameter out of the first derivative's 'wrt'");
  auto scan = ScanOp::create(b, op.getLoc(), type, TypeRange(), {op.getTensor(), g}, ValueRange(),
                             TypeRange(), {}, Value(), false);
  OpBuilder step = OpBuilder::atBlockEnd(&scan.getStep());
  Value row = widenToF32(step, op.getLoc(), scan.getSequenceArgs()[1]);
  YieldOp::create(step, op.getLoc(), ValueRange(), row);
  add(op.getTensor(), scan.getOutputs().front());
  return success();
}

/// What a group's heads get from one goes back to it as a sum; what is taken of the first of a
/// group goes back to that head.
static LogicalResult reverseHeads(OpBuilder &b, Operation *op, Value g,
                                  llvm::function_ref<void(Value, Value)> add) {
  Value states = op->getOperand(0);
  auto repeat = dyn_cast<RepeatHeadsOp>(op);
  if (repeat && repeat.getFirstOnly())
    add(states, FirstHeadsOp::create(b, op->getLoc(), states.getType(), g, states, /*dim=*/1));
  else if (repeat)
    add(states,
        SumHeadsOp::create(b, op->getLoc(), states.getType(), g, b.getI64IntegerAttr(1), states));
  else
    add(states, RepeatHeadsOp::create(b, op->getLoc(), states.getType(), g, states, /*dim=*/1,
                                      /*first_only=*/true));
  return success();
}

/// Rows go back the way they came, and those that came from the halo go to it: of R rows those
/// nearest to the sequence, as many as it was shifted by.
static LogicalResult reverseShift(OpBuilder &b, ShiftOp op, Value g,
                                  llvm::function_ref<bool(Value)> wants,
                                  llvm::function_ref<void(Value, Value)> add) {
  Location loc = op.getLoc();
  int64_t by = op.getBy();
  if (wants(op.getRows()) && !op.getZeros())
    add(op.getRows(), ShiftOp::create(b, loc, g.getType(), g, -by, /*halo=*/Value(),
                                      op.getCuSeqlens(), /*zeros=*/false));
  if (Value halo = op.getHalo(); halo && wants(halo)) {
    auto type = cast<RankedTensorType>(halo.getType()).clone(b.getF32Type());
    int64_t unused = type.getDimSize(1) - std::abs(by);
    add(halo, LastRowsOp::create(b, loc, type, g, /*halo=*/Value(), op.getCuSeqlens(),
                                 /*reverse=*/by > 0, /*beyond=*/unused, /*zeros=*/false));
  }
  return success();
}

/// A tensor of f32 with the sizes of `rows` and nothing in it.
static Value emptyLike(OpBuilder &b, Location loc, Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(tensor::DimOp::create(b, loc, rows, dim));
  return tensor::EmptyOp::create(b, loc, type.clone(b.getF32Type()), sizes);
}

/// What the window took goes back to its place, and is a halo of rows that are zero.
static LogicalResult reverseLastRows(OpBuilder &b, LastRowsOp op, Value g,
                                     llvm::function_ref<bool(Value)> wants,
                                     llvm::function_ref<void(Value, Value)> add) {
  Location loc = op.getLoc();
  Value rows = op.getRows(), halo = op.getHalo();
  if (wants(rows) && !op.getZeros()) {
    Value like = emptyLike(b, loc, rows);
    int64_t by = op.getType().getDimSize(1) - op.getBeyond();
    add(rows, ShiftOp::create(b, loc, like.getType(), like, op.getReverse() ? by : -by, g,
                              op.getCuSeqlens(), /*zeros=*/true));
  }
  if (halo && wants(halo))
    add(halo, LastRowsOp::create(b, loc, g.getType(), emptyLike(b, loc, rows), g,
                                 op.getCuSeqlens(), /*reverse=*/!op.getReverse(), /*beyond=*/0,
                                 /*zeros=*/true));
  return success();
}

/// The term that a reduction's body adds to its accumulator, or the result of a body that does not
/// read it; null for other bodies.
static Value bodyTerm(linalg::GenericOp op) {
  Value yielded = op.getBody()->getTerminator()->getOperand(0);
  Value accumulator = op.getRegionOutputArgs().front();
  if (accumulator.use_empty())
    return yielded;
  auto sum = yielded.getDefiningOp<arith::AddFOp>();
  if (!sum || !accumulator.hasOneUse() || !llvm::is_contained(sum->getOperands(), accumulator))
    return {};
  return sum.getLhs() == accumulator ? sum.getRhs() : sum.getLhs();
}

/// The cotangent of input `i`: the same loops, summed over those that do not index the input.
static FailureOr<Value> reverseGenericInput(OpBuilder &b, linalg::GenericOp op, Value g, Value term,
                                            unsigned i) {
  Location loc = op.getLoc();
  Value input = op.getInputs()[i];
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInputOperand(i));
  auto type = cast<RankedTensorType>(input.getType());
  bool simple = map.isProjectedPermutation();
  if (!simple)
    return op.emitError("indexes an input in a way that has no derivative rule; use permutations "
                        "and broadcasts of the loops");
  SmallVector<utils::IteratorType> loops(op.getNumLoops(), utils::IteratorType::reduction);
  for (AffineExpr expr : map.getResults())
    loops[cast<AffineDimExpr>(expr).getPosition()] = utils::IteratorType::parallel;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  maps.push_back(map); // g has the map of the old result, and the new result has the input's
  SmallVector<Value> inputs(op.getInputs());
  inputs.push_back(g);
  Value like = widenToF32(b, loc, input);
  Value init = splatLike(b, loc, like, 0);
  RankedTensorType resultType = type.clone(getElementTypeOrSelf(like.getType()));

  LogicalResult ok = success();
  auto generic = linalg::GenericOp::create(
      b, loc, resultType, inputs, init, maps, loops,
      [&](OpBuilder &body, Location l, ValueRange args) {
        IRMapping primal;
        unsigned numInputs = op.getInputs().size();
        for (unsigned n = 0; n < numInputs; ++n)
          primal.map(op.getRegionInputArgs()[n], args[n]);
        Value accumulator = op.getRegionOutputArgs().front(), own = op.getRegionInputArgs()[i];
        SmallVector<Operation *> ops;
        for (Operation &inner : op.getBody()->without_terminator())
          if (!llvm::is_contained(inner.getOperands(), accumulator)) {
            body.clone(inner, primal);
            ops.push_back(&inner);
          }
        llvm::DenseSet<Value> active = {own};
        for (Operation *inner : ops)
          if (!isPiecewiseConstant(inner) &&
              llvm::any_of(inner->getOperands(), [&](Value v) { return active.contains(v); }))
            active.insert_range(inner->getResults());
        Cotangents adjoint;
        adjoint.set(term, widenToF32(body, l, args[numInputs]));
        for (Operation *inner : llvm::reverse(ops)) {
          Value cotangent = adjoint.lookup(inner->getResult(0));
          if (cotangent && active.contains(inner->getResult(0)) && succeeded(ok))
            ok = applyAdjointRule(
                inner, body, cotangent, [&](Value v) { return primal.lookupOrDefault(v); },
                [&](Value v) { return active.contains(v); },
                [&](Value v, Value c) { adjoint.add(body, l, v, c); });
        }
        Value sum = args.back();
        if (Value cotangent = adjoint.lookup(own))
          sum = arith::AddFOp::create(body, l, sum, cotangent);
        linalg::YieldOp::create(body, l, sum);
      });
  if (failed(ok))
    return failure();
  return generic.getResult(0);
}

static LogicalResult reverseGeneric(OpBuilder &b, linalg::GenericOp op, Value g,
                                    llvm::function_ref<bool(Value)> wants,
                                    llvm::function_ref<void(Value, Value)> add) {
  Value term = op.getNumResults() == 1 ? bodyTerm(op) : Value();
  if (!term || wants(op.getDpsInits().front()))
    return op.emitError("has no derivative rule; elementwise ops and sums from a constant have");
  for (unsigned i = 0; i < op.getInputs().size(); ++i) {
    if (!wants(op.getInputs()[i]))
      continue;
    FailureOr<Value> cotangent = reverseGenericInput(b, op, g, term, i);
    if (failed(cotangent))
      return failure();
    add(op.getInputs()[i], *cotangent);
  }
  return success();
}

/// A reshape's, which is the reshape back.
static LogicalResult reverseReshape(OpBuilder &b, Operation *op, Value g,
                                    llvm::function_ref<void(Value, Value)> add) {
  Value source = op->getOperand(0);
  auto from = cast<RankedTensorType>(source.getType());
  RankedTensorType type = from.clone(getElementTypeOrSelf(g.getType()));
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    // Static sizes and one other in a group are what the dimension of `g` says.
    for (const ReassociationIndices &group : collapse.getReassociationIndices())
      if (llvm::count_if(group, [&](int64_t dim) { return from.isDynamicDim(dim); }) > 1)
        return op->emitError("merges dimensions of unknown sizes, which has no derivative rule");
    g = tensor::ExpandShapeOp::create(b, op->getLoc(), type, g,
                                      collapse.getReassociationIndices());
  } else {
    g = tensor::CollapseShapeOp::create(b, op->getLoc(), type, g,
                                        cast<tensor::ExpandShapeOp>(op).getReassociationIndices());
  }
  add(source, g);
  return success();
}

LogicalResult ejk::reverseTensorOp(OpBuilder &b, Operation *op, Value g,
                                   llvm::function_ref<bool(Value)> wants,
                                   llvm::function_ref<void(Value, Value)> add) {
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    add(cast.getSource(), castLike(b, op->getLoc(), g, cast.getSource()));
    return success();
  }
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
    return reverseReshape(b, op, g, add);
  if (auto sum = dyn_cast<SumHeadsOp>(op))
    return reverseSumHeads(b, sum, g, add);
  if (isa<RepeatHeadsOp, FirstHeadsOp>(op))
    return reverseHeads(b, op, g, add);
  if (auto shift = dyn_cast<ShiftOp>(op))
    return reverseShift(b, shift, g, wants, add);
  if (auto last = dyn_cast<LastRowsOp>(op))
    return reverseLastRows(b, last, g, wants, add);
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return reverseGeneric(b, generic, g, wants, add);
  if (!OpTrait::hasElementwiseMappableTraits(op))
    return op->emitError() << "'" << op->getName()
                           << "' has no derivative rule; between recurrences, elementwise arith "
                              "and math and sums by linalg.generic have";
  return applyAdjointRule(op, b, g, [](Value v) { return v; }, wants, add);
}
