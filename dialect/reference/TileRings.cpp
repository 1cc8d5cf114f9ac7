//===- TileRings.cpp - rings and concurrent partitions --------------------------===//
#include "dialect/reference/TileRings.h"
#include "dialect/reference/TileProgram.h"
#include "dialect/reference/Threads.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

//===----------------------------------------------------------------------===//
// Scheduling
//===----------------------------------------------------------------------===//

PartitionScheduler::PartitionScheduler(std::vector<Partition> partitions,
                                       std::optional<uint64_t> seed)
    : partitions(std::move(partitions)) {
  if (seed)
    random.emplace(*seed);
}

void PartitionScheduler::passOn() {
  std::vector<size_t> able;
  for (size_t i = 0; i < partitions.size(); ++i) {
    // The next partition in order comes first.
    size_t number = (turn + i) % partitions.size();
    Partition &partition = partitions[number];
    if (!partition.ended && (!partition.ready || partition.ready()))
      able.push_back(number);
  }
  if (!able.empty()) {
    turn = able[random ? (*random)() % able.size() : 0];
  } else {
    stopped = true; // all have ended, or are in a deadlock
    for (const Partition &partition : partitions)
      if (!partition.ended)
        stuckPartitions.push_back(&partition);
  }
  changed.notify_all();
}

bool PartitionScheduler::wait(Operation *at, std::string what, std::function<bool()> ready) {
  std::unique_lock<std::mutex> lock(mutex);
  size_t self = turn;
  Partition &partition = partitions[self];
  partition.at = at;
  partition.what = std::move(what);
  partition.ready = std::move(ready);
  passOn();
  changed.wait(lock, [&] { return turn == self || stopped; });
  return !stopped;
}

bool PartitionScheduler::run() {
  bool failed = false;
  std::vector<std::thread> threads;
  for (size_t self = 0; self < partitions.size(); ++self) {
    std::optional<std::thread> thread = startThread([this, self, &failed] {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return turn == self || stopped; });
      if (stopped)
        return;
      lock.unlock();
      bool ended = partitions[self].body();
      lock.lock();
      if (stopped)
        return;
      partitions[self].ended = true;
      if (ended)
        return passOn();
      failed = stopped = true;
      changed.notify_all();
    });
    if (!thread) {
      std::lock_guard<std::mutex> lock(mutex);
      withoutThread = partitions.size() - self;
      stopped = true;
      changed.notify_all();
      break;
    }
    threads.push_back(std::move(*thread));
  }
  for (std::thread &thread : threads)
    thread.join();
  return !failed && withoutThread == 0 && stuckPartitions.empty();
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

static std::string itemText(int64_t item) { return "item " + std::to_string(item); }

/// Waits for `ready`. Outside of partitions nothing else can make it true, so the error is
/// `otherwise`.
static bool waitUntil(TileFrame &frame, Operation *op, std::string what, std::string otherwise,
                      std::function<bool()> ready) {
  if (!frame.partitions)
    return ready() || fail(frame, op, std::move(otherwise));
  if (!frame.partitionSeed && ready())
    return true;
  return frame.partitions->wait(op, std::move(what), std::move(ready));
}

/// The partitions that take items of `ring`; null for the program where it has none.
static SmallVector<Operation *> takersOf(Value ring) {
  llvm::SmallSetVector<Operation *, 2> takers;
  for (Operation *user : ring.getUsers())
    if (isa<tile::TakeOp>(user))
      takers.insert(user->getParentOfType<tile::PartitionOp>());
  return takers.takeVector();
}

/// The number of the taker that `op`, a take or a release, stands in.
static size_t takerOf(Operation *op) {
  SmallVector<Operation *> takers = takersOf(op->getOperand(0));
  return llvm::find(takers, op->getParentOfType<tile::PartitionOp>().getOperation()) - takers.begin();
}

LogicalResult TileCompiler::compileMakeRing(tile::MakeRingOp op) {
  unsigned number = rings[op.getRing()] = program.numRings++;
  size_t stages = op.getRing().getType().getStages(), takers = takersOf(op.getRing()).size();
  addSimple([=](TileFrame &frame) {
    frame.rings[number].stages.assign(stages, TileRing::Stage());
    frame.rings[number].numTakers = takers;
  });
  return success();
}

LogicalResult TileCompiler::compileAcquire(tile::AcquireOp op) {
  unsigned number = rings.lookup(op.getRing());
  int64_t stages = op.getRing().getType().getStages();
  Slot itemSlot = slotOf(op.getItem());
  Operation *acquire = op;
  add([=](TileFrame &frame) {
    int64_t item = *frame.row(itemSlot).ints, before = item - stages;
    if (item < 0)
      return fail(frame, acquire, itemText(item) + " is asked for; the first is item 0");
    TileRing &ring = frame.rings[number];
    if (ring.stageOf(item).item >= item)
      return fail(frame, acquire, itemText(item) + " was acquired before");
    std::string what = "for the release of " + itemText(before);
    auto ready = [&ring, before, item] {
      return before < 0 ? ring.stageOf(item).item < 0 : ring.has(before, TileRing::State::free);
    };
    if (!waitUntil(frame, acquire, what,
                   "would wait " + what + ", which comes later: its stage is in use", ready))
      return false;
    ring.stageOf(item) = {TileRing::State::acquired, item};
    ring.stageOf(item).uses.assign(ring.numTakers, TileRing::Use::none);
    return true;
  });
  return success();
}

/// Whether `item` has its stage, which `fill` may fill. An error if not.
static bool canFill(TileFrame &frame, Operation *fill, TileRing &ring, int64_t item) {
  if (item >= 0 && ring.has(item, TileRing::State::acquired))
    return true;
  std::string problem = "fills " + itemText(item) + ", which was not acquired";
  if (item >= 0)
    if (TileRing::Stage &stage = ring.stageOf(item); stage.state != TileRing::State::free)
      problem += "; its stage has " + itemText(stage.item) + ", which is in use";
  return fail(frame, fill, problem);
}

LogicalResult TileCompiler::compileFill(tile::FillOp op) {
  unsigned number = rings.lookup(op.getRing());
  Slot itemSlot = slotOf(op.getItem());
  struct Source {
    RowsFinder rows;
    Slot first, channel;
    int64_t channels;
  };
  std::vector<Source> sources;
  for (auto [rows, first, channel] : llvm::zip(op.getRows(), op.getFirst(), op.getChannels())) {
    FailureOr<RowsFinder> finder = rowsOf(op, rows, false);
    if (failed(finder))
      return failure();
    int64_t channels = tileShape(cast<tile::RowsType>(rows.getType()).getRow()).first;
    sources.push_back({*finder, slotOf(first), slotOf(channel), channels});
  }
  Operation *fill = op;
  add([=](TileFrame &frame) {
    int64_t item = *frame.row(itemSlot).ints;
    TileRing &ring = frame.rings[number];
    if (!canFill(frame, fill, ring, item))
      return false;
    TileRing::Stage &stage = ring.stageOf(item);
    for (const Source &source : sources) {
      int64_t channel = *frame.row(source.channel).ints;
      if (channel < 0)
        return fail(frame, fill,
                    "the first channel must not be negative, but is " + std::to_string(channel));
      stage.copies.push_back(
          {source.rows(frame), *frame.row(source.first).ints, channel, source.channels});
    }
    stage.state = TileRing::State::filled;
    return true;
  });
  return success();
}

LogicalResult TileCompiler::compilePut(tile::PutOp op) {
  unsigned number = rings.lookup(op.getRing());
  Slot itemSlot = slotOf(op.getItem());
  std::vector<std::pair<Slot, size_t>> sources;
  for (Value tile : op.getTiles())
    sources.emplace_back(slotOf(tile), cast<VectorType>(tile.getType()).getNumElements());
  Operation *put = op;
  add([=](TileFrame &frame) {
    int64_t item = *frame.row(itemSlot).ints;
    TileRing &ring = frame.rings[number];
    if (!canFill(frame, put, ring, item))
      return false;
    TileRing::Stage &stage = ring.stageOf(item);
    for (auto [slot, size] : sources)
      stage.tiles.emplace_back(frame.at(slot), frame.at(slot) + size);
    stage.state = TileRing::State::filled;
    return true;
  });
  return success();
}

LogicalResult TileCompiler::compileTake(tile::TakeOp op) {
  unsigned number = rings.lookup(op.getRing());
  size_t taker = takerOf(op);
  Slot itemSlot = slotOf(op.getItem());
  Slot taken = takenItems[op] = allocate(op.getItem().getType());
  struct Target {
    std::pair<size_t, size_t> shape;
    Slot slot;
  };
  std::vector<Target> targets;
  for (Value tile : op.getTiles())
    targets.push_back({tileShape(tile.getType()), slots[tile] = allocate(tile.getType())});
  Operation *take = op;
  bool held = op.getHeld();
  add([=](TileFrame &frame) {
    int64_t item = *frame.row(itemSlot).ints;
    if (item < 0)
      return fail(frame, take, itemText(item) + " is asked for; the first is item 0");
    TileRing &ring = frame.rings[number];
    // An item that was taken cannot be taken again, and a later item has overwritten it.
    auto isPast = [&ring, item, taker] {
      const TileRing::Stage &stage = ring.stageOf(item);
      bool wasTaken = stage.state == TileRing::State::free ||
                      (stage.state == TileRing::State::filled &&
                       stage.uses[taker] != TileRing::Use::none);
      return stage.item > item || (stage.item == item && wasTaken);
    };
    auto ready = [=, &ring] { return isPast() || ring.has(item, TileRing::State::filled); };
    if (held && !ring.isTaken(item, taker))
      return fail(frame, take, itemText(item) + " is not held: it is not taken, or released");
    std::string what = "for " + itemText(item) + " to be filled";
    if (!held &&
        !waitUntil(frame, take, what, "takes " + itemText(item) + " before it is filled", ready))
      return false;
    if (!held && isPast())
      return fail(frame, take, itemText(item) + " was taken before");
    TileRing::Stage &stage = ring.stageOf(item);
    for (auto [target, copy] : llvm::zip(targets, stage.copies))
      loadRows(copy.rows, copy.row, copy.channel, copy.channels, target.shape,
               frame.at(target.slot));
    for (auto [target, tile] : llvm::zip(targets, stage.tiles))
      llvm::copy(tile, frame.at(target.slot));
    stage.uses[taker] = TileRing::Use::taken;
    *frame.row(taken).ints = item;
    return true;
  });
  return success();
}

LogicalResult TileCompiler::compileRelease(tile::ReleaseOp op) {
  unsigned number = rings.lookup(op.getRing());
  size_t taker = takerOf(op);
  Slot itemSlot = slotOf(op.getItem());
  Operation *release = op;
  add([=](TileFrame &frame) {
    int64_t item = *frame.row(itemSlot).ints;
    TileRing &ring = frame.rings[number];
    if (item < 0 || taker == ring.numTakers || !ring.isTaken(item, taker))
      return fail(frame, release, "releases " + itemText(item) + ", which is not taken");
    ring.release(item, taker);
    return true;
  });
  return success();
}

void TileCompiler::checkTaken(Operation *op) {
  for (Value operand : op->getOperands()) {
    auto take = operand.getDefiningOp<tile::TakeOp>();
    if (!take)
      continue;
    unsigned number = rings.lookup(take.getRing());
    Slot taken = takenItems.lookup(take);
    size_t taker = takerOf(take);
    add([=](TileFrame &frame) {
      int64_t item = *frame.row(taken).ints;
      return frame.rings[number].isTaken(item, taker) ||
             fail(frame, op, "reads a tile of " + itemText(item) + ", which was released");
    });
  }
}

//===----------------------------------------------------------------------===//
// Partitions
//===----------------------------------------------------------------------===//

LogicalResult TileCompiler::compilePartitions(tile::WarpSpecializeOp op) {
  std::vector<std::pair<std::string, TileActions>> parts;
  for (auto partition : op.getBody().getOps<tile::PartitionOp>()) {
    parts.emplace_back(partition.getName().str(), TileActions());
    if (failed(compileBlock(partition.getBody().front(), parts.back().second)))
      return failure();
  }
  Operation *partitions = op;
  add([=, parts = std::move(parts)](TileFrame &frame) {
    std::vector<PartitionScheduler::Partition> running;
    for (const auto &part : parts)
      running.push_back({part.first, [&] { return runAll(part.second, frame); }});
    PartitionScheduler scheduler(std::move(running), frame.partitionSeed);
    frame.partitions = &scheduler;
    bool done = scheduler.run();
    frame.partitions = nullptr;
    if (size_t count = scheduler.notStarted())
      fail(frame, partitions,
           "the system starts no thread for " + std::to_string(count) + " of the partitions");
    if (!scheduler.stuck().empty()) {
      fail(frame, partitions, "deadlock: no partition can go on");
      for (const PartitionScheduler::Partition *partition : scheduler.stuck())
        frame.problem.notes.emplace_back(partition->at, "partition '" + partition->name +
                                                            "' waits here " + partition->what);
    }
    return done;
  });
  return success();
}
