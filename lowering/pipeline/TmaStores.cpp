//===- TmaStores.cpp - which stores use TMA --------------------------------===//
#include "lowering/pipeline/TmaTiles.h"
#include "dialect/tile/Branch.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The loop that carries the tile and the row index of `store`, if any, and the number of the row
/// index among the loop's results.
std::pair<scf::ForOp, unsigned> ejk::carrierOf(StoreOp store) {
  auto arg = dyn_cast<BlockArgument>(store.getFirst());
  auto loop = arg ? dyn_cast<scf::ForOp>(arg.getOwner()->getParentOp())
                  : store.getFirst().getDefiningOp<scf::ForOp>();
  if (!loop || (arg && arg == loop.getInductionVar()))
    return {};
  return {loop, arg ? arg.getArgNumber() - 1 : cast<OpResult>(store.getFirst()).getResultNumber()};
}

/// Whether no two iterations of the enclosing loop store the same rows. TMA stores complete in any
/// order, so two stores to one place would race.
static bool storesOnce(StoreOp store) {
  auto loop = store->getParentOfType<scf::ForOp>();
  if (!loop)
    return true;
  if (!isa<ProgramOp, PartitionOp>(loop->getParentOp()))
    return false;
  // A store that is deferred by one iteration. The first iteration must store past the end.
  Value first = store.getFirst();
  if (auto [carrier, result] = carrierOf(store); carrier == loop) {
    if (loop.getInitArgs()[result] != store->getParentOfType<ProgramOp>().getLength())
      return false;
    first = loop.getYieldedValues()[result];
  }
  auto withoutConstant = [&](Value value) {
    while (Operation *maker = value.getDefiningOp()) {
      if (!isa<arith::AddIOp, arith::SubIOp>(maker))
        break;
      bool isFirst = loop.isDefinedOutsideOfLoop(maker->getOperand(1));
      if (!isFirst && !loop.isDefinedOutsideOfLoop(maker->getOperand(0)))
        break;
      value = maker->getOperand(!isFirst);
    }
    return value;
  };
  // Rows of a state slot that belongs to the iteration.
  if (auto ofSlot = store.getRows().getDefiningOp<SlotRowsOp>())
    return withoutConstant(ofSlot.getIndex()) == loop.getInductionVar();
  // Or rows at the counter times at least the tile's number of rows.
  auto scaled = withoutConstant(first).getDefiningOp<arith::MulIOp>();
  APInt rows;
  return scaled && matchPattern(scaled.getRhs(), m_ConstantInt(&rows)) &&
         rows.sge(cast<VectorType>(store.getTile().getType()).getDimSize(0)) &&
         withoutConstant(scaled.getLhs()) == loop.getInductionVar();
}

/// Whether the two stores write other columns.
static bool areInOtherColumns(StoreOp a, StoreOp b) {
  auto isBefore = [](StoreOp first, StoreOp second) {
    std::optional<int64_t> from = getConstantIntValue(first.getChannel()),
                           to = getConstantIntValue(second.getChannel());
    auto type = cast<VectorType>(first.getTile().getType());
    return from && to && *from + (type.getRank() == 2 ? type.getDimSize(1) : 1) <= *to;
  };
  return isBefore(a, b) || isBefore(b, a);
}

/// Whether the two stores never write the same elements: they write other columns, are on different
/// sides of one branch, or one stores what the loop carries and the other the loop's final result.
static bool areApart(StoreOp a, StoreOp b) {
  if (areInOtherColumns(a, b))
    return true;
  auto [loop, result] = carrierOf(a);
  if (loop && std::make_pair(loop, result) == carrierOf(b) &&
      loop->isProperAncestor(a) != loop->isProperAncestor(b))
    return true;
  for (Operation *op = a->getParentOp(); op; op = op->getParentOp())
    if (Branch::is(op) && op->isProperAncestor(b))
      return op->getRegion(0).isAncestor(a->getParentRegion()) !=
             op->getRegion(0).isAncestor(b->getParentRegion());
  return false;
}

/// Whether `store` is of a shorter chunk, in the place of an exact path (ejk-select-schedule). Few chunks
/// take that path, and threads store their rows.
static bool isOfShorterChunk(StoreOp store) {
  auto loop = store ? store->getParentOfType<scf::ForOp>() : scf::ForOp();
  return loop && isOnExactPath(loop);
}

SmallVector<StoreOp> ejk::storesTo(Value arg) {
  SmallVector<StoreOp> stores;
  for (Operation *user : arg.getUsers()) {
    auto ofSlot = dyn_cast<SlotRowsOp>(user);
    for (Operation *op : ofSlot ? llvm::to_vector(ofSlot->getUsers()) : SmallVector{user})
      stores.push_back(dyn_cast<StoreOp>(op));
  }
  return stores;
}

SmallVector<StoreOp> ejk::findTmaStores(ProgramOp program) {
  SmallVector<StoreOp> found;
  for (ValueRange args : {program.getOutputArgs(), program.getSaveArgs()})
    for (Value arg : args) {
      SmallVector<StoreOp> stores = storesTo(arg);
      SmallVector<StoreOp> ofChunks = llvm::to_vector(
          llvm::make_filter_range(stores, [](StoreOp store) { return !isOfShorterChunk(store); }));
      bool areAllApart = llvm::all_of(stores, [&](StoreOp store) {
        return store && llvm::all_of(stores, [&](StoreOp other) {
                 return other == store || (other && areApart(store, other));
               });
      });
      bool canUseTma = areAllApart && llvm::all_of(ofChunks, [&](StoreOp store) {
        auto type = dyn_cast<VectorType>(store.getTile().getType());
        // A stage of a ring could be refilled before the bulk store has read it.
        return type && !store.getTile().getDefiningOp<TakeOp>() &&
               isTmaTile(store.getRows(), store.getChannel(), type, layoutOf(store.getTile())) &&
               storesOnce(store);
      });
      if (canUseTma)
        found.append(ofChunks);
    }
  return found;
}
