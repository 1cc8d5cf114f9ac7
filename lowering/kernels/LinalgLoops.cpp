//===- LinalgLoops.cpp - what a kernel of a linalg.generic runs over ------===//
#include "lowering/kernels/LinalgLoops.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;

/// Whether the body takes constants and its own values alone; an error at the op that does not.
static LogicalResult checkCaptures(linalg::GenericOp op) {
  WalkResult captured = op.getRegion().walk([&](Operation *inner) {
    for (Value v : inner->getOperands())
      if (!op.getRegion().isAncestor(v.getParentRegion()) && !matchPattern(v, m_Constant())) {
        inner->emitError("uses a value from outside its op; only constants can be");
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return success(!captured.wasInterrupted());
}

/// Verifies that each element of a result is made by one step of the parallel loops. Upstream's
/// verifier does not tie the kinds of loops to the maps of results.
static LogicalResult checkResultLoops(linalg::GenericOp op) {
  for (auto [i, init] : llvm::enumerate(op.getDpsInitsMutable())) {
    AffineMap map = op.getMatchingIndexingMap(&init);
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      bool isParallel = kind == utils::IteratorType::parallel;
      if (map.isFunctionOfDim(loop) != isParallel)
        return op.emitError() << "result " << i << (isParallel ? " lacks" : " is indexed by")
                              << " loop " << loop << ", which is a "
                              << utils::stringifyIteratorType(kind)
                              << " loop; results are indexed by each parallel loop and by no "
                                 "reduction";
    }
  }
  return success();
}

FailureOr<LinalgLoops> LinalgLoops::of(linalg::GenericOp op) {
  if (failed(checkResultLoops(op)))
    return failure();
  LinalgLoops loops;
  for (auto [d, kind] : llvm::enumerate(op.getIteratorTypesArray()))
    (kind == utils::IteratorType::parallel ? loops.parallel : loops.reductions).push_back(d);
  loops.source.resize(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    // Results have more static sizes than the empty tensors that they start from.
    Value sized = op.isDpsInit(&operand) ? Value(op.getTiedOpResult(&operand)) : operand.get();
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      if (auto loop = dyn_cast<AffineDimExpr>(expr))
        loops.source[loop.getPosition()] = {sized, unsigned(dim)};
      else if (!isa<AffineConstantExpr>(expr))
        return op.emitError() << "operand " << operand.getOperandNumber() << " is indexed by "
                              << AffineMapAttr::get(map)
                              << "; only permutations and broadcasts of the loops "
                              << "can be compiled",
               failure();
    }
  }
  for (auto [d, from] : llvm::enumerate(loops.source))
    if (!from.tensor)
      return op.emitError() << "no operand gives the size of loop " << d, failure();
  for (Value input : op.getInputs()) {
    if (isTensor(input))
      loops.tensors.push_back(input);
    else if (!matchPattern(input, m_Constant()))
      return op.emitError("takes a number that is not a constant; pass it as a tensor"), failure();
  }
  if (failed(checkCaptures(op)))
    return failure();
  for (auto [i, init] : llvm::enumerate(op.getOutputs()))
    if (loops.loadsInit(op, i))
      loops.tensors.push_back(init);
  llvm::append_range(loops.tensors, op.getResults());
  return loops;
}

/// Whether `map` walks `loop` and the next one as one loop over their product, or neither of them.
static bool walksAsOne(AffineMap map, unsigned loop) {
  MLIRContext *context = map.getContext();
  auto outer = map.getResultPosition(getAffineDimExpr(loop, context));
  auto inner = map.getResultPosition(getAffineDimExpr(loop + 1, context));
  return outer ? inner && *inner == *outer + 1 : !inner;
}

SmallVector<SmallVector<unsigned>> LinalgLoops::mergedParallel(linalg::GenericOp op) const {
  bool usesIndices = !op.getBody()->getOps<linalg::IndexOp>().empty();
  SmallVector<SmallVector<unsigned>> merged;
  for (unsigned loop : parallel) {
    bool joins = !usesIndices && !merged.empty() && merged.back().back() + 1 == loop &&
                 llvm::all_of(op.getIndexingMapsArray(),
                              [&](AffineMap map) { return walksAsOne(map, loop - 1); });
    if (!joins)
      merged.emplace_back();
    merged.back().push_back(loop);
  }
  return merged;
}

std::optional<int64_t> LinalgLoops::staticLength(linalg::GenericOp op, unsigned loop) {
  for (OpOperand &operand : op->getOpOperands()) {
    Value sized = op.isDpsInit(&operand) ? Value(op.getTiedOpResult(&operand)) : operand.get();
    AffineMap map = op.getMatchingIndexingMap(&operand);
    std::optional<unsigned> dim = map.getResultPosition(getAffineDimExpr(loop, map.getContext()));
    if (auto type = dyn_cast<RankedTensorType>(sized.getType()))
      if (dim && !type.isDynamicDim(*dim))
        return type.getDimSize(*dim);
  }
  return std::nullopt;
}

bool LinalgLoops::readsInit(linalg::GenericOp op, unsigned i) const {
  return !op.getRegionOutputArgs()[i].use_empty() || !reductions.empty();
}

bool LinalgLoops::loadsInit(linalg::GenericOp op, unsigned i) const {
  return readsInit(op, i) && !constantInit(op.getOutputs()[i]);
}

TypedAttr LinalgLoops::constantInit(Value init) {
  Attribute constant;
  if (auto fill = init.getDefiningOp<linalg::FillOp>())
    if (matchPattern(fill.value(), m_Constant(&constant)))
      return cast<TypedAttr>(constant);
  DenseElementsAttr dense;
  if (matchPattern(init, m_Constant(&dense)) && dense.isSplat())
    return cast<TypedAttr>(dense.getSplatValue<Attribute>());
  return {};
}
