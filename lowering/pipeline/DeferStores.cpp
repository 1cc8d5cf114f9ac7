//===- DeferStores.cpp - stores of the previous iteration ------------------===//
//
// Pipelines stores: an iteration stores the rows of the previous one.
//
// The results of an iteration are complete when its last matmul is. Storing them from shared memory
// takes a barrier, during which the tensor cores would idle. In the next iteration such a barrier
// passes anyway, and matmuls run after it.
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
  Deferrer(scf::ForOp loop, bool always)
      : loop(loop), always(always), b(loop), loc(loop.getLoc()) {}

  unsigned run() {
    findMatmuls();
    if (!firstReader || firstReader == last)
      return 0;
    SmallVector<StoreOp> stores;
    for (auto store : loop.getBody()->getOps<StoreOp>())
      if (canDefer(store))
        stores.push_back(store);
    for (StoreOp store : stores)
      defer(store);
    return stores.size();
  }

private:
  /// Finds the first matmul that reads what this iteration stored to shared memory, and the last
  /// matmul.
  void findMatmuls() {
    DotOp first;
    for (auto dot : loop.getBody()->getOps<DotOp>()) {
      first = first ? first : dot;
      last = dot;
      if (!firstReader && llvm::any_of(dot->getOperands(), [&](Value operand) {
            auto stored = operand.getDefiningOp<ConvertOp>();
            return stored && stored->getBlock() == loop.getBody() && isSwizzled(stored.getLayout());
          }))
        firstReader = dot;
    }
    if (!firstReader && always)
      firstReader = first;
  }

  /// Whether `store` writes rows of the program, after all matmuls, from a swizzled tile with no
  /// other use.
  bool canDefer(StoreOp store) {
    auto stored = store.getTile().getDefiningOp<ConvertOp>();
    return stored && stored->getBlock() == loop.getBody() && last->isBeforeInBlock(stored) &&
           stored->hasOneUse() && isSwizzled(stored.getLayout()) &&
           isa<BlockArgument>(store.getRows()) && loop.isDefinedOutsideOfLoop(store.getChannel());
  }

  void defer(StoreOp store) {
    auto stored = store.getTile().getDefiningOp<ConvertOp>();
    auto type = cast<VectorType>(stored.getResult().getType());
    // The first iteration stores past the end of the sequence, i.e. nothing.
    b.setInsertionPoint(loop);
    auto zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    auto uniform = LayoutAttr::get(b.getContext(), LayoutKind::uniform, 0, 0);
    zeros->setAttr(kLayoutsAttr, b.getArrayAttr({uniform}));
    Value nothing = ConvertOp::create(b, loc, zeros, stored.getLayout());
    Value pastEnd = loop->getParentOfType<ProgramOp>().getLength();
    SmallVector<Attribute> layouts;
    if (auto known = loop->getAttrOfType<ArrayAttr>(kLayoutsAttr))
      layouts = llvm::to_vector(known);
    layouts.resize(loop.getNumResults(), b.getUnitAttr());
    layouts.append({stored.getLayout(), b.getUnitAttr()});
    IRRewriter rewriter(b);
    loop = cast<scf::ForOp>(*loop.replaceWithAdditionalYields(
        rewriter, {nothing, pastEnd}, /*replaceInitOperandUsesInLoop=*/false,
        [&](OpBuilder &, Location, ArrayRef<BlockArgument>) {
          return SmallVector<Value>{stored.getResult(), store.getFirst()};
        }));
    loop->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));

    auto storeCarried = [&](ValueRange tileAndRow) {
      StoreOp::create(b, store.getLoc(), tileAndRow[0], store.getRows(), tileAndRow[1],
                      store.getChannel());
    };
    b.setInsertionPointAfter(firstReader);
    storeCarried(ValueRange(loop.getRegionIterArgs()).take_back(2));
    b.setInsertionPointAfter(loop);
    storeCarried(ValueRange(loop.getResults()).take_back(2));
    store.erase();
  }

  scf::ForOp loop;
  bool always;
  OpBuilder b;
  Location loc;
  DotOp firstReader, last;
};

struct DeferStoresPass : ejk::impl::DeferStoresBase<DeferStoresPass> {
  void runOnOperation() override {
    if (failed(checkLayoutsIn(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](ProgramOp program) { numDeferred += deferStores(program); });
  }
};
} // namespace

unsigned ejk::deferStores(ProgramOp program, bool always) {
  unsigned count = 0;
  for (auto loop : llvm::make_early_inc_range(program.getBlock().getOps<scf::ForOp>()))
    count += Deferrer(loop, always).run();
  return count;
}
