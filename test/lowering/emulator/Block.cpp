//===- Block.cpp - one thread block at work -------------------------------===//
#include "Block.h"
#include <algorithm>
#include <cstring>

using namespace emulator;

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

void Block::run(unsigned number) {
  block = number;
  warps.assign(launch.threads / lanes, Warp());
  for (unsigned w = 0; w < warps.size(); ++w) {
    warps[w].number = w;
    warps[w].registers.assign(size_t(kernel.numRegisters) * lanes, 0xdeadbeefdeadbeef);
  }
  shared.reset(kernel.staticShared + launch.sharedBytes, unsigned(warps.size()));
  std::vector<unsigned> able(warps.size());
  for (unsigned w = 0; w < able.size(); ++w)
    able[w] = w;
  for (;;) {
    if (able.empty()) {
      if (!passBarrier())
        break;
      for (unsigned w = 0; w < warps.size(); ++w)
        able.push_back(w);
    }
    unsigned turn = random() % able.size(), length = 1 + random() % 500;
    for (; length; --length)
      if (!step(warps[able[turn]])) {
        able.erase(able.begin() + turn);
        break;
      }
  }
  for (Warp &warp : warps)
    for (Lane &lane : warp.lane)
      if (!lane.copies.empty())
        throw Fault("a thread ends while its copies are under way");
}

/// False where all threads are gone.
bool Block::passBarrier() {
  unsigned left = 0, waiting = 0;
  for (Warp &warp : warps)
    for (Lane &lane : warp.lane) {
      left += lane.state != Lane::gone;
      waiting += lane.state == Lane::atBlock;
      lane.state = lane.state == Lane::atBlock ? Lane::running : lane.state;
    }
  if (!left)
    return false;
  if (waiting < warps.size() * lanes)
    throw Fault("only " + std::to_string(waiting) + " of " + std::to_string(warps.size() * lanes) +
                " threads come to a barrier");
  shared.passBarrier();
  return true;
}

bool Block::step(Warp &warp) {
  unsigned place = ~0u;
  for (Lane &lane : warp.lane)
    if (lane.state == Lane::running)
      place = std::min(place, lane.place);
  if (place == ~0u) {
    for (Lane &lane : warp.lane)
      if (lane.state == Lane::atWarp)
        throw Fault("of a warp only some lanes come to '" + kernel.code[lane.place].text + "'");
    return false;
  }
  Mask active = 0;
  for (unsigned l = 0; l < lanes; ++l)
    if (warp.lane[l].state == Lane::running && warp.lane[l].place == place)
      active |= 1u << l;
  const Instruction &instruction = kernel.code[place];
  shared.setLine(instruction.line);
  try {
    execute(warp, instruction, active);
  } catch (Fault &fault) {
    throw Fault(std::string(fault.what()) + "; warp " + std::to_string(warp.number) + " of block " +
                std::to_string(block) + ", line " + std::to_string(instruction.line) +
                " of the PTX: " + instruction.text);
  }
  return true;
}

bool Block::isTogether(const Warp &warp, Mask active) const {
  unsigned place = 0;
  for (unsigned l = 0; l < lanes; ++l)
    if (active >> l & 1)
      place = warp.lane[l].place;
  for (const Lane &lane : warp.lane)
    if (lane.state == Lane::gone || lane.place != place || lane.state == Lane::atBlock)
      return false;
  return true;
}

template <typename Visit> static void forEachLane(uint32_t active, Visit visit) {
  for (unsigned l = 0; l < 32; ++l)
    if (active >> l & 1)
      visit(l);
}

void Block::execute(Warp &warp, const Instruction &instruction, Mask active) {
  if (statistics)
    count(warp, instruction, active);
  auto advance = [&](Mask which) { forEachLane(which, [&](unsigned l) { ++warp.lane[l].place; }); };
  switch (instruction.action) {
  case Action::branch:
    return branch(warp, instruction, active);
  case Action::leave:
    return forEachLane(active, [&](unsigned l) { warp.lane[l].state = Lane::gone; });
  case Action::shuffle:
  case Action::loadMatrices:
  case Action::multiplyMatrices:
  case Action::warpBarrier:
  case Action::barrier: {
    if (!isTogether(warp, active))
      return forEachLane(active, [&](unsigned l) { warp.lane[l].state = Lane::atWarp; });
    for (Lane &lane : warp.lane)
      lane.state = Lane::running;
    if (instruction.action == Action::shuffle)
      shuffle(warp, instruction);
    else if (instruction.action == Action::loadMatrices)
      loadMatrices(warp, instruction);
    else if (instruction.action == Action::multiplyMatrices)
      multiplyMatrices(warp, instruction);
    else if (instruction.action == Action::warpBarrier)
      shared.passWarpBarrier(int(warp.number));
    advance(~0u);
    if (instruction.action == Action::barrier)
      for (Lane &lane : warp.lane)
        lane.state = Lane::atBlock;
    return;
  }
  case Action::compute:
    compute(warp, instruction, active);
    break;
  default:
    forEachLane(active, [&](unsigned l) {
      switch (instruction.action) {
      case Action::move:
        return move(warp, instruction, l);
      case Action::loadParameter:
        return set(warp, instruction.operands[0][0], l,
                   launch.arguments[instruction.operands[1][0].index]);
      case Action::load:
      case Action::store:
        return loadOrStore(warp, instruction, l);
      case Action::copyAsync:
        return copyAsync(warp, instruction, l);
      case Action::commitCopies:
        ++warp.lane[l].groups;
        return;
      default:
        return waitForCopies(warp, instruction, l);
      }
    });
  }
  advance(active);
}

void Block::branch(Warp &warp, const Instruction &instruction, Mask active) {
  forEachLane(active, [&](unsigned l) {
    bool taken = true;
    if (instruction.predicate >= 0)
      taken =
          (warp.registers[unsigned(instruction.predicate) * lanes + l] != 0) != instruction.negated;
    warp.lane[l].place = taken ? instruction.target : warp.lane[l].place + 1;
  });
}

//===----------------------------------------------------------------------===//
// What each lane does by itself
//===----------------------------------------------------------------------===//

uint64_t Block::get(const Warp &warp, const Operand &operand, unsigned lane) const {
  switch (operand.kind) {
  case Operand::Kind::reg:
    return warp.registers[operand.index * lanes + lane] + operand.number;
  case Operand::Kind::special:
    switch (Special(operand.index)) {
    case Special::threadX:
      return uint64_t(threadOf(warp, lane));
    case Special::blockX:
      return block;
    case Special::threadsX:
      return launch.threads;
    case Special::blocksX:
      return launch.blocks;
    }
    [[fallthrough]];
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
    set(warp, operands[0][0], l,
        instruction.function(get(warp, a, l), get(warp, b, l), get(warp, c, l)));
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
    int thread = threadOf(warp, lane);
    isLoad ? shared.read(address, data, all, thread) : shared.write(address, data, all, thread);
  } else {
    global.check(address, all);
    auto *place = reinterpret_cast<unsigned char *>(address);
    isLoad ? memcpy(data, place, all) : memcpy(place, data, all);
  }
  for (unsigned i = 0; isLoad && i < values.size(); ++i) {
    uint64_t value = 0;
    memcpy(&value, data + i * bytes, bytes);
    set(warp, values[i], lane, value);
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
  shared.startCopy(to, bytes, threadOf(warp, lane));
  Lane &self = warp.lane[lane];
  self.copies.push_back({to, from, bytes, source, self.groups});
}

/// `cp.async.wait_group n`: all groups but the last n are there, and no other.
void Block::waitForCopies(Warp &warp, const Instruction &instruction, unsigned lane) {
  Lane &self = warp.lane[lane];
  uint64_t left = get(warp, instruction.operands[0][0], lane);
  auto isThere = [&](const Copy &copy) { return copy.group + left < self.groups; };
  for (const Copy &copy : self.copies)
    if (isThere(copy)) {
      unsigned char data[16] = {};
      memcpy(data, reinterpret_cast<const void *>(copy.from), copy.source);
      shared.endCopy(copy.to, data, copy.bytes, threadOf(warp, lane));
    }
  self.copies.erase(std::remove_if(self.copies.begin(), self.copies.end(), isThere),
                    self.copies.end());
}
