//===- DeferStores.cpp - the last iteration's rows stored in this one -------===//
//
// What an iteration gives is there when its products end; to store it from shared memory takes
// a barrier, at which all threads would wait while tensor cores have nothing to do. The next
// iteration has one anyway, behind which its own products run.
//
//===----------------------------------------------------------------------===//
#include "lowering/pipeline/DeferStores.h"
#include "lowering/Passes.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ejk {
#define GEN_PASS_DEF_DEFERSTORES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// The stores of one loop.
class Deferrer {
public:
  explicit Deferrer(scf::ForOp loop) : loop(loop), b(loop), loc(loop.getLoc()) {}

  unsigned run() {
    findAnchor();
    if (!anchor || anchor == last)
      return 0;
    SmallVector<StoreOp> stores;
    for (auto store : loop.getBody()->getOps<StoreOp>())
      if (isLate(store))
        stores.push_back(store);
    for (StoreOp store : stores)
      defer(store);
    return stores.size();
  }

private:
  /// The first product of what this iteration stored to shared memory, and the last product.
  void findAnchor() {
    for (auto dot : loop.getBody()->getOps<DotOp>()) {
      last = dot;
      if (!anchor && llvm::any_of(dot->getOperands(), [&](Value factor) {
            auto stored = factor.getDefiningOp<ConvertOp>();
            return stored && stored->getBlock() == loop.getBody() && isPanels(stored.getLayout());
          }))
        anchor = dot;
    }
  }

  /// Whether it stores rows of the program's, behind all products, from panels that are made for
  /// it alone.
  bool isLate(StoreOp store) {
    auto stored = store.getTile().getDefiningOp<ConvertOp>();
    return stored && stored->getBlock() == loop.getBody() && last->isBeforeInBlock(stored) &&
           stored->hasOneUse() && isPanels(stored.getLayout()) &&
           isa<BlockArgument>(store.getRows()) && loop.isDefinedOutsideOfLoop(store.getChannel());
  }

  void defer(StoreOp store) {
    auto stored = store.getTile().getDefiningOp<ConvertOp>();
    auto type = cast<VectorType>(stored.getResult().getType());
    // The first iteration has nothing to store: rows behind the sequence's last.
    b.setInsertionPoint(loop);
    auto zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    auto uniform = LayoutAttr::get(b.getContext(), LayoutKind::uniform, 0, 0);
    zeros->setAttr(kLayoutsAttr, b.getArrayAttr({uniform}));
    Value nothing = ConvertOp::create(b, loc, zeros, stored.getLayout());
    Value behind = loop->getParentOfType<ProgramOp>().getLength();
    SmallVector<Attribute> layouts;
    if (auto known = loop->getAttrOfType<ArrayAttr>(kLayoutsAttr))
      layouts = llvm::to_vector(known);
    layouts.resize(loop.getNumResults(), b.getUnitAttr());
    layouts.append({stored.getLayout(), b.getUnitAttr()});
    IRRewriter rewriter(b);
    loop = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, {nothing, behind}, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
          return SmallVector<Value>{stored.getResult(), store.getFirst()};
        }));
    loop->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));

    auto storeCarried = [&](ValueRange tileAndRow) {
      StoreOp::create(b, store.getLoc(), tileAndRow[0], store.getRows(), tileAndRow[1],
                      store.getChannel());
    };
    b.setInsertionPointAfter(anchor);
    storeCarried(ValueRange(loop.getRegionIterArgs()).take_back(2));
    b.setInsertionPointAfter(loop);
    storeCarried(ValueRange(loop.getResults()).take_back(2));
    store.erase();
  }

  scf::ForOp loop;
  OpBuilder b;
  Location loc;
  DotOp anchor, last;
};

struct DeferStoresPass : ejk::impl::DeferStoresBase<DeferStoresPass> {
  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](ProgramOp program) { numDeferred += deferStores(program); });
  }
};
} // namespace

unsigned ejk::deferStores(ProgramOp program) {
  unsigned count = 0;
  for (auto loop : llvm::make_early_inc_range(program.getBlock().getOps<scf::ForOp>()))
    count += Deferrer(loop).run();
  return count;
}
