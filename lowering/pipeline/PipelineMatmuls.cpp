//===- PipelineMatmuls.cpp - matmuls one iteration early -------------------===//
//
// Issues matmuls that need only the next iteration's rows right after this iteration's last
// matmuls, e.g. q·kᵀ of the next chunk. They queue on the tensor cores and are complete when the
// next iteration starts.
//
// The next item is taken before the last matmuls, which have a barrier anyway; later takes of it
// are marked `held`. With TMA no take has a barrier. The next item is then taken after the last
// matmuls, and TMA loads are issued before the next item's matmuls, because a warp that issues
// `wgmma` waits until earlier ones have started.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/PipelineMatmuls.h"
#include "lowering/Passes.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/pipeline/TmaTiles.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace ejk {
#define GEN_PASS_DEF_PIPELINEMATMULS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// One stage for the current item, one for the next, and one that is being filled.
static constexpr int64_t kMatmulStages = 3;

namespace {
/// Pipelines the matmuls of one loop.
class MatmulPipeliner {
public:
  explicit MatmulPipeliner(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {}

  unsigned run() {
    if (!matchPattern(loop.getLowerBound(), m_Zero()) || !matchPattern(loop.getStep(), m_One()))
      return 0;
    for (auto op : loop.getBody()->getOps<TakeOp>())
      if (op.getItem() == loop.getInductionVar() && !op.getHeld() &&
          op.getRing().getType().getStages() >= kMatmulStages)
        take = op;
    if (!take || !isFilledAhead())
      return 0;
    for (auto dot : loop.getBody()->getOps<DotOp>())
      if (isOfItem(dot))
        matmuls.push_back(dot);
      else
        last = dot;
    // If no other matmuls follow, there is nothing to queue after.
    if (matmuls.empty() || !last || last->isBeforeInBlock(matmuls.back()))
      return 0;
    usesTma = usesTmaLoads(loop->getParentOfType<ProgramOp>());
    takeFirst();
    takeNext();
    return matmuls.size();
  }

private:
  /// Whether the next item is always filled when an iteration starts: items 0 and 1 are filled
  /// before the loop, and the body fills items two or more ahead.
  bool isFilledAhead() {
    llvm::DenseSet<int64_t> before;
    for (Operation *user : take.getRing().getUsers()) {
      auto fill = dyn_cast<FillOp>(user);
      if (!fill)
        continue;
      APInt number;
      if (fill->getBlock() == loop->getBlock()) {
        if (fill->isBeforeInBlock(loop) && matchPattern(fill.getItem(), m_ConstantInt(&number)))
          before.insert(number.getSExtValue());
        continue;
      }
      std::optional<int64_t> ahead = itemsAhead(loop.getInductionVar(), fill.getItem());
      if (fill->getBlock() != loop.getBody() || !ahead || *ahead < 2)
        return false;
    }
    return before.contains(0) && before.contains(1);
  }

  /// Whether `dot` reads only the item's tiles.
  bool isOfItem(DotOp dot) {
    return dot.getLhs().getDefiningOp() == take && dot.getRhs().getDefiningOp() == take &&
           loop.isDefinedOutsideOfLoop(dot.getAcc());
  }

  TakeOp takeItem(Value item) {
    auto copy = cast<TakeOp>(b.clone(*take));
    copy.getItemMutable().assign(item);
    return copy;
  }

  /// Emits the matmuls for a taken item.
  SmallVector<Value> multiply(TakeOp item) {
    IRMapping map;
    map.map(take->getResults(), item->getResults());
    return llvm::map_to_vector(
        matmuls, [&](DotOp dot) -> Value { return b.clone(*dot, map)->getResult(0); });
  }

  /// Emits the first matmuls before the loop, which carries the results from now on.
  void takeFirst() {
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    SmallVector<Value> first = multiply(takeItem(zero));
    SmallVector<Attribute> layouts;
    if (auto known = loop->getAttrOfType<ArrayAttr>(kLayoutsAttr))
      layouts = llvm::to_vector(known);
    for (DotOp dot : matmuls)
      if (LayoutAttr layout = layoutOf(dot.getResult()))
        layouts.push_back(layout);
    IRRewriter rewriter(b);
    loop = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, first, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
          // Placeholders, until takeNext emits the next matmuls.
          return llvm::map_to_vector(matmuls, [](DotOp dot) -> Value { return dot; });
        }));
    if (!layouts.empty())
      loop->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
  }

  void takeNext() {
    // The first matmul of the last group.
    Operation *group = last;
    while (isa_and_nonnull<DotOp>(group->getPrevNode()) &&
           !llvm::is_contained(matmuls, group->getPrevNode()))
      group = group->getPrevNode();
    b.setInsertionPoint(group);
    if (usesTma)
      b.setInsertionPointAfter(last);
    Value one = arith::ConstantIndexOp::create(b, loc, 1);
    TakeOp next = takeItem(arith::AddIOp::create(b, loc, loop.getInductionVar(), one));
    b.setInsertionPointAfter(usesTma ? next.getOperation() : last);
    SmallVector<Value> results = multiply(next);
    moveCopies(usesTma ? next.getOperation() : results.back().getDefiningOp());

    take.setHeld(true);
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    unsigned carried = yield.getNumOperands() - matmuls.size();
    for (auto [i, dot] : llvm::enumerate(matmuls)) {
      yield.setOperand(carried + i, results[i]);
      dot.getResult().replaceAllUsesWith(loop.getRegionIterArg(carried + i));
      dot.erase();
    }
  }

  /// Moves fills of the ring after `op`: the take of the next item has the barrier that they need.
  void moveCopies(Operation *op) {
    SmallVector<Operation *> copies;
    for (Operation &inner : *loop.getBody())
      if (isa<AcquireOp, FillOp>(inner) && inner.getOperand(0) == take.getRing() &&
          inner.isBeforeInBlock(op))
        copies.push_back(&inner);
    for (Operation *copy : copies) {
      copy->moveAfter(op);
      op = copy;
    }
  }

  scf::ForOp loop;
  OpBuilder b;
  Location loc;
  TakeOp take;
  SmallVector<DotOp> matmuls;
  DotOp last;
  /// Whether TMA fills the ring.
  bool usesTma = false;
};

struct PipelineMatmulsPass : ejk::impl::PipelineMatmulsBase<PipelineMatmulsPass> {
  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](ProgramOp program) { numRotated += pipelineMatmuls(program); });
  }
};
} // namespace

unsigned ejk::pipelineMatmuls(ProgramOp program) {
  unsigned count = 0;
  for (auto loop : llvm::make_early_inc_range(program.getBlock().getOps<scf::ForOp>()))
    count += MatmulPipeliner(loop).run();
  return count;
}
