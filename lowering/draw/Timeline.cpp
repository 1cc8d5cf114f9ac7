//===- Timeline.cpp - when the units of a multiprocessor work ---------------===//
#include "lowering/draw/Timeline.h"
#include "lowering/draw/TraceProgram.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/memory/Accesses.h"
#include "lowering/memory/RingLayout.h"
#include "lowering/pipeline/Estimates.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// Chunks that are simulated, the first one that is drawn, and how many are.
constexpr int64_t kChunks = 8, kFirstDrawn = 4, kDrawn = 2;

enum Unit { tensorCores, specialFunctions, arithmeticUnits, sharedMemory, copyEngine, storeEngine };
constexpr llvm::StringLiteral kUnitNames[] = {
    "tensor cores", "special functions", "arithmetic", "shared memory", "copies", "stores"};

int64_t bytesOf(Type type) {
  auto tile = dyn_cast<VectorType>(type);
  return tile ? tile.getNumElements() * tile.getElementTypeBitWidth() / 8 : 0;
}

class Simulation {
public:
  explicit Simulation(ProgramOp program) : traces(traceProgram(program, kChunks)) {
    for (const Trace &trace : traces)
      groups.push_back({&trace, {trace.name, {}}});
    for (llvm::StringLiteral name : kUnitNames)
      units.push_back({name.str(), {}});
    timeline.sharedBytes = program->getAttrOfType<IntegerAttr>(kSharedBytesAttr).getInt();
  }

  Timeline run() {
    while (Group *next = choose())
      if (!issue(*next, next->trace->steps[next->next]))
        next->isBlocked = true;
      else {
        ++next->next;
        for (Group &group : groups)
          group.isBlocked = false;
      }
    finish();
    return std::move(timeline);
  }

private:
  struct Group {
    const Trace *trace;
    Lane lane;
    size_t next = 0;
    int64_t now = 0;
    bool isBlocked = false;
    SmallVector<int64_t> chunks; // when each began
    /// When the groups of each kind that were issued are over.
    SmallVector<int64_t> matmuls, copies, stores;
  };
  using Item = std::pair<size_t, int64_t>; // of a ring, by its number
  Item itemOf(Value ring, int64_t item) {
    return {rings.try_emplace(ring, rings.size()).first->second, item};
  }

  /// The group that is first in time, of those that need not wait for another's op. Where all do,
  /// the first one goes on without.
  Group *choose() {
    Group *best = nullptr;
    for (Group &group : groups)
      if (group.next < group.trace->steps.size() &&
          (!best || std::pair(group.isBlocked, group.now) < std::pair(best->isBlocked, best->now)))
        best = &group;
    areStuck = best && best->isBlocked;
    return best;
  }

  /// Has `unit` work for `group`, which issues `op`, and returns when it ends.
  int64_t work(Unit unit, int64_t from, int64_t cycles, Activity activity, Operation *op) {
    int64_t begin = std::max(from, freeAt[unit]);
    freeAt[unit] = begin + cycles;
    units[unit].spans.push_back({begin, begin + cycles, activity, op});
    return begin + cycles;
  }
  /// The warps of `group` do nothing else until `end`.
  void spend(Group &group, int64_t end, Activity activity, Operation *op) {
    if (end <= group.now)
      return;
    group.lane.spans.push_back({group.now, end, activity, op});
    group.now = end;
  }
  void spendOn(Group &group, Unit unit, int64_t cycles, Activity activity, Operation *op) {
    spend(group, work(unit, group.now, cycles, activity, op), activity, op);
  }
  /// Waits until all but the last `pending` are over.
  void waitFor(Group &group, ArrayRef<int64_t> ends, uint64_t pending, Operation *op) {
    if (ends.size() > pending)
      spend(group, ends[ends.size() - 1 - pending], Activity::wait, op);
  }

  /// Issues one op; false where it has to wait for what another group did not issue yet.
  bool issue(Group &group, const Step &step) {
    if (!step.op)
      return group.chunks.push_back(group.now), true;
    int64_t before = group.now;
    bool done = llvm::TypeSwitch<Operation *, bool>(step.op)
                    .Case([&](AcquireOp o) { return acquire(group, o, step.item); })
                    .Case([&](TakeOp o) { return take(group, o, step.item); })
                    .Default([&](Operation *o) { return start(group, o, step.item), true; });
    if (done)
      noteAccesses(group, step, before);
    return done;
  }

  bool acquire(Group &group, AcquireOp op, int64_t item) {
    int64_t earlier = item - int64_t(cast<RingType>(op.getRing().getType()).getStages());
    auto released = releases.find(itemOf(op.getRing(), earlier));
    if (earlier >= 0 && released == releases.end())
      return areStuck;
    if (earlier >= 0)
      spend(group, released->second, Activity::wait, op);
    return true;
  }
  bool take(Group &group, TakeOp op, int64_t item) {
    if (!op.getRing().getDefiningOp<MakeRingOp>().getMbarriers())
      return true;
    auto arrived = arrivals.find(itemOf(op.getRing(), item));
    if (arrived == arrivals.end())
      return areStuck;
    spend(group, arrived->second, Activity::wait, op);
    return true;
  }

  void start(Group &group, Operation *op, int64_t item) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](FillOp o) { fill(group, o, item); })
        .Case([&](PutOp o) { put(group, o, item); })
        .Case([&](ReleaseOp o) {
          int64_t &released = releases[itemOf(o.getRing(), item)];
          released = std::max(released, group.now);
        })
        .Case([&](WaitMatmulsOp o) { waitFor(group, group.matmuls, o.getPending(), o); })
        .Case([&](WaitCopiesOp o) { waitFor(group, group.copies, o.getPending(), o); })
        .Case([&](WaitStoresOp o) { waitFor(group, group.stores, o.getPending(), o); })
        .Case<BarrierOp, RangeGuardOp>([&](Operation *o) {
          spend(group, group.now + cost::kBarrierLatency, Activity::barrier, o);
        })
        .Case([&](DotOp o) { multiply(group, o, matmulCycles(o)); })
        .Case<CumsumOp, AddCumsumOp>([&](Operation *o) { sumRows(group, o); })
        .Case<LoadOp, LoadSlotOp>([&](Operation *o) { load(group, o); })
        .Case<StoreOp, StoreSlotOp>([&](Operation *o) { store(group, o); })
        .Case([&](InvertDiagonalOp o) {
          // A row waits for those before it.
          spendOn(group, sharedMemory, o.getBlock() * cost::kSharedLatency, Activity::shared, o);
        })
        .Default([&](Operation *o) { compute(group, o); });
  }

  void fill(Group &group, FillOp op, int64_t item) {
    int64_t bytes = 0;
    for (Type type : cast<RingType>(op.getRing().getType()).getTiles())
      bytes += bytesOf(type);
    int64_t end =
        work(copyEngine, group.now, bytes / cost::kGlobalBytesPerCycle, Activity::copy, op) +
        cost::kGlobalLatency;
    if (!op.getRing().getDefiningOp<MakeRingOp>().getMbarriers())
      group.copies.push_back(end);
    arrivals[itemOf(op.getRing(), item)] = end;
    fills[itemOf(op.getRing(), item)] = {group.now, end, Activity::copy, op};
    spend(group, group.now + cost::kIssue, Activity::copy, op);
  }
  void put(Group &group, PutOp op, int64_t item) {
    int64_t bytes = 0;
    for (Value tile : op.getTiles())
      bytes += isInShared(layoutOf(tile)) ? 0 : bytesOf(tile.getType());
    int64_t begin = group.now;
    spendOn(group, sharedMemory, bytes / cost::kBytesPerCycle + cost::kIssue, Activity::shared, op);
    arrivals[itemOf(op.getRing(), item)] = group.now + cost::kSharedLatency;
    fills[itemOf(op.getRing(), item)] = {begin, group.now, Activity::shared, op};
  }

  void multiply(Group &group, Operation *op, int64_t cycles) {
    int64_t end = work(tensorCores, group.now, cycles, Activity::matmul, op);
    if (unsigned count = groupsOf(op)) {
      group.matmuls.append(count, end + cost::kMatmulLatency);
      spend(group, group.now + cost::kIssue, Activity::matmul, op);
    } else {
      spend(group, end, Activity::matmul, op);
    }
  }
  void sumRows(Group &group, Operation *op) {
    auto type = dyn_cast<VectorType>(op->getResult(0).getType());
    if (unsigned count = groupsOf(op))
      return multiply(group, op,
                      count * type.getNumElements() * type.getDimSize(0) /
                          cost::kMultipliesPerCycle);
    compute(group, op);
  }

  void load(Group &group, Operation *op) {
    int64_t end =
        work(copyEngine, group.now,
             bytesOf(op->getResult(0).getType()) / cost::kGlobalBytesPerCycle, Activity::copy, op) +
        cost::kGlobalLatency;
    bool isCopied = llvm::any_of(
        accessesOf(op), [](const Access &access) { return access.agent == Agent::copies; });
    if (isCopied)
      group.copies.push_back(end);
    spend(group, isCopied ? group.now + cost::kIssue : end, Activity::copy, op);
  }
  void store(Group &group, Operation *op) {
    int64_t cycles = bytesOf(op->getOperand(0).getType()) / cost::kGlobalBytesPerCycle;
    int64_t end = work(storeEngine, group.now, cycles, Activity::store, op);
    if (auto rows = dyn_cast<StoreOp>(op); rows && rows.getBulk())
      group.stores.push_back(end);
    spend(group, group.now + cost::kIssue, Activity::store, op);
  }

  /// What warps compute themselves, in registers or through shared memory.
  void compute(Group &group, Operation *op) {
    int64_t cycles = issueCycles(op);
    if (!accessesOf(op).empty())
      return spendOn(group, sharedMemory, cycles, Activity::shared, op);
    if (isa<math::ExpOp, math::Exp2Op>(op)) {
      // Of every n-th element FMAs compute a polynomial instead.
      if (auto every = op->getAttrOfType<IntegerAttr>(kPolynomialAttr))
        cycles -= cycles / every.getInt();
      return spendOn(group, specialFunctions, cycles, Activity::exponential, op);
    }
    if (op->getNumResults() && isa<VectorType>(op->getResult(0).getType()) &&
        !op->hasTrait<OpTrait::ConstantLike>())
      spendOn(group, arithmeticUnits, cycles, Activity::arithmetic, op);
  }

  //===--------------------------------------------------------------------===//
  // Shared memory
  //===--------------------------------------------------------------------===//

  void noteAccesses(const Group &group, const Step &step, int64_t before) {
    for (const Access &access : accessesOf(step.op)) {
      LayoutAttr layout = layoutOf(access.tile);
      if (access.tile.getDefiningOp<TakeOp>() || !layout || layout.getPlace() < 0)
        continue;
      int64_t first =
          step.isOdd && layout.isDoubleBuffered() ? layout.getOddPlace() : layout.getPlace();
      int64_t last = first + sharedBytes(access.tile.getType(), layout);
      int64_t end = std::max(group.now, before + 1);
      if (access.agent == Agent::matmuls && !group.matmuls.empty())
        end = group.matmuls.back();
      if (access.agent == Agent::bulkStores && !group.stores.empty())
        end = group.stores.back();
      auto [it, isNew] = current.try_emplace({first, last}, timeline.residences.size());
      if (isNew || access.writes) {
        it->second = timeline.residences.size();
        timeline.residences.push_back({{before, end, Activity::held, step.op}, first, last});
      } else {
        Span &span = timeline.residences[it->second].span;
        span.end = std::max(span.end, end);
      }
    }
  }

  /// The stages of each ring: copies on their way, then rows until their release.
  void finishRings() {
    for (auto [ring, number] : rings) {
      auto maker = ring.getDefiningOp<MakeRingOp>();
      RingLayout layout = RingLayout::of(maker);
      size_t begin = timeline.rings.size();
      for (unsigned i = 0; i < layout.stages; ++i)
        timeline.rings.push_back(
            {"ring " + std::to_string(number) + ", stage " + std::to_string(i), {}});
      finishRing(maker, layout, number, MutableArrayRef(timeline.rings).drop_front(begin));
    }
  }
  void finishRing(MakeRingOp maker, const RingLayout &layout, size_t number,
                  MutableArrayRef<Lane> stages) {
    for (auto &[item, span] : fills) {
      if (item.first != number)
        continue;
      unsigned stage = item.second % layout.stages;
      auto released = releases.find(item);
      Span held{span.end, released == releases.end() ? span.end : released->second, Activity::held,
                span.op};
      stages[stage].spans.append({span, held});
      if (!maker.getPlace())
        continue;
      for (const RingLayout::Tile &tile : layout.tiles) {
        int64_t first = *maker.getPlace() + tile.offset + stage * tile.stageBytes;
        timeline.residences.push_back(
            {{span.begin, std::max(held.end, span.end), Activity::copy, span.op},
             first,
             first + int64_t(tile.stageBytes)});
      }
    }
  }

  void finish() {
    timeline.begin = timeline.cyclesPerChunk = 0;
    timeline.end = 1;
    for (Group &group : groups) {
      timeline.groups.push_back(std::move(group.lane));
      if (group.chunks.size() <= kFirstDrawn + kDrawn) {
        timeline.end = std::max(timeline.end, group.now);
        continue;
      }
      // The group that comes last shows how fast all are.
      int64_t begin = group.chunks[kFirstDrawn], end = group.chunks[kFirstDrawn + kDrawn];
      if (begin >= timeline.begin) {
        timeline.begin = begin;
        timeline.end = end;
        timeline.cyclesPerChunk = (end - begin) / kDrawn;
      }
    }
    timeline.units = std::move(units);
    finishRings();
  }

  SmallVector<Trace> traces;
  SmallVector<Group, 2> groups;
  SmallVector<Lane> units;
  int64_t freeAt[std::size(kUnitNames)] = {};
  bool areStuck = false;
  llvm::MapVector<Value, size_t> rings; // their numbers
  std::map<Item, int64_t> arrivals, releases;
  std::map<Item, Span> fills;
  std::map<std::pair<int64_t, int64_t>, size_t> current; // the last tile of a place
  Timeline timeline;
};
} // namespace

Timeline ejk::simulate(ProgramOp program) { return Simulation(program).run(); }
