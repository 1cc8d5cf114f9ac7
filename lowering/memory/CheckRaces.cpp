//===- CheckRaces.cpp - proves that a plan has no race -----------------------===//
//
// Follows the accesses to shared memory through a plan, and fails where two of them conflict and
// nothing orders them. It knows nothing of how the plan was made, and shares with the planner only
// what an access is (Accesses.h).
//
// The state at a point of the program is a set of earlier accesses that are not ordered before all
// later ones yet:
//
//   an access     conflicts with those in the set that overlap it, if one of the two writes
//   wait_…        ends asynchronous accesses that are old enough, for their own thread
//   fence         makes what threads wrote and copied so far visible to wgmma and TMA
//   barrier       orders what has ended before all that follows; what was written without a fence
//                 stays, for wgmma and TMA
//   release       (mbarriers) the same for the accesses to one stage of a ring
//
// Branches join the sets of their sides. A loop repeats until its set no longer grows, with an even
// and an odd iteration in turn where it has double buffers.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Branch.h"
#include "lowering/Passes.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/memory/Accesses.h"
#include "lowering/memory/PlanMemory.h"
#include "lowering/memory/RaceState.h"
#include "lowering/memory/RingLayout.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace ejk {
#define GEN_PASS_DEF_CHECKRACES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
class RaceChecker {
public:
  explicit RaceChecker(ProgramOp program)
      : program(program), warpgroups(program->hasAttr(kWarpgroupsAttr)) {}

  LogicalResult run() {
    if (failed(visitBlock(program.getBlock())))
      return failure();
    return checkEnd(program.getBlock().getTerminator());
  }

private:
  //===--------------------------------------------------------------------===//
  // Where
  //===--------------------------------------------------------------------===//

  /// The stage of `item`, as a distance from a base.
  RaceRegion regionOf(MakeRingOp ring, Value item) {
    int64_t stages = ring.getRing().getType().getStages(), distance = 0;
    APInt number;
    Value base = item;
    if (matchPattern(item, m_ConstantInt(&number))) {
      base = {};
      distance = number.getSExtValue();
    } else if (auto sum = item.getDefiningOp<arith::AddIOp>();
               sum && matchPattern(sum.getRhs(), m_ConstantInt(&number))) {
      base = sum.getLhs();
      distance = number.getSExtValue();
    }
    int64_t begin = *ring.getPlace();
    return {begin, begin + RingLayout::of(ring).bytes, ring.getRing(), base,
            modulo(distance, stages)};
  }
  static int64_t modulo(int64_t number, int64_t stages) {
    return (number % stages + stages) % stages;
  }
  static MakeRingOp makerOf(Value ring) { return ring.getDefiningOp<MakeRingOp>(); }

  /// The regions where `tile` may lie.
  SmallVector<RaceRegion> regionsOf(Value tile) {
    if (auto take = tile.getDefiningOp<TakeOp>())
      return {regionOf(makerOf(take.getRing()), take.getItem())};
    LayoutAttr layout = layoutOf(tile);
    auto at = [&](int64_t place) {
      return RaceRegion{place, place + int64_t(sharedBytes(tile.getType(), layout))};
    };
    if (!layout.isDoubleBuffered())
      return {at(layout.getPlace())};
    Operation *loop = loopOf(tile);
    if (auto parity = isOdd.find(loop); parity != isOdd.end())
      return {at(parity->second ? layout.getOddPlace() : layout.getPlace())};
    return {at(layout.getPlace()), at(layout.getOddPlace())};
  }
  /// The loop whose counter says in which of its two places `tile` lies; null for a loop's result.
  static Operation *loopOf(Value tile) {
    if (auto arg = dyn_cast<BlockArgument>(tile))
      return arg.getOwner()->getParentOp();
    Operation *op = tile.getDefiningOp();
    if (isa<scf::ForOp>(op))
      return nullptr;
    auto loop = op->getParentOfType<scf::ForOp>();
    while (loop && !alternates(loop))
      loop = loop->getParentOfType<scf::ForOp>();
    return loop;
  }
  static bool alternates(scf::ForOp loop) {
    return llvm::any_of(loop.getResults(), [](Value result) {
      return isa<VectorType>(result.getType()) && layoutOf(result) &&
             layoutOf(result).isDoubleBuffered();
    });
  }

  //===--------------------------------------------------------------------===//
  // Accesses and what orders them
  //===--------------------------------------------------------------------===//

  LogicalResult conflict(Operation *op, const EarlierAccess &other, StringRef missing) {
    InFlightDiagnostic error = op->emitError()
                               << "races in shared memory: " << missing
                               << " between '" << op->getName() << "' and an earlier access, at bytes "
                               << other.region.begin << " to " << other.region.end;
    error.attachNote(other.op->getLoc())
        << "'" << other.op->getName() << "' " << (other.writes ? "writes" : "reads") << " there";
    return error;
  }

  LogicalResult access(Operation *op, const RaceRegion &region, bool writes, Agent agent,
                       bool isAsyncProxy, bool isFenced = false) {
    for (const auto &[key, other] : state) {
      if (!other.region.overlaps(region) || !(writes || other.writes))
        continue;
      if (other.isOutstanding)
        return conflict(op, other, "a wait is missing");
      if (!other.isOrdered)
        return conflict(op, other, "a barrier is missing");
      if (isAsyncProxy)
        return conflict(op, other, "a fence before the barrier is missing");
    }
    EarlierAccess own{op, region, writes, agent};
    own.isOutstanding = agent != Agent::threads;
    own.isFenced = isFenced;
    state.add(own);
    return success();
  }

  /// `count` groups of `agent` are issued.
  void issue(Agent agent, unsigned count) {
    state.update([&](EarlierAccess access) {
      if (access.agent == agent && access.isOutstanding)
        access.later += count;
      return std::optional(access);
    });
  }
  void wait(Agent agent, uint64_t pending) {
    state.update([&](EarlierAccess access) {
      if (access.agent == agent && access.later >= pending)
        access.isOutstanding = false;
      return std::optional(access);
    });
    if (agent == Agent::matmuls)
      for (auto &[matmul, later] : outstanding)
        if (later >= pending)
          later = kEnded;
  }
  void fence() {
    state.update([&](EarlierAccess access) {
      access.isFenced |= !access.isOutstanding;
      return std::optional(access);
    });
  }
  void barrier() {
    state.update([&](EarlierAccess access) -> std::optional<EarlierAccess> {
      if (access.isOutstanding)
        return access;
      if (!warpgroups || !access.needsFence() || access.isFenced)
        return std::nullopt;
      access.isOrdered = true;
      return access;
    });
  }

  LogicalResult visit(Operation *op) {
    if (unsigned groups = groupsOf(op)) {
      issue(Agent::matmuls, groups);
      for (auto &[matmul, later] : outstanding)
        later += later != kEnded ? groups : 0;
      outstanding[op->getResult(0)] = 0;
    }
    for (const Access &each : accessesOf(op)) {
      if (each.agent == Agent::copies || each.agent == Agent::bulkStores)
        issue(each.agent, 1);
      for (const RaceRegion &region : regionsOf(each.tile))
        if (failed(access(op, region, each.writes, each.agent, each.isAsyncProxy(),
                          /*isFenced=*/!each.writes && isVectorTile(each.tile.getType()))))
          return failure();
    }
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<BarrierOp, RangeGuardOp>([&](auto) { return barrier(), success(); })
        .Case([&](FenceOp) { return fence(), success(); })
        .Case([&](WaitMatmulsOp o) { return wait(Agent::matmuls, o.getPending()), success(); })
        .Case([&](WaitCopiesOp o) { return wait(Agent::copies, o.getPending()), success(); })
        .Case([&](WaitStoresOp o) { return wait(Agent::bulkStores, o.getPending()), success(); })
        .Case([&](MakeRingOp o) { return visitMakeRing(o); })
        .Case<FillOp, PutOp>([&](Operation *o) { return visitFill(o); })
        .Case([&](ReleaseOp o) { return visitRelease(o); })
        .Case([&](WarpSpecializeOp o) { return visitPartitions(o); })
        .Case([&](scf::ForOp o) { return visitFor(o); })
        .Case<GuardedOp, scf::IfOp>([&](Operation *o) { return visitBranch(Branch::of(o)); })
        .Default([](Operation *) { return success(); });
  }

  LogicalResult visitBlock(Block &block) {
    for (Operation &op : block)
      if (!op.hasTrait<OpTrait::IsTerminator>() && failed(visit(&op)))
        return failure();
    return success();
  }

  /// A thread must not end with accesses outstanding.
  LogicalResult checkEnd(Operation *end) {
    for (const auto &[key, other] : state)
      if (other.isOutstanding)
        return conflict(end, other, "a wait is missing");
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Rings
  //===--------------------------------------------------------------------===//

  static RaceRegion mbarriersOf(MakeRingOp ring) {
    int64_t begin = *ring.getMbarriers();
    return {begin, begin + RingLayout::of(ring).mbarrierBytes()};
  }

  /// One thread initialises the mbarriers, here or where partitions begin.
  LogicalResult visitMakeRing(MakeRingOp ring) {
    if (!ring.getMbarriers())
      return success();
    return access(ring, mbarriersOf(ring), /*writes=*/true, Agent::threads, false);
  }

  /// `fill` is a tile.fill or a tile.put.
  LogicalResult visitFill(Operation *fill) {
    MakeRingOp ring = makerOf(fill->getOperand(0));
    RaceRegion region = regionOf(ring, fill->getOperand(1));
    if (!ring.getMbarriers()) {
      issue(Agent::copies, 1);
      return access(fill, region, /*writes=*/true, Agent::copies, false);
    }
    // tile.take waits for what is copied or put. So the op leaves no access behind.
    RaceState before = state;
    LogicalResult ordered = access(fill, region, /*writes=*/true, Agent::threads, ring.getTma());
    if (succeeded(ordered))
      ordered = access(fill, mbarriersOf(ring), /*writes=*/true, Agent::threads, ring.getTma());
    state = before;
    return ordered;
  }

  /// After each warp's arrival, the stage may be filled again: all reads of it must have ended. TMA
  /// could also overtake loads whose registers are not used yet, but those of vectors, which threads
  /// copy.
  LogicalResult visitRelease(ReleaseOp release) {
    MakeRingOp ring = makerOf(release.getRing());
    if (!ring.getMbarriers())
      return success();
    RaceRegion region = regionOf(ring, release.getItem());
    for (const auto &[key, other] : state) {
      if (other.region.ring != region.ring || !other.region.overlaps(region))
        continue;
      if (other.isOutstanding)
        return conflict(release, other, "a wait is missing");
      if (ring.getTma() && other.agent == Agent::threads && !other.isFenced &&
          !hasArrived(other.op, release))
        return conflict(release, other, "a fence is missing");
    }
    state.update([&](EarlierAccess access) {
      bool isReleased = access.region.ring == region.ring && access.region.overlaps(region);
      return isReleased ? std::nullopt : std::optional(access);
    });
    return success();
  }

  /// Whether what `op` loads has certainly arrived where `at` stands: it multiplies that itself, a
  /// matmul of it has been waited for, or sums of it have been stored.
  bool hasArrived(Operation *op, Operation *at) {
    return isa<DotOp, AddCumsumOp>(op) || llvm::any_of(op->getUsers(), [&](Operation *user) {
      if (OpTrait::hasElementwiseMappableTraits(user))
        return hasArrived(user, at);
      Operation *here = user->getBlock()->findAncestorOpInBlock(*at);
      if (!here || !user->isBeforeInBlock(here))
        return false;
      if (auto dot = dyn_cast<DotOp>(user)) {
        auto issued = outstanding.find(dot.getResult());
        return issued == outstanding.end() || issued->second == kEnded;
      }
      return isa<PartialSumOp>(user);
    });
  }

  /// Who fills a ring waits for the release of each partition that takes from it. A barrier of the
  /// partition's own threads, which forgets what they have read, does not stand for one.
  LogicalResult checkReleases(PartitionOp partition) {
    llvm::DenseSet<Value> released;
    partition.walk([&](ReleaseOp release) { released.insert(release.getRing()); });
    WalkResult walked = partition.walk([&](TakeOp take) {
      MakeRingOp ring = makerOf(take.getRing());
      if (!ring.getMbarriers() || released.contains(take.getRing()))
        return WalkResult::advance();
      EarlierAccess read{take, regionOf(ring, take.getItem()), /*writes=*/false, Agent::threads};
      return conflict(partition, read, "a release after it is missing").failed()
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  /// Each partition has threads and barriers of its own, so it may share only rings with others.
  LogicalResult visitPartitions(WarpSpecializeOp op) {
    fence();
    barrier();
    // Of tiles from before the partitions, all may read what none writes.
    struct OfPartition {
      Operation *op;
      RaceRegion region;
      bool writes;
    };
    SmallVector<OfPartition> others;
    for (auto partition : op.getBody().getOps<PartitionOp>()) {
      state = RaceState();
      if (failed(visitBlock(partition.getBody().front())) || failed(checkReleases(partition)))
        return failure();
      for (const auto &[key, other] : state) {
        if (other.isOutstanding)
          return conflict(partition, other, "a wait is missing");
        // Another partition may fill the stage.
        if (other.region.ring && makerOf(other.region.ring).getMbarriers())
          return conflict(partition, other, "a release after it is missing");
      }
      size_t before = others.size();
      WalkResult walked = partition.walk([&](Operation *inner) {
        for (const Access &each : accessesOf(inner))
          for (const RaceRegion &region : regionsOf(each.tile)) {
            if (region.ring)
              continue;
            for (const OfPartition &other : ArrayRef(others).take_front(before))
              if (other.region.overlaps(region) && (other.writes || each.writes))
                return conflict(inner, {other.op, other.region, other.writes, Agent::threads},
                                "two partitions share memory; an order")
                               .failed()
                           ? WalkResult::interrupt()
                           : WalkResult::advance();
            others.push_back({inner, region, each.writes});
          }
        return WalkResult::advance();
      });
      if (walked.wasInterrupted())
        return failure();
    }
    state = RaceState();
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Loops and branches
  //===--------------------------------------------------------------------===//

  /// Counts items of rings from `to` on instead of `from`, which is `distance` more.
  void rebase(Value from, Value to, int64_t distance) {
    state.update([&](EarlierAccess access) {
      if (access.region.ring && access.region.base == from) {
        access.region.base = to;
        access.region.item =
            modulo(access.region.item + distance,
                   cast<RingType>(access.region.ring.getType()).getStages());
      }
      return std::optional(access);
    });
  }

  LogicalResult visitFor(scf::ForOp loop) {
    Value counter = loop.getInductionVar();
    APInt lower, step;
    bool counts = matchPattern(loop.getLowerBound(), m_ConstantInt(&lower)) &&
                  matchPattern(loop.getStep(), m_ConstantInt(&step));
    // An unknown step gives items another, unknown base.
    auto nextIteration = [&] {
      rebase(counter, counts ? counter : loop.getStep(), counts ? -step.getSExtValue() : 0);
    };
    RaceState skipped = state;
    if (counts)
      rebase(Value(), counter, -lower.getSExtValue());
    RaceState entry = state, head = entry, after;
    bool alternating = alternates(loop);
    for (bool grew = true; grew;) {
      state = head;
      for (bool odd : {false, true}) {
        if (odd && !alternating)
          break;
        if (alternating)
          isOdd[loop] = odd;
        if (failed(visitBlock(*loop.getBody())))
          return failure();
        nextIteration();
        after.join(state);
      }
      RaceState next = head;
      next.join(state);
      grew = !(next == head);
      head = std::move(next);
    }
    isOdd.erase(loop);
    state = after;
    rebase(counter, loop.getUpperBound(), 0);
    state.join(skipped);
    return success();
  }

  LogicalResult visitBranch(Branch branch) {
    RaceState before = state, after;
    if (!branch.elseBlock())
      after = before;
    for (Block *side : {branch.thenBlock(), branch.elseBlock()}) {
      if (!side)
        continue;
      state = before;
      if (failed(visitBlock(*side)))
        return failure();
      after.join(state);
    }
    state = after;
    return success();
  }

  ProgramOp program;
  bool warpgroups;
  RaceState state;
  /// Matmuls in program order that may be outstanding: how many groups were issued since.
  static constexpr uint64_t kEnded = ~uint64_t(0);
  llvm::DenseMap<Value, uint64_t> outstanding;
  /// Whether the iteration at hand of a loop with double buffers is an odd one.
  llvm::DenseMap<Operation *, bool> isOdd;
};

struct CheckRacesPass : ejk::impl::CheckRacesBase<CheckRacesPass> {
  using CheckRacesBase::CheckRacesBase;

  void runOnOperation() override {
    WalkResult walked = getOperation()->walk([&](ProgramOp program) {
      if (!program->hasAttr(kSharedBytesAttr))
        return WalkResult::advance();
      if (failed(checkLaidOut(program)) || failed(checkPlanned(program)) ||
          failed(RaceChecker(program).run()))
        return WalkResult::interrupt();
      ++numProved;
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
