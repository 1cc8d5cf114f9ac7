//===- Cluster.cpp - the blocks that run together -------------------------===//
#include "Cluster.h"

using namespace emulator;

Cluster::Cluster(const LaunchContext &context, unsigned seed)
    : launch(context.launch), random(seed) {
  for (unsigned rank = 0; rank < launch.kernel->clusterBlocks; ++rank)
    blocks.push_back(std::make_unique<Block>(*this, rank, context, seed + rank));
}

void Cluster::begin(unsigned number) {
  clocks.reset(size(), launch.threads, number * size());
  for (unsigned rank = 0; rank < size(); ++rank)
    blocks[rank]->begin(number * size() + rank);
  vainTurns = 0;
  left = size() * launch.threads;
  arrived = passed = 0;
  brought = Knowledge();
}

bool Cluster::goOn() {
  unsigned first = random() % size();
  Block::Turn turn = Block::Turn::none;
  for (unsigned i = 0; i < size() && turn == Block::Turn::none; ++i)
    turn = blocks[(first + i) % size()]->goOn();
  switch (turn) {
  case Block::Turn::none:
    if (left)
      failStuck();
    for (const auto &block : blocks)
      block->checkEnd();
    return false;
  case Block::Turn::polled:
    // Where all turns end that way for so long, nobody else does anything.
    if (++vainTurns == 10000 * size())
      failStuck();
    return true;
  case Block::Turn::much:
    vainTurns = 0;
    return true;
  case Block::Turn::little:
    return true;
  }
  return true;
}

void Cluster::failStuck() const {
  std::string waiting, partial;
  for (const auto &block : blocks)
    waiting += block->describeWaiting();
  for (const auto &block : blocks)
    if (partial.empty())
      partial = block->describePartialBarrier();
  throw Fault(partial + "deadlock" + waiting);
}

//===----------------------------------------------------------------------===//
// The barrier
//===----------------------------------------------------------------------===//

void Cluster::arrive(unsigned thread) {
  clocks.publish(thread, 1, brought);
  ++arrived;
  endPhase();
}

void Cluster::leave(bool hasArrived) {
  --left;
  arrived -= hasArrived;
  endPhase();
}

void Cluster::endPhase() {
  if (!arrived || arrived < left)
    return;
  completed = std::make_shared<Knowledge>(std::move(brought));
  brought = Knowledge();
  arrived = 0;
  ++passed;
  for (const auto &block : blocks)
    block->passClusterBarrier();
}

std::string Cluster::describeBarrier() const {
  return "the cluster's barrier, to which " + std::to_string(arrived) + " of " +
         std::to_string(left) + " threads have come";
}
