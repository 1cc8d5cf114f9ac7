//===- Accesses.cpp - accesses of an op to shared memory --------------------===//
#include "lowering/memory/Accesses.h"
#include "lowering/kernels/Neighbours.h"
#include "lowering/layout/Alignment.h"
#include "lowering/layout/MatmulOperands.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static bool isShared(Value value) {
  return isa<VectorType>(value.getType()) && isInShared(layoutOf(value));
}

bool ejk::isInPlace(Operation *op) {
  LayoutAttr from = layoutOf(op->getOperand(0)), to = layoutOf(op->getResult(0));
  return from.getPlace() >= 0 && from.getPlace() == to.getPlace();
}

SmallVector<Access> ejk::accessesOf(Operation *op) {
  SmallVector<Access> accesses;
  auto read = [&](Value tile, Agent agent = Agent::threads) {
    if (isShared(tile))
      accesses.push_back({tile, /*writes=*/false, agent});
  };
  auto write = [&](Value tile, Agent agent = Agent::threads) {
    if (isShared(tile))
      accesses.push_back({tile, /*writes=*/true, agent});
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LoadOp load) {
        bool isCopied = copyBytes(load) >= 4;
        write(load, isCopied ? Agent::copies : Agent::threads);
      })
      .Case([&](StoreOp store) {
        if (store.getBulk())
          read(store.getTile(), Agent::bulkStores);
        // At the end of a packed sequence or segment, threads store the rows that belong to it.
        auto program = store->getParentOfType<ProgramOp>();
        if (!store.getBulk() || hasNeighbours(program))
          read(store.getTile());
      })
      .Case([&](DotOp dot) {
        Agent agent = isByWarpgroups(dot) ? Agent::matmuls : Agent::threads;
        MatmulOperands operands = MatmulOperands::of(dot);
        read(operands.right, agent);
        read(operands.left, agent);
      })
      .Case([&](CumsumOp sums) {
        if (!sums.getTriangle())
          return;
        read(sums.getTriangle(), Agent::matmuls);
        Value inShared = summedInShared(sums);
        LayoutAttr layout = inShared ? layoutOf(inShared) : LayoutAttr();
        if (isSwizzled(layout) && !isTransposed(layout))
          read(inShared, Agent::matmuls);
      })
      .Case([&](AddCumsumOp sums) {
        read(sums.getTerm(), sums.getTriangle() ? Agent::matmuls : Agent::threads);
        if (sums.getTriangle())
          read(sums.getTriangle(), Agent::matmuls);
      })
      .Case([&](PutOp put) { llvm::for_each(put.getTiles(), [&](Value tile) { read(tile); }); })
      .Case([&](BroadcastOp broadcast) {
        if (layoutOf(broadcast).getKind() != LayoutKind::uniform)
          read(broadcast.getVector());
      })
      .Case([&](vector::InsertOp insert) {
        // In shared memory the row is stored in place.
        read(insert.getValueToStore());
        if (isShared(insert.getResult()))
          write(insert.getResult());
      })
      .Case<InvertDiagonalOp, MergeInversesOp>([&](auto blocks) {
        // In place, threads order what they read and write inside the op.
        if (!isInPlace(blocks))
          read(blocks.getMatrix());
        write(blocks.getResult());
      })
      .Case<ConvertOp, TriangleOp, PartialSumOp, AddPartsOp, vector::ExtractOp>(
          [&](Operation *other) {
            for (Value operand : other->getOperands())
              read(operand);
            write(other->getResult(0));
          });
  return accesses;
}

unsigned ejk::groupsOf(Operation *op) {
  if (auto dot = dyn_cast<DotOp>(op))
    return isByWarpgroups(dot);
  if (auto sums = dyn_cast<AddCumsumOp>(op))
    return sums.getTriangle() ? 1 : 0;
  auto sums = dyn_cast<CumsumOp>(op);
  if (!sums || !sums.getTriangle())
    return 0;
  return sums.getTile().getDefiningOp<arith::ExtFOp>() ? 1 : kSplitTerms;
}
