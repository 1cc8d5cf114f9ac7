//===- TileRings.cpp - verifiers of rings and partitions ------------------------===//
#include "dialect/tile/Tile.h"
#include "dialect/tile/TileVerify.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

LogicalResult RingType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t stages,
                               ArrayRef<Type> tiles) {
  // A block has fewer bytes than would hold more stages of any tile.
  constexpr int64_t kMostStages = 1024;
  if (stages < 1 || stages > kMostStages)
    return emitError() << "a ring must have 1 to " << kMostStages << " stages (C1), but has "
                       << stages;
  for (Type tile : tiles) {
    auto vector = dyn_cast<VectorType>(tile);
    if (!vector || vector.isScalable() || vector.getRank() < 1 || vector.getRank() > 2 ||
        !isa<Float32Type, Float16Type, BFloat16Type>(vector.getElementType()))
      return emitError() << "a ring holds vectors of rank 1 or 2 of f32, f16 or bf16 (C1), not "
                         << tile;
  }
  return success();
}

/// The interpreter and the lowering identify a ring by its tile.make_ring.
static LogicalResult verifyRing(Operation *op, Value ring, StringRef constraint) {
  if (ring.getDefiningOp<MakeRingOp>())
    return success();
  return op->emitOpError() << "the ring must be a tile.make_ring's (" << constraint << ")";
}

LogicalResult AcquireOp::verify() { return verifyRing(*this, getRing(), "C1"); }
LogicalResult ReleaseOp::verify() { return verifyRing(*this, getRing(), "C1"); }

LogicalResult FillOp::verify() {
  ArrayRef<Type> tiles = getRing().getType().getTiles();
  if (getRows().size() != tiles.size())
    return emitOpError() << "rows, a first row and a first channel are needed for each of the "
                         << tiles.size() << " tiles of an item (C1), but there are "
                         << getRows().size();
  for (auto [rows, tile] : llvm::zip_equal(getRows(), tiles))
    if (failed(verifyRows(*this, cast<RowsType>(rows.getType()), tile, "C2")))
      return failure();
  return verifyRing(*this, getRing(), "C3");
}

LogicalResult PutOp::verify() {
  if (TypeRange(getTiles()) != TypeRange(getRing().getType().getTiles()))
    return emitOpError() << "the tiles must be those of " << getRing().getType()
                         << " (C1), but are " << TypeRange(getTiles());
  if (llvm::any_of(getRing().getUsers(), llvm::IsaPred<FillOp>))
    return emitOpError() << "the ring's items are filled with rows (C3)";
  return verifyRing(*this, getRing(), "C2");
}

LogicalResult TakeOp::verify() {
  if (TypeRange(getTiles()) != TypeRange(getRing().getType().getTiles()))
    return emitOpError() << "the results must be the tiles of " << getRing().getType()
                         << " (C1), but are " << TypeRange(getTiles());
  return verifyRing(*this, getRing(), "C2");
}

//===----------------------------------------------------------------------===//
// Partitions
//===----------------------------------------------------------------------===//

LogicalResult PartitionOp::verify() {
  int64_t warps = getWarps();
  if (warps < 1)
    return emitOpError() << "'warps' must be positive (C1), but is " << warps;
  if (std::optional<uint64_t> registers = getRegisters()) {
    if (*registers % 8 != 0 || *registers < 24 || *registers > 256)
      return emitOpError() << "'registers' must be a multiple of 8 from 24 to 256 (C2), but is "
                           << int64_t(*registers);
    if (warps % 4 != 0)
      return emitOpError() << "'registers' are those of four warps at a time, but there are "
                           << warps << " (C2)";
  }
  return success();
}

/// Records that `partition` uses `ring` this way. An error if another partition does, too.
static LogicalResult noteUser(llvm::DenseMap<Value, PartitionOp> &known, Value ring,
                              Operation *user, PartitionOp partition, StringRef what) {
  auto [it, isNew] = known.try_emplace(ring, partition);
  if (it->second == partition)
    return success();
  InFlightDiagnostic error = user->emitOpError()
                             << "one partition alone " << what << " items of a ring (C3), but '"
                             << it->second.getName() << "' and '" << partition.getName() << "' do";
  error.attachNote(ring.getLoc()) << "the ring is made here";
  return error;
}

LogicalResult WarpSpecializeOp::verifyRegions() {
  llvm::StringSet<> names;
  for (Operation &op : getBody().front()) {
    auto partition = dyn_cast<PartitionOp>(op);
    if (!partition)
      return op.emitOpError("stands among partitions, which stand alone (C1)");
    if (!names.insert(partition.getName()).second)
      return partition.emitOpError()
             << "is the second of the name '" << partition.getName() << "' (C1)";
  }
  if (names.empty())
    return emitOpError("must hold at least one partition (C1)");

  for (Operation &op : *(*this)->getBlock()) {
    bool after = (*this)->isBeforeInBlock(&op);
    if (after ? !isa<EndOp>(op)
              : isa<TileDialect>(op.getDialect()) &&
                    !isa<MakeRingOp, TriangleOp, FenceOp, BarrierOp, WarpSpecializeOp>(op))
      return op.emitOpError() << (after ? "comes after" : "stands beside")
                              << " the program's partitions; its work must be one's (C2)";
  }

  llvm::DenseMap<Value, PartitionOp> fillers;
  for (auto partition : getBody().getOps<PartitionOp>()) {
    WalkResult walked = partition.walk([&](Operation *op) {
      LogicalResult result = success();
      if (isa<AcquireOp, FillOp, PutOp>(op))
        result = noteUser(fillers, op->getOperand(0), op, partition, "acquires and fills");
      return failed(result) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
  }
  return success();
}
