//===- PipelineMatmuls.cpp - the next iteration's first products -----------===//
//
// An iteration's last products end late: the loop's state is one. What the next one
// multiplies first, of rows alone, queues behind them and is there when it starts.
// The next item is taken where the last products begin, which have a barrier in front of
// them anyway; from there on it is held. Of items that come in boxes no take has a barrier:
// then it is taken behind those products, and boxes are ordered in front of the next one's,
// for a warp that issues products waits until the ones before have begun.
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

/// One stage for the item that is used, one for the next, and one to be filled.
static constexpr int64_t kStages = 3;

namespace {
/// Rotates the products of one loop.
class Rotator {
public:
  explicit Rotator(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {}

  unsigned run() {
    if (!matchPattern(loop.getLowerBound(), m_Zero()) || !matchPattern(loop.getStep(), m_One()))
      return 0;
    for (auto op : loop.getBody()->getOps<TakeOp>())
      if (op.getItem() == loop.getInductionVar() && !op.getHeld() &&
          op.getRing().getType().getStages() >= kStages)
        take = op;
    if (!take || !isFilledAhead())
      return 0;
    for (auto dot : loop.getBody()->getOps<DotOp>())
      if (isOfItem(dot))
        products.push_back(dot);
      else
        last = dot;
    // Without others that follow, there is nothing to queue behind.
    if (products.empty() || !last || last->isBeforeInBlock(products.back()))
      return 0;
    inBoxes = usesTmaLoads(loop->getParentOfType<ProgramOp>());
    takeFirst();
    takeNext();
    return products.size();
  }

private:
  /// Whether the next item is always filled when an iteration begins: the first two are in
  /// front of the loop, and in it those that come two behind its own or later.
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

  /// Whether `dot` is of the item's tiles alone.
  bool isOfItem(DotOp dot) {
    return dot.getLhs().getDefiningOp() == take && dot.getRhs().getDefiningOp() == take &&
           loop.isDefinedOutsideOfLoop(dot.getAcc());
  }

  TakeOp takeItem(Value item) {
    auto copy = cast<TakeOp>(b.clone(*take));
    copy.getItemMutable().assign(item);
    return copy;
  }

  /// The products of an item that was taken.
  SmallVector<Value> multiply(TakeOp item) {
    IRMapping map;
    map.map(take->getResults(), item->getResults());
    return llvm::map_to_vector(
        products, [&](DotOp dot) -> Value { return b.clone(*dot, map)->getResult(0); });
  }

  /// In front of the loop, which carries the products from here on.
  void takeFirst() {
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    SmallVector<Value> first = multiply(takeItem(zero));
    SmallVector<Attribute> layouts;
    if (auto known = loop->getAttrOfType<ArrayAttr>(kLayoutsAttr))
      layouts = llvm::to_vector(known);
    for (DotOp dot : products)
      if (LayoutAttr layout = layoutOf(dot.getResult()))
        layouts.push_back(layout);
    IRRewriter rewriter(b);
    loop = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, first, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
          // Until the next ones are there.
          return llvm::map_to_vector(products, [](DotOp dot) -> Value { return dot; });
        }));
    if (!layouts.empty())
      loop->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
  }

  void takeNext() {
    // The first of the products that stand together with the last one.
    Operation *group = last;
    while (isa_and_nonnull<DotOp>(group->getPrevNode()) &&
           !llvm::is_contained(products, group->getPrevNode()))
      group = group->getPrevNode();
    b.setInsertionPoint(group);
    if (inBoxes)
      b.setInsertionPointAfter(last);
    Value one = arith::ConstantIndexOp::create(b, loc, 1);
    TakeOp next = takeItem(arith::AddIOp::create(b, loc, loop.getInductionVar(), one));
    b.setInsertionPointAfter(inBoxes ? next.getOperation() : last);
    SmallVector<Value> results = multiply(next);
    moveCopies(inBoxes ? next.getOperation() : results.back().getDefiningOp());

    take.setHeld(true);
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    unsigned carried = yield.getNumOperands() - products.size();
    for (auto [i, dot] : llvm::enumerate(products)) {
      yield.setOperand(carried + i, results[i]);
      dot.getResult().replaceAllUsesWith(loop.getRegionIterArg(carried + i));
      dot.erase();
    }
  }

  /// Copies of the ring start behind `op`: the next item's take has the barrier that they
  /// need.
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
  SmallVector<DotOp> products;
  DotOp last;
  /// Whether items come in boxes.
  bool inBoxes = false;
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
    count += Rotator(loop).run();
  return count;
}
