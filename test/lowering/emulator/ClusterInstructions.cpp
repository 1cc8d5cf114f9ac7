//===- ClusterInstructions.cpp - what blocks of a cluster do together -----===//
#include "Cluster.h"
#include "ForEachLane.h"

using namespace emulator;

//===----------------------------------------------------------------------===//
// Memory of other blocks
//===----------------------------------------------------------------------===//

/// `mapa d, a, rank`: where block `rank` has what this block, or another one, has at `a`.
void Block::mapAddress(Warp &warp, const Instruction &instruction, unsigned lane) {
  const auto &operands = instruction.operands;
  uint64_t address = get(warp, operands[1][0], lane);
  auto to = uint32_t(get(warp, operands[2][0], lane));
  if (to >= cluster.size())
    throw Fault("an address in block " + std::to_string(to) + " of a cluster of " +
                std::to_string(cluster.size()));
  set(warp, operands[0][0], lane, (to + 1) * kClusterStride + address % kClusterStride);
}

Block &Block::blockAt(const Instruction &instruction, uint64_t &address) {
  uint64_t window = address / kClusterStride;
  if (!window || !instruction.says("shared::cluster"))
    return *this;
  if (window > cluster.size())
    throw Fault("an address outside the cluster's window of shared memory");
  address %= kClusterStride;
  return cluster.at(unsigned(window - 1));
}

void Block::noteVisit(unsigned thread, unsigned actor, unsigned time) {
  if (thread - firstThread < launch.threads)
    return;
  std::string name = "block " + std::to_string(block);
  if (hasEnded())
    throw Fault("reaches shared memory of " + name + ", which has ended");
  const std::vector<unsigned> &seen = clocks.knownTo(thread).seen;
  auto first = seen.begin() + firstThread;
  if (std::all_of(first, first + launch.threads, [](unsigned time) { return time == 0; }))
    throw Fault("reaches shared memory of " + name + ", with no barrier since that block began");
  visits[actor] = {time, cluster.line};
}

/// Of a thread that ends, and with the last one the block.
void Block::leave(Warp &warp, unsigned lane) {
  Lane &self = warp.lane[lane];
  self.state = Lane::gone;
  if (!--left)
    checkVisits();
  cluster.leave(!cluster.hasPassed(self.clusterArrivals));
}

void Block::checkVisits() {
  if (visits.empty())
    return;
  Knowledge known;
  clocks.publish(firstThread, launch.threads, known);
  for (auto &[actor, visit] : visits)
    if (!known.has(actor, visit.time))
      throw Fault("block " + std::to_string(block) + " ends, with no barrier since " +
                  clocks.nameOf(actor) + " reached its shared memory, on line " +
                  std::to_string(visit.line));
}

//===----------------------------------------------------------------------===//
// The cluster's barrier
//===----------------------------------------------------------------------===//

/// `barrier.cluster.arrive` and `barrier.cluster.wait`, with `.aligned` of whole warps. Each wait
/// is for the arrival before it.
void Block::comeToClusterBarrier(Warp &warp, const Instruction &instruction, Mask active) {
  if (active && instruction.says("aligned")) {
    bool isWhole = isTogether(warp, active);
    forEachLane(active,
                [&](unsigned l) { warp.lane[l].state = isWhole ? Lane::running : Lane::atWarp; });
    if (!isWhole)
      return;
    active = ~Mask(0);
    for (Lane &lane : warp.lane)
      lane.state = Lane::running;
  }
  bool waits = instruction.action == Action::waitAtClusterBarrier;
  forEachLane(active, [&](unsigned l) {
    Lane &lane = warp.lane[l];
    unsigned thread = threadOf(warp, l);
    bool hasArrived = lane.clusterArrivals != lane.clusterWaits;
    if (waits != hasArrived)
      throw Fault(clocks.nameOf(thread) + (waits ? " waits at the cluster's barrier and did not "
                                                   "arrive there before"
                                                 : " arrives at the cluster's barrier twice "
                                                   "without a wait between"));
    if (!waits) {
      ++lane.clusterArrivals;
      cluster.arrive(thread);
    } else if (cluster.hasPassed(lane.clusterArrivals)) {
      ++lane.clusterWaits;
      clocks.learn(thread, 1, cluster.knownAtBarrier());
    } else {
      lane.state = Lane::atClusterBarrier;
      return;
    }
    ++lane.place;
  });
}

void Block::passClusterBarrier() {
  for (Warp &warp : warps)
    for (Lane &lane : warp.lane)
      if (lane.state == Lane::atClusterBarrier)
        lane.state = Lane::running;
}
