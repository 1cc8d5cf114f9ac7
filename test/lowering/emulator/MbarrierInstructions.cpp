//===- MbarrierInstructions.cpp - what threads do with mbarriers ----------===//
#include "Block.h"
#include "ForEachLane.h"

using namespace emulator;

/// `mbarrier.arrive state, [address], count` and `mbarrier.arrive.expect_tx state,
/// [address], bytes`; a state is the number of the phase. The mbarrier may be another block's.
void Block::arriveAtMbarrier(Warp &warp, const Instruction &instruction, unsigned lane) {
  const auto &operands = instruction.operands;
  uint64_t address = get(warp, operands[1][0], lane);
  uint64_t number = operands.size() > 2 ? uint32_t(get(warp, operands[2][0], lane)) : 1;
  unsigned thread = threadOf(warp, lane);
  bool expects = instruction.says("expect_tx");
  Block &target = blockAt(instruction, address);
  Mbarrier &mbarrier = target.mbarriers.find(address, thread);
  target.noteVisit(thread, thread, clocks.timeOf(thread));
  bool isRemote = &target != this;
  mbarrier.hasRemote |= isRemote;
  unsigned phase = mbarrier.phase;
  // Other blocks' threads are beyond the scope that an arrival has if it does not say one.
  if (!instruction.says("relaxed") && (!isRemote || instruction.says("cluster")))
    clocks.publish(thread, 1, mbarrier.brought);
  if (expects)
    target.mbarriers.expect(mbarrier, number);
  bool ends = target.mbarriers.arrive(mbarrier, expects ? 1 : number);
  if (ends && instruction.says("noComplete"))
    throw Fault("a phase ends by an arrival that says it does not");
  set(warp, operands[0][0], lane, phase);
  if (ends)
    target.wake(address);
}

/// Other instructions than arrivals and waits.
void Block::prepareMbarrier(Warp &warp, const Instruction &instruction, unsigned lane) {
  const auto &operands = instruction.operands;
  uint64_t address = get(warp, operands[0][0], lane);
  unsigned thread = threadOf(warp, lane);
  if (instruction.says("init"))
    return mbarriers.initialize(address, uint32_t(get(warp, operands[1][0], lane)), thread);
  if (instruction.says("inval"))
    return mbarriers.invalidate(address, thread);
  Block &target = blockAt(instruction, address);
  Mbarrier &mbarrier = target.mbarriers.find(address, thread);
  target.noteVisit(thread, thread, clocks.timeOf(thread));
  if (target.mbarriers.expect(mbarrier, get(warp, operands[1][0], lane)))
    target.wake(address);
}

/// `cp.async.mbarrier.arrive [address]`: an arrival when all copies are there that the
/// thread has issued; one more than the phase lacks, but with `.noinc`.
void Block::arriveAfterCopies(Warp &warp, const Instruction &instruction, unsigned lane) {
  uint64_t address = get(warp, instruction.operands[0][0], lane);
  unsigned thread = threadOf(warp, lane), number = warp.number;
  Lane &self = warp.lane[lane];
  Mbarrier &mbarrier = mbarriers.find(address, thread);
  if (!instruction.says("noinc"))
    ++mbarrier.pending;
  if (!self.copyActor)
    self.copyActor = clocks.addActors("a copy of " + clocks.nameOf(thread), 1);
  unsigned time = ++self.arrivals;
  for (Copy &copy : self.copies)
    if (!copy.arrival)
      copy.arrival = time;
  underWay.push_back({&instruction, number, [this, number, lane, address, time] {
                        Lane &self = warps[number].lane[lane];
                        Knowledge none;
                        for (Copy &copy : self.copies)
                          if (copy.arrival && copy.arrival <= time && !copy.hasLanded)
                            land(copy, {self.copyActor, copy.arrival, &none});
                        Mbarrier &mbarrier = mbarriers.find(address);
                        mbarrier.brought.add(self.copyActor, time);
                        if (mbarriers.arrive(mbarrier, 1))
                          wake(address);
                      }});
}

/// `mbarrier.try_wait` and `test_wait p, [address], state`, or `.parity p, [address],
/// parity`. A try waits in place, or gives up at times, as it may.
void Block::waitAtMbarrier(Warp &warp, const Instruction &instruction, Mask active) {
  const auto &operands = instruction.operands;
  forEachLane(active, [&](unsigned l) {
    uint64_t address = get(warp, operands[1][0], l), phase = get(warp, operands[2][0], l);
    Lane &lane = warp.lane[l];
    const Mbarrier &mbarrier = mbarriers.find(address, threadOf(warp, l));
    if (mbarrier.hasRemote && !instruction.says("cluster") && !instruction.says("relaxed"))
      throw Fault("waits without .acquire.cluster for " + mbarriers.nameOf(address) +
                  ", at which threads of other blocks arrive");
    bool isOver = instruction.says("parity") ? (mbarrier.phase & 1) != (phase & 1)
                                             : mbarrier.phase > uint32_t(phase);
    if (!isOver && instruction.says("try_wait") && random() % 8) {
      lane.state = Lane::atMbarrier;
      lane.mbarrier = address;
      return;
    }
    if (isOver && !instruction.says("relaxed"))
      clocks.learn(threadOf(warp, l), 1, mbarrier.completed);
    set(warp, operands[0][0], l, isOver);
    ++lane.place;
    warp.hasPolled |= !isOver;
    hasPolled |= !isOver;
  });
}

void Block::wake(uint64_t mbarrier) {
  for (Warp &warp : warps)
    for (Lane &lane : warp.lane)
      if (lane.state == Lane::atMbarrier && lane.mbarrier == mbarrier)
        lane.state = Lane::running;
}
