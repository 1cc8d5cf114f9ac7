//===- CheckLaidOut.cpp - what a plan of shared memory requires ----------===//
#include "dialect/tile/Branch.h"
#include "lowering/kernels/GroupSums.h"
#include "lowering/layout/Alignment.h"
#include "lowering/layout/CheckLayouts.h"
#include "lowering/layout/MatmulOperands.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/memory/Accesses.h"
#include "lowering/memory/PlanMemory.h"
#include "lowering/memory/RingLayout.h"
#include "lowering/pipeline/TmaTiles.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether `op` runs after `maker` in the same iteration of `loop`.
static bool runsAfter(Operation *maker, Operation *op, scf::ForOp loop) {
  for (Operation *at = maker; at != loop; at = at->getParentOp()) {
    Operation *here = at->getBlock()->findAncestorOpInBlock(*op);
    if (here && at->isBeforeInBlock(here))
      return true;
  }
  return false;
}

/// Checks a tile that a loop carries in shared memory. Its one or two buffers are fixed, so the
/// yielded value must be stored after the last use of the argument, or be the argument with one
/// more row. After the loop it may only be stored to global memory.
static LogicalResult checkCarried(scf::ForOp loop) {
  for (auto [arg, init, result] :
       llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs(), loop.getResults())) {
    LayoutAttr layout = isa<VectorType>(arg.getType()) ? layoutOf(arg) : LayoutAttr();
    if (!isInShared(layout))
      continue;
    bool isRowByRow = llvm::any_of(findRowByRow(loop), [&, arg = arg](const RowByRow &matrix) {
      return matrix.argument() == arg;
    });
    auto isStored = [](Value tile) {
      return llvm::all_of(tile.getUsers(), llvm::IsaPred<StoreOp>);
    };
    if (layoutOf(init).withoutPlace() != layout.withoutPlace() || !init.hasOneUse() ||
        !(result.use_empty() || isRowByRow || (isStored(arg) && isStored(result))))
      return loop.emitError("carries a tile in shared memory that comes from another place, or is "
                            "used behind the loop");
    if (isRowByRow)
      continue; // each row is stored to its final place
    SmallVector<Value> left = {loop.getYieldedValues()[arg.getArgNumber() - 1]};
    while (!left.empty()) {
      Value next = left.pop_back_val();
      Operation *maker = next.getDefiningOp();
      if (Branch branch = Branch::of(maker); branch && next.hasOneUse()) {
        unsigned number = cast<OpResult>(next).getResultNumber();
        for (Region &side : branch->getRegions())
          left.push_back(side.front().getTerminator()->getOperand(number));
        continue;
      }
      auto row = dyn_cast_or_null<vector::ExtractOp>(maker);
      bool isStored =
          isa_and_nonnull<ConvertOp>(maker) || (row && isFragments(layoutOf(row.getSource())));
      if (!isStored || !next.hasOneUse() || layoutOf(next).withoutPlace() != layout.withoutPlace() ||
          !loop->isProperAncestor(maker))
        return loop.emitError("hands on a tile in shared memory that is not stored there for the "
                              "next iteration alone");
      for (Operation *user : arg.getUsers())
        if (runsAfter(maker, user, loop))
          return user->emitError("uses a tile in shared memory behind what takes its place");
    }
  }
  return success();
}

/// Checks a matrix in shared memory that a loop builds row by row: the loop must own its buffer,
/// and users must read it through conversions.
static LogicalResult checkRowByRow(RowByRow matrix) {
  if (!isInShared(layoutOf(matrix.result())))
    return success();
  if (!matrix.init().get().getDefiningOp<ConvertOp>() ||
      !llvm::all_of(matrix.result().getUsers(), llvm::IsaPred<ConvertOp>))
    return matrix.insert.emitError("puts rows into a matrix in shared memory that is not its "
                                   "loop's own, or is not read through conversions");
  return success();
}

/// Checks that threads store such tiles, and that matmuls, or threads that store them so, read
/// them.
static LogicalResult checkSwizzledF32(Operation *op) {
  auto isFragmentsOf = [](Value tile, LayoutAttr other) {
    return canBeSwizzledF32(layoutOf(tile), other);
  };
  auto convert = dyn_cast<ConvertOp>(op);
  for (Value operand : op->getOperands()) {
    if (!isSwizzledF32(operand) || isa<scf::ForOp, scf::YieldOp, tile::YieldOp>(op))
      continue;
    auto dot = dyn_cast<DotOp>(op);
    if (!(dot && dot.isInTf32()) &&
        !(convert && isFragmentsOf(convert.getResult(), layoutOf(operand))))
      return op->emitError("reads a swizzled tile of f32, which only matmuls in tf32 do, and "
                           "conversions to fragments of its orientation");
  }
  for (Value result : op->getResults()) {
    if (!isSwizzledF32(result) || isa<scf::ForOp>(op) || Branch::is(op))
      continue;
    auto take = dyn_cast<TakeOp>(op);
    bool isPut = take && llvm::none_of(take.getRing().getUsers(), llvm::IsaPred<FillOp>);
    if (!isPut && !(convert && isFragmentsOf(convert.getTile(), layoutOf(result))))
      return op->emitError("makes a swizzled tile of f32, which only conversions of fragments of "
                           "its orientation do, and rings that they are put into");
  }
  auto put = dyn_cast<PutOp>(op);
  TakeOp stored = put ? takeOf(put.getRing().getDefiningOp<MakeRingOp>()) : TakeOp();
  if (stored)
    for (auto [tile, as] : llvm::zip_equal(put.getTiles(), stored.getTiles()))
      if (isSwizzledF32(as) && !isFragmentsOf(tile, layoutOf(as)))
        return op->emitError("puts a tile of another orientation than the ring's");
  return success();
}

LogicalResult ejk::checkLaidOut(ProgramOp program) {
  if (failed(checkLayouts(program)))
    return failure();
  llvm::DenseSet<Operation *> inserts;
  for (const RowByRow &matrix : findRowByRow(program)) {
    if (failed(checkRowByRow(matrix)))
      return failure();
    inserts.insert(matrix.insert);
  }
  WalkResult walked = program.walk([&](Operation *op) -> WalkResult {
    if (failed(checkSwizzledF32(op)))
      return WalkResult::interrupt();
    if (isa<vector::InsertOp>(op) && isInShared(layoutOf(op->getResult(0))) &&
        !inserts.contains(op))
      return op->emitError("puts a row into a tile in shared memory that no loop makes row by row");
    if (auto loop = dyn_cast<scf::ForOp>(op); loop && failed(checkCarried(loop)))
      return WalkResult::interrupt();
    if (Branch::is(op))
      for (Value result : op->getResults())
        if (isa<VectorType>(result.getType()) && isInShared(layoutOf(result)) &&
            !(result.hasOneUse() && isa<scf::YieldOp, tile::YieldOp>(*result.user_begin())))
          return op->emitError("gives a tile in shared memory that no loop carries");
    if (auto take = dyn_cast<TakeOp>(op)) {
      auto first = takeOf(take.getRing().getDefiningOp<MakeRingOp>());
      for (auto [tile, known] : llvm::zip_equal(take.getTiles(), first.getTiles()))
        if (LayoutAttr layout = layoutOf(tile); !isInShared(layout) || layout != layoutOf(known))
          return op->emitError("the tiles of a ring must have one layout each, in shared memory");
    }
    if (auto fill = dyn_cast<FillOp>(op))
      for (auto [rows, tile, channel] :
           llvm::zip_equal(fill.getRows(), fill.getRing().getType().getTiles(), fill.getChannels()))
        if (copyBytes(cast<RowsType>(rows.getType()), cast<VectorType>(tile), channel) < 4)
          return op->emitError("rows are too narrow, or not aligned, to be copied asynchronously");
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

namespace {
class PlanChecker {
public:
  explicit PlanChecker(ProgramOp program) : program(program) {}

  LogicalResult run() {
    auto bytes = program->getAttrOfType<IntegerAttr>(kSharedBytesAttr);
    if (!bytes)
      return program.emitError("has no plan of its shared memory; run --ejk-plan-memory first");
    sharedBytes = bytes.getInt();
    usesTma = usesTmaLoads(program);
    if (usesTma)
      for (StoreOp store : findTmaStores(program))
        canUseTma.insert(store);
    return checkBlock(program.getBlock());
  }

private:
  LogicalResult need(Operation *op, bool holds, StringRef what) {
    return holds ? success() : op->emitError() << "is not planned: " << what;
  }

  LogicalResult checkRange(Operation *op, int64_t place, unsigned bytes, unsigned alignment) {
    return need(op, place >= 0 && place % alignment == 0 && place + int64_t(bytes) <= sharedBytes,
                "a place is aligned and lies in the block's shared memory");
  }

  /// Checks the places of a tile that `op` stores to shared memory.
  LogicalResult checkPlace(Operation *op, Value tile) {
    LayoutAttr layout = layoutOf(tile);
    unsigned bytes = sharedBytesOf(tile), alignment = sharedAlignment(layout);
    if (failed(checkRange(op, layout.getPlace(), bytes, alignment)))
      return failure();
    if (!layout.isDoubleBuffered())
      return success();
    auto loop = isa<scf::ForOp>(op) ? cast<scf::ForOp>(op) : op->getParentOfType<scf::ForOp>();
    bool alternates = loop && llvm::any_of(loop.getResults(), [](Value result) {
                        LayoutAttr own = isa<VectorType>(result.getType()) ? layoutOf(result)
                                                                           : LayoutAttr();
                        return own && own.isDoubleBuffered();
                      });
    if (failed(need(op, alternates, "a loop that carries a tile has the double buffers")))
      return failure();
    return checkRange(op, layout.getOddPlace(), bytes, alignment);
  }
  static unsigned sharedBytesOf(Value tile) {
    return ejk::sharedBytes(tile.getType(), layoutOf(tile));
  }

  LogicalResult checkBlock(Block &block) {
    SmallVector<std::pair<Value, unsigned>> outer;
    std::swap(outer, outstanding);
    for (Operation &op : block)
      if (failed(checkOutstanding(&op)) || failed(checkOp(&op)))
        return failure();
    if (!outstanding.empty())
      return outstanding.front().first.getDefiningOp()->emitError(
          "is not planned: a matmul is waited for in its own block");
    std::swap(outer, outstanding);
    return success();
  }

  /// Checks that `op` uses no matmul that is outstanding but to add to it.
  LogicalResult checkOutstanding(Operation *op) {
    auto find = [&](Value value) {
      return llvm::find_if(outstanding, [&](auto &matmul) { return matmul.first == value; });
    };
    Value acc = accumulatorsOf(op);
    for (Value operand : op->getOperands()) {
      auto it = find(operand);
      if (it == outstanding.end())
        continue;
      if (operand != acc || !acc.hasOneUse())
        return op->emitError("is not planned: uses a matmul that is not waited for");
      outstanding.erase(it);
    }
    if (op->getNumRegions() && !outstanding.empty())
      return op->emitError("is not planned: matmuls are outstanding where it begins");
    if (auto wait = dyn_cast<WaitMatmulsOp>(op))
      llvm::erase_if(outstanding,
                     [&](auto &matmul) { return matmul.second + wait.getPending() <= groups; });
    if (unsigned issued = groupsOf(op)) {
      groups += issued;
      outstanding.push_back({op->getResult(0), groups});
    }
    return success();
  }
  /// What asynchronous matmul `op` adds to; null for other ops.
  static Value accumulatorsOf(Operation *op) {
    if (auto sums = dyn_cast<AddCumsumOp>(op))
      return sums.getTriangle() ? sums.getAcc() : Value();
    auto dot = dyn_cast<DotOp>(op);
    return dot && isByWarpgroups(dot) ? dot.getAcc() : Value();
  }
  LogicalResult checkOp(Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (failed(checkBlock(block)))
          return failure();
    if (auto ring = dyn_cast<MakeRingOp>(op))
      return checkRing(ring);
    if (auto store = dyn_cast<StoreOp>(op))
      return failed(need(op, !store.getBulk() || canUseTma.contains(store),
                         "TMA cannot store this tile"))
                 ? failure()
                 : need(op, !isSummed(store) || (!store.getBulk() && awaitsTurn(store)),
                        "a head awaits its turn before it adds to a sum");
    if (isa<PassTurnOp>(op))
      return need(op, isa_and_nonnull<BarrierOp>(op->getPrevNode()),
                  "a turn is passed on behind a barrier");
    if (auto sum = dyn_cast<tile::SumOp>(op))
      return need(op, isRows(layoutOf(sum)), "a sum over several warps has parts");
    if (auto sums = dyn_cast<CumsumOp>(op)) {
      LayoutAttr layout = layoutOf(sums);
      return need(op, layout.getKind() == LayoutKind::lanes ||
                          (isTransposed(layout) && sums.getTriangle()),
                  "tensor cores sum 16-bit terms, or multiply by a triangle");
    }
    if (auto extract = dyn_cast<vector::ExtractOp>(op))
      if (!isa<VectorType>(extract.getResult().getType()))
        return need(op, !isFragments(layoutOf(extract.getSource())),
                    "a number of a matrix is loaded from shared memory");
    auto convert = dyn_cast<ConvertOp>(op);
    if (convert && !isInShared(convert.getLayout()) && !isInShared(layoutOf(convert.getTile()))) {
      LayoutAttr from = layoutOf(convert.getTile()), to = convert.getLayout();
      bool isUniform = from.getKind() == LayoutKind::uniform;
      return need(op, isUniform || (!isFragments(to) && !isRows(from) && !isRows(to)),
                  "a conversion between threads goes through shared memory");
    }
    if (isa<TakeOp, vector::InsertOp>(op) || Branch::is(op))
      return success(); // where the ring, the matrix or the loop has its place
    for (Value result : op->getResults())
      if (isa<VectorType>(result.getType()) && isInShared(layoutOf(result)) &&
          failed(checkPlace(op, result)))
        return failure();
    return success();
  }

  /// Whether `store` comes after a wait for its turn, and before the turn is passed on.
  bool awaitsTurn(StoreOp store) {
    for (Operation *op = store; op != program; op = op->getParentOp())
      for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode())
        if (isa<AwaitTurnOp, PassTurnOp>(before))
          return isa<AwaitTurnOp>(before);
    return false;
  }

  LogicalResult checkRing(MakeRingOp ring) {
    RingLayout layout = RingLayout::of(ring);
    bool isTma = usesTma && !isOfComputedTiles(ring);
    if (failed(need(ring, ring.getPlace().has_value() && ring.getTma() == isTma &&
                              ring.getMbarriers().has_value() == (isTma || hasPartitions(program)),
                    "a ring has its place, and mbarriers with TMA or partitions")) ||
        failed(checkRange(ring, *ring.getPlace(), layout.bytes, layout.alignment)))
      return failure();
    return ring.getMbarriers() ? checkRange(ring, *ring.getMbarriers(), layout.mbarrierBytes(),
                                            RingLayout::kMbarrierBytes)
                               : success();
  }

  ProgramOp program;
  int64_t sharedBytes = 0;
  bool usesTma = false;
  llvm::DenseSet<Operation *> canUseTma;
  /// Outstanding matmuls, and the number of the last group of each.
  SmallVector<std::pair<Value, unsigned>> outstanding;
  unsigned groups = 0;
};
} // namespace

LogicalResult ejk::checkPlanned(ProgramOp program) { return PlanChecker(program).run(); }
