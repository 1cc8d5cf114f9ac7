//===- Threads.cpp - what each lane does by itself ------------------------===//
#include "Block.h"
#include "ForEachLane.h"
#include <algorithm>
#include <cstring>

using namespace emulator;

uint64_t Block::get(const Warp &warp, const Operand &operand, unsigned lane) const {
  switch (operand.kind) {
  case Operand::Kind::reg:
    return warp.registers[operand.index * lanes + lane] + operand.number;
  case Operand::Kind::special:
    switch (Special(operand.index)) {
    case Special::threadX:
      return warp.number * lanes + lane;
    case Special::blockX:
      return block;
    case Special::threadsX:
      return launch.threads;
    case Special::blocksX:
      return launch.blocks;
    case Special::lane:
      return lane;
    case Special::rankInCluster:
      return rank;
    case Special::blocksInCluster:
      return kernel.clusterBlocks;
    }
    [[fallthrough]];
  case Operand::Kind::parameter:
    return reinterpret_cast<uint64_t>(launch.arguments[operand.index].bytes) + operand.number;
  default:
    return operand.number;
  }
}

void Block::compute(Warp &warp, const Instruction &instruction, Mask active) {
  const auto &operands = instruction.operands;
  const Operand none;
  const Operand &a = operands[1][0], &b = operands.size() > 2 ? operands[2][0] : none,
                &c = operands.size() > 3 ? operands[3][0] : none;
  forEachLane(active, [&](unsigned l) {
    uint64_t result = instruction.function(get(warp, a, l), get(warp, b, l), get(warp, c, l));
    // A packed comparison has two predicates, a bit of the result each.
    if (operands[0].size() == 2) {
      set(warp, operands[0][1], l, result >> 1 & 1);
      result &= 1;
    }
    set(warp, operands[0][0], l, result);
  });
}

/// A register is put together of its parts, the lowest first, or taken apart.
void Block::move(Warp &warp, const Instruction &instruction, unsigned lane) {
  const std::vector<Operand> &to = instruction.operands[0], &from = instruction.operands[1];
  unsigned bits = 8 * instruction.bytes / unsigned(std::max({to.size(), from.size(), size_t(1)}));
  uint64_t mask = bits < 64 ? (1ull << bits) - 1 : ~0ull, whole = 0;
  if (from.size() == 1)
    whole = get(warp, from[0], lane);
  else
    for (unsigned i = 0; i < from.size(); ++i)
      whole |= (get(warp, from[i], lane) & mask) << i * bits;
  // Any number but 0 is true, and -1 is what is written.
  if (instruction.opcode == "mov.pred")
    whole = whole != 0;
  if (to.size() == 1)
    set(warp, to[0], lane, whole);
  else
    for (unsigned i = 0; i < to.size(); ++i)
      set(warp, to[i], lane, whole >> i * bits & mask);
}

void Block::loadOrStore(Warp &warp, const Instruction &instruction, unsigned lane) {
  bool isLoad = instruction.action == Action::load;
  const auto &values = instruction.operands[isLoad ? 0 : 1];
  uint64_t address = get(warp, instruction.operands[isLoad ? 1 : 0][0], lane);
  unsigned bytes = instruction.bytes, all = bytes * unsigned(values.size());
  unsigned char data[64];
  for (unsigned i = 0; !isLoad && i < values.size(); ++i) {
    uint64_t value = get(warp, values[i], lane);
    memcpy(data + i * bytes, &value, bytes);
  }
  if (instruction.space == Space::shared) {
    unsigned thread = threadOf(warp, lane);
    Block &target = blockAt(instruction, address);
    target.noteVisit(thread, thread, clocks.timeOf(thread));
    isLoad ? target.shared.read(address, data, all, thread)
           : target.shared.write(address, data, all, thread);
  } else {
    global.check(address, all);
    auto *place = reinterpret_cast<unsigned char *>(address);
    isLoad ? memcpy(data, place, all) : memcpy(place, data, all);
    for (unsigned at = 0; sums && !isLoad && at < all; at += 4)
      sums->store(address + at, block);
    // What another block releases is polled for; others are to go on.
    if (isLoad && instruction.says("acquire"))
      warp.hasPolled = hasPolled = true;
  }
  for (unsigned i = 0; isLoad && i < values.size(); ++i) {
    uint64_t value = 0;
    memcpy(&value, data + i * bytes, bytes);
    unsigned unused = 64 - 8 * bytes;
    if (instruction.isSigned && bytes < 8)
      value = uint64_t(int64_t(value << unused) >> unused);
    set(warp, values[i], lane, value);
  }
}

/// `red [address], value` or `{value, value}`, of f32.
void Block::addInMemory(Warp &warp, const Instruction &instruction, unsigned lane) {
  uint64_t address = get(warp, instruction.operands[0][0], lane);
  const std::vector<Operand> &values = instruction.operands[1];
  global.check(address, 4 * unsigned(values.size()));
  if (address % (4 * values.size()))
    throw Fault("adds where global memory is misaligned");
  for (const Operand &value : values) {
    auto bits = uint32_t(get(warp, value, lane));
    float term, sum;
    memcpy(&term, &bits, sizeof(term));
    memcpy(&sum, reinterpret_cast<const void *>(address), sizeof(sum));
    sum += term;
    memcpy(reinterpret_cast<void *>(address), &sum, sizeof(sum));
    if (sums)
      sums->add(address, block);
    address += sizeof(sum);
  }
}

/// `cp.async [to], [from], bytes, source`: of `bytes` bytes the first `source`, 0 behind them.
void Block::copyAsync(Warp &warp, const Instruction &instruction, unsigned lane) {
  auto operand = [&](unsigned i) { return get(warp, instruction.operands[i][0], lane); };
  unsigned bytes = unsigned(operand(2));
  unsigned source = instruction.operands.size() > 3 ? uint32_t(operand(3)) : bytes;
  uint64_t to = operand(0), from = operand(1);
  if (source)
    global.check(from, source);
  if (from % bytes && source)
    throw Fault("copies from global memory that is misaligned");
  shared.startCopy(to, bytes, shared.by(threadOf(warp, lane)));
  Lane &self = warp.lane[lane];
  self.copies.push_back({to, from, bytes, source, self.groups, 0, false});
}

void Block::land(Copy &copy, const Access &access) {
  unsigned char data[16] = {};
  memcpy(data, reinterpret_cast<const void *>(copy.from), copy.source);
  shared.endCopy(copy.to, data, copy.bytes, access);
  copy.hasLanded = true;
}

/// `ld.param`, of one number or several side by side.
void Block::loadParameter(Warp &warp, const Instruction &instruction, unsigned lane) {
  const Operand &from = instruction.operands[1][0];
  uint64_t offset = from.number;
  for (const Operand &to : instruction.operands[0]) {
    uint64_t value = 0;
    if (offset + instruction.bytes > kernel.parameterBytes.at(from.index))
      throw Fault("reads behind the end of a parameter");
    memcpy(&value, launch.arguments[from.index].bytes + offset, instruction.bytes);
    set(warp, to, lane, value);
    offset += instruction.bytes;
  }
}

/// `cp.async.wait_group n`: all groups but the last n are there, and no other.
void Block::waitForCopies(Warp &warp, const Instruction &instruction, unsigned lane) {
  Lane &self = warp.lane[lane];
  uint64_t left = get(warp, instruction.operands[0][0], lane);
  auto isThere = [&](const Copy &copy) { return copy.group + left < self.groups; };
  auto reported = std::make_shared<Knowledge>(); // by an mbarrier
  for (Copy &copy : self.copies) {
    if (!isThere(copy))
      continue;
    if (copy.hasLanded)
      reported->add(self.copyActor, copy.arrival);
    else
      land(copy, shared.by(threadOf(warp, lane)));
  }
  if (!reported->seen.empty())
    clocks.learn(threadOf(warp, lane), 1, reported);
  self.copies.erase(std::remove_if(self.copies.begin(), self.copies.end(), isThere),
                    self.copies.end());
}
