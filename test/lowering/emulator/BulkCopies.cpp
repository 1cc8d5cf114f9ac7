//===- BulkCopies.cpp - copies of whole boxes, by one thread's order ------===//
//
// A load comes at any moment after its issue, and tells an mbarrier; a store reads
// shared memory till the wait for its group. Both see it through the asynchronous proxy.
// A multicast is one load for each block that it names, and each comes at a moment of its own.
//
//===----------------------------------------------------------------------===//
#include "Cluster.h"
#include "ForEachLane.h"
#include "MatrixDescriptor.h"
#include <algorithm>
#include <cstring>

using namespace emulator;

//===----------------------------------------------------------------------===//
// What is copied
//===----------------------------------------------------------------------===//

/// Visits a copy's pieces of 16 bytes: where each lies in shared memory, where in global
/// memory, and which bytes of it exist there, from one to before another.
template <typename Visit> static void forEachPiece(const BulkCopy &copy, Visit visit) {
  if (!copy.isTensor) {
    for (unsigned i = 0; i < copy.bytes; i += 16)
      visit(copy.inShared + i, copy.inGlobal + i, 0, 16);
    return;
  }
  const TensorMap &map = copy.map;
  for (unsigned row = 0; row < map.rows(); ++row) {
    uint64_t global = map.address;
    bool isInside = true;
    for (unsigned i = 1, rest = row; i < map.rank; rest /= map.box[i++]) {
      int64_t at = int64_t(copy.coordinates[i]) + rest % map.box[i];
      isInside &= at >= 0 && at <= int64_t(map.lasts[i]);
      global += uint64_t(at) * map.strides[i];
    }
    for (unsigned byte = 0; byte < map.rowBytes(); byte += 16) {
      int64_t first = int64_t(copy.coordinates[0]) * map.elementBytes + byte;
      int64_t end = (int64_t(map.lasts[0]) + 1) * map.elementBytes;
      int from = int(std::clamp<int64_t>(-first, 0, 16));
      int to = isInside ? int(std::clamp<int64_t>(end - first, 0, 16)) : 0;
      visit(swizzled(copy.inShared + row * map.pitch() + byte, map.width), global + uint64_t(first),
            from, std::max(from, to));
    }
  }
}

void Block::checkGlobal(uint64_t address, int from, int to) const {
  if (from >= to)
    return;
  global.check(address + uint64_t(from), 1);
  global.check(address + uint64_t(to) - 1, 1);
}

/// `[map, {coordinates}]` or `[address]` in global memory, and an address in shared memory.
BulkCopy Block::bulkCopy(Warp &warp, const Instruction &instruction, unsigned lane,
                         const std::vector<Operand> &inGlobal, uint64_t inShared) const {
  BulkCopy copy{};
  copy.isTensor = instruction.says("tensor");
  copy.inShared = inShared;
  copy.inGlobal = get(warp, inGlobal[0], lane);
  if (copy.inShared % (copy.isTensor ? 128 : 16))
    throw Fault("a bulk copy at " + shared.nameOf(copy.inShared) + ", which is misaligned");
  if (!copy.isTensor) {
    copy.bytes = unsigned(get(warp, instruction.operands[2][0], lane));
    if (copy.bytes % 16 || copy.inGlobal % 16)
      throw Fault("a bulk copy of bytes or from an address that are no multiple of 16");
    return copy;
  }
  auto *arguments = reinterpret_cast<const unsigned char *>(launch.arguments.data());
  auto *map = reinterpret_cast<const unsigned char *>(copy.inGlobal);
  if (map < arguments || map >= arguments + launch.arguments.size() * sizeof(Argument))
    throw Fault("a tensor map that is no parameter of the kernel");
  memcpy(&copy.map, map, sizeof(TensorMap));
  if (copy.map.magic != TensorMap::kMagic || copy.inGlobal % 64)
    throw Fault("no tensor map is there");
  // Even where all of the box lies outside of the tensor, as on an H200.
  global.check(copy.map.address, 1);
  copy.bytes = copy.map.bytes();
  if (inGlobal.size() != copy.map.rank + 1u ||
      !instruction.says((std::to_string(copy.map.rank) + "d").c_str()))
    throw Fault("the tensor map has rank " + std::to_string(copy.map.rank));
  for (unsigned i = 0; i < copy.map.rank; ++i)
    copy.coordinates[i] = int(get(warp, inGlobal[i + 1], lane));
  if (copy.coordinates[0] * copy.map.elementBytes % 16)
    throw Fault("a bulk copy from column " + std::to_string(copy.coordinates[0]) +
                ", which is at no multiple of 16 bytes");
  return copy;
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

/// `[to], [from], bytes, [mbarrier]`, or with a tensor map and without bytes; at last, for a
/// multicast, a bit for each block of the cluster, in which it goes to the same places.
void Block::startBulkLoad(Warp &warp, const Instruction &instruction, unsigned lane) {
  const auto &operands = instruction.operands;
  uint64_t inShared = get(warp, operands[0][0], lane);
  Block &there = blockAt(instruction, inShared);
  BulkCopy copy = bulkCopy(warp, instruction, lane, operands[1], inShared);
  unsigned next = copy.isTensor ? 2 : 3;
  copy.mbarrier = get(warp, operands[next][0], lane);
  if (&blockAt(instruction, copy.mbarrier) != &there)
    throw Fault("a bulk copy reports to another block than it goes to");
  unsigned blocks = 1u << there.rank;
  if (instruction.says("multicast::cluster"))
    blocks = uint16_t(get(warp, operands.at(next + 1)[0], lane));
  if (!blocks || blocks >> cluster.size())
    throw Fault("a multicast to blocks " + std::to_string(blocks) + ", as bits, of a cluster of " +
                std::to_string(cluster.size()));
  unsigned thread = threadOf(warp, lane);
  Knowledge known = clocks.knowledgeOf(thread);
  forEachLane(blocks, [&](unsigned rank) {
    Block &target = cluster.at(rank);
    Mbarrier &mbarrier = target.mbarriers.findForCopy(copy.mbarrier, thread, known);
    Access access{mbarrier.engine, mbarrier.timeOfPhase(), &known, /*isAsync=*/true};
    target.noteVisit(thread, access.actor, access.time);
    forEachPiece(copy, [&](uint64_t inShared, uint64_t inGlobal, int from, int to) {
      checkGlobal(inGlobal, from, to);
      target.shared.startCopy(inShared, 16, access);
    });
    underWay.push_back(
        {&instruction, warp.number, [this, copy, &target] { landBulkLoad(copy, target); }});
  });
}

void Block::landBulkLoad(const BulkCopy &copy, Block &target) {
  if (&target != this && target.hasEnded())
    throw Fault("a bulk copy comes to block " + std::to_string(target.block) + ", which has ended");
  Mbarrier &mbarrier = target.mbarriers.find(copy.mbarrier);
  Knowledge none;
  Access access{mbarrier.engine, mbarrier.timeOfPhase(), &none, /*isAsync=*/true};
  forEachPiece(copy, [&](uint64_t inShared, uint64_t inGlobal, int from, int to) {
    unsigned char data[16] = {};
    memcpy(data + from, reinterpret_cast<const unsigned char *>(inGlobal) + from,
           size_t(to - from));
    target.shared.endCopy(inShared, data, 16, access);
  });
  if (target.mbarriers.bring(mbarrier, copy.bytes))
    target.wake(copy.mbarrier);
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

/// `[to], [from], bytes`, or with a tensor map and without bytes.
void Block::startBulkStore(Warp &warp, const Instruction &instruction, unsigned lane) {
  const auto &operands = instruction.operands;
  BulkCopy copy = bulkCopy(warp, instruction, lane, operands[0], get(warp, operands[1][0], lane));
  unsigned thread = threadOf(warp, lane);
  Lane &self = warp.lane[lane];
  copy.group = self.bulkGroups;
  if (!self.storeActor)
    self.storeActor = clocks.addActors("a bulk store of " + clocks.nameOf(thread), 1);
  Knowledge known = clocks.knowledgeOf(thread);
  Access access{self.storeActor, copy.group + 1, &known, /*isAsync=*/true};
  forEachPiece(copy, [&](uint64_t inShared, uint64_t inGlobal, int from, int to) {
    checkGlobal(inGlobal, from, to);
    shared.startRead(inShared, 16, access);
  });
  self.stores.push_back(copy);
}

/// `cp.async.bulk.wait_group n`, with or without `.read`: all groups but the last n.
void Block::waitForBulkStores(Warp &warp, const Instruction &instruction, unsigned lane) {
  Lane &self = warp.lane[lane];
  uint64_t left = get(warp, instruction.operands[0][0], lane);
  if (!self.storeActor || left >= self.bulkGroups)
    return;
  unsigned over = self.bulkGroups - unsigned(left); // groups
  auto isOver = [&](const BulkCopy &copy) { return copy.group < over; };
  for (const BulkCopy &copy : self.stores)
    if (isOver(copy))
      forEachPiece(copy, [&](uint64_t inShared, uint64_t inGlobal, int from, int to) {
        unsigned char data[16];
        shared.peek(inShared, data, 16);
        memcpy(reinterpret_cast<unsigned char *>(inGlobal) + from, data + from, size_t(to - from));
      });
  self.stores.erase(std::remove_if(self.stores.begin(), self.stores.end(), isOver),
                    self.stores.end());
  auto done = std::make_shared<Knowledge>();
  done->add(self.storeActor, over);
  clocks.learn(threadOf(warp, lane), 1, done);
}
