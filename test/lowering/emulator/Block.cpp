//===- Block.cpp - one thread block at work -------------------------------===//
#include "Cluster.h"
#include "ForEachLane.h"
#include <algorithm>

using namespace emulator;

static std::string placeOf(const Instruction &instruction) {
  const std::string &text = instruction.text;
  return "line " + std::to_string(instruction.line) +
         " of the PTX: " + (text.size() <= 100 ? text : text.substr(0, 100) + "...");
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

void Sums::add(uint64_t address, unsigned block) {
  auto found = last.find(address);
  if (found == last.end())
    throw Fault("adds to what no block has stored");
  if (found->second >= block)
    throw Fault("adds to a sum after block " + std::to_string(found->second) + ", out of order");
  found->second = block;
}

Block::Block(Cluster &cluster, unsigned rank, const LaunchContext &context, unsigned seed)
    : cluster(cluster), rank(rank), firstThread(rank * context.launch.threads),
      launch(context.launch), kernel(*launch.kernel), global(context.global), random(seed),
      statistics(context.statistics), sums(context.sums), clocks(cluster.clocks),
      shared(clocks, cluster.line), mbarriers(clocks, shared) {}

void Block::begin(unsigned number) {
  block = number;
  left = launch.threads;
  visits.clear();
  warps.assign(launch.threads / lanes, Warp());
  for (unsigned w = 0; w < warps.size(); ++w) {
    warps[w].number = w;
    warps[w].registers.assign(size_t(kernel.numRegisters) * lanes, 0xdeadbeefdeadbeef);
  }
  shared.reset(kernel.staticShared + launch.sharedBytes, clocks.blockOf(firstThread));
  barriers.assign(16, Barrier());
  mbarriers.reset();
  underWay.clear();
  elected = random() % lanes;
  freeRegisters = 0;
  groups.clear();
  for (unsigned g = 0; 4 * g + 4 <= warps.size(); ++g)
    groups.emplace_back(g, firstThread, kernel, clocks);
}

Block::Turn Block::goOn() {
  std::vector<Warp *> able;
  if (!findAble(able) && underWay.empty())
    return Turn::none;
  if (!underWay.empty() && (able.empty() || random() % 8 == 0)) {
    landOne();
    return Turn::much;
  }
  Warp &warp = *able[random() % able.size()];
  hasPolled = false;
  constexpr unsigned polling = 16; // instructions of a loop that polls, at most
  unsigned done = 0;
  for (unsigned length = 1 + random() % 500; done < length && !hasPolled && step(warp); ++done) {
  }
  return hasPolled ? Turn::polled : done > polling ? Turn::much : Turn::little;
}

bool Block::findAble(std::vector<Warp *> &able) {
  able.clear();
  for (Warp &warp : warps)
    if (std::any_of(std::begin(warp.lane), std::end(warp.lane),
                    [](const Lane &lane) { return lane.state == Lane::running; }))
      able.push_back(&warp);
  return !able.empty();
}

void Block::checkEnd() const {
  for (const Warp &warp : warps)
    for (const Lane &lane : warp.lane)
      if (!std::all_of(lane.copies.begin(), lane.copies.end(),
                       [](const Copy &copy) { return copy.hasLanded; }))
        throw Fault("a thread" + clocks.blockOf(firstThread) +
                    " ends while its copies are under way");
      else if (!lane.stores.empty())
        throw Fault("a thread" + clocks.blockOf(firstThread) +
                    " ends while its bulk stores are under way");
  for (const Warpgroup &group : groups)
    if (group.isBusy())
      throw Fault("a warpgroup" + clocks.blockOf(firstThread) +
                  " ends while its wgmma are in flight");
}

std::string Block::describeWaiting() const {
  std::string waiting;
  for (const Warp &warp : warps) {
    const Instruction *last = nullptr;
    for (const Lane &lane : warp.lane) {
      const Instruction &at = kernel.code[std::min<size_t>(lane.place, kernel.code.size() - 1)];
      if (lane.state == Lane::gone)
        continue;
      if (lane.state == Lane::atWarp)
        throw Fault("of a warp" + clocks.blockOf(firstThread) + " only some lanes come to '" +
                    at.text + "', line " + std::to_string(at.line) + " of the PTX");
      if (&at == last)
        continue;
      last = &at;
      waiting += "; warp " + std::to_string(warp.number) + clocks.blockOf(firstThread) + " waits";
      if (lane.state == Lane::atMbarrier)
        waiting += " for " + mbarriers.describe(lane.mbarrier);
      if (lane.state == Lane::atClusterBarrier)
        waiting += " for " + cluster.describeBarrier();
      waiting += ", " + placeOf(at);
    }
  }
  return waiting;
}

std::string Block::describePartialBarrier() const {
  for (const Barrier &barrier : barriers)
    if (barrier.arrived)
      return "only " + std::to_string(barrier.arrived) + " of " + std::to_string(barrier.expected) +
             " threads" + clocks.blockOf(firstThread) + " come to a barrier: ";
  return "";
}

bool Block::step(Warp &warp) {
  unsigned place = ~0u, last = 0;
  for (Lane &lane : warp.lane)
    if (lane.state == Lane::running) {
      place = std::min(place, lane.place);
      last = std::max(last, lane.place);
    }
  if (place == ~0u)
    return false;
  // Lanes that poll must not keep others from going on.
  if (warp.hasPolled)
    place = last;
  warp.hasPolled = false;
  Mask active = 0;
  for (unsigned l = 0; l < lanes; ++l)
    if (warp.lane[l].state == Lane::running && warp.lane[l].place == place)
      active |= 1u << l;
  const Instruction &instruction = kernel.code.at(place);
  attribute(instruction, warp.number, [&] { execute(warp, instruction, active); });
  return true;
}

template <typename Act>
void Block::attribute(const Instruction &instruction, unsigned warp, Act act) {
  cluster.line = instruction.line;
  try {
    act();
  } catch (Fault &fault) {
    throw Fault(std::string(fault.what()) + "; warp " + std::to_string(warp) + " of block " +
                std::to_string(block) + ", " + placeOf(instruction));
  }
}

void Block::landOne() {
  size_t which = random() % underWay.size();
  Event event = std::move(underWay[which]);
  underWay.erase(underWay.begin() + ptrdiff_t(which));
  attribute(*event.instruction, event.warp, event.land);
}

bool Block::isTogether(const Warp &warp, Mask active) const {
  unsigned place = 0;
  forEachLane(active, [&](unsigned l) { place = warp.lane[l].place; });
  for (const Lane &lane : warp.lane)
    if (lane.place != place || (lane.state != Lane::running && lane.state != Lane::atWarp))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Block::Mask Block::chosen(const Warp &warp, const Instruction &instruction, Mask active) const {
  Mask result = active;
  if (instruction.predicate >= 0)
    forEachLane(active, [&](unsigned l) {
      bool holds = warp.registers[unsigned(instruction.predicate) * lanes + l] != 0;
      if (holds == instruction.negated)
        result &= ~(1u << l);
    });
  return result;
}

void Block::execute(Warp &warp, const Instruction &instruction, Mask active) {
  if (statistics)
    count(warp, instruction, active);
  if (warp.number / 4 < groups.size() && instruction.action != Action::groupMultiply)
    groups[warp.number / 4].checkRegisters(warp.number % 4, instruction);
  Mask all = active;
  active = chosen(warp, instruction, all);
  auto advance = [&](Mask which) { forEachLane(which, [&](unsigned l) { ++warp.lane[l].place; }); };
  if (instruction.action >= Action::shuffle) {
    advance(all & ~active);
    if (active)
      executeTogether(warp, instruction, active);
    return;
  }
  switch (instruction.action) {
  case Action::branch:
    return forEachLane(all, [&](unsigned l) {
      Lane &lane = warp.lane[l];
      lane.place = active >> l & 1 ? instruction.target : lane.place + 1;
    });
  case Action::leave:
    advance(all & ~active);
    return forEachLane(active, [&](unsigned l) { leave(warp, l); });
  case Action::waitAtMbarrier:
    advance(all & ~active);
    return waitAtMbarrier(warp, instruction, active);
  case Action::arriveAtClusterBarrier:
  case Action::waitAtClusterBarrier:
    advance(all & ~active);
    return comeToClusterBarrier(warp, instruction, active);
  case Action::compute:
    compute(warp, instruction, active);
    break;
  default:
    forEachLane(active, [&](unsigned l) { executeAlone(warp, instruction, l); });
  }
  advance(all);
}

void Block::executeAlone(Warp &warp, const Instruction &instruction, unsigned lane) {
  switch (instruction.action) {
  case Action::move:
    return move(warp, instruction, lane);
  case Action::mapAddress:
    return mapAddress(warp, instruction, lane);
  case Action::loadParameter:
    return loadParameter(warp, instruction, lane);
  case Action::load:
  case Action::store:
    return loadOrStore(warp, instruction, lane);
  case Action::addInMemory:
    return addInMemory(warp, instruction, lane);
  case Action::copyAsync:
    return copyAsync(warp, instruction, lane);
  case Action::prefetch:
    return global.check(get(warp, instruction.operands[0][0], lane), 1);
  case Action::commitCopies:
    ++warp.lane[lane].groups;
    return;
  case Action::fenceProxy:
    return clocks.fence(threadOf(warp, lane));
  case Action::prepareMbarrier:
    return prepareMbarrier(warp, instruction, lane);
  case Action::arriveAtMbarrier:
    return arriveAtMbarrier(warp, instruction, lane);
  case Action::arriveAfterCopies:
    return arriveAfterCopies(warp, instruction, lane);
  case Action::fenceMbarriers:
    return mbarriers.fence(threadOf(warp, lane));
  case Action::bulkLoad:
    return startBulkLoad(warp, instruction, lane);
  case Action::bulkStore:
    return startBulkStore(warp, instruction, lane);
  case Action::commitBulkStores:
    ++warp.lane[lane].bulkGroups;
    return;
  case Action::waitForBulkStores:
    return waitForBulkStores(warp, instruction, lane);
  case Action::nothing:
    return;
  default:
    return waitForCopies(warp, instruction, lane);
  }
}

void Block::executeTogether(Warp &warp, const Instruction &instruction, Mask active) {
  if (!isTogether(warp, active))
    return forEachLane(active, [&](unsigned l) { warp.lane[l].state = Lane::atWarp; });
  for (Lane &lane : warp.lane)
    lane.state = Lane::running;
  switch (instruction.action) {
  case Action::shuffle:
    shuffle(warp, instruction);
    break;
  case Action::elect:
    elect(warp, instruction);
    break;
  case Action::loadMatrices:
    loadMatrices(warp, instruction);
    break;
  case Action::storeMatrices:
    storeMatrices(warp, instruction);
    break;
  case Action::transposeMatrix:
    transposeMatrix(warp, instruction);
    break;
  case Action::multiplyMatrices:
    multiplyMatrices(warp, instruction);
    break;
  case Action::warpBarrier:
    clocks.passWarpBarrier(threadOf(warp, 0) / lanes);
    break;
  case Action::barrier:
  case Action::arriveAtBarrier:
    return comeToBarrier(warp, instruction);
  default:
    return comeToGroup(warp, instruction);
  }
  for (Lane &lane : warp.lane)
    ++lane.place;
}

/// `bar.sync id, threads`, `bar.arrive id, threads` and `bar.red.and.pred all, id,
/// threads, mine`: of the whole block if it does not say how many threads.
void Block::comeToBarrier(Warp &warp, const Instruction &instruction) {
  bool reduces = instruction.hasResult;
  unsigned first = reduces, count = instruction.operands.size() - 2 * reduces;
  auto operand = [&](unsigned i, unsigned otherwise) {
    return i < count ? unsigned(get(warp, instruction.operands[first + i][0], 0)) : otherwise;
  };
  unsigned number = operand(0, 0), expected = operand(1, launch.threads);
  if (number >= barriers.size())
    throw Fault("there is no barrier " + std::to_string(number));
  if (!expected || expected % lanes)
    throw Fault("a barrier of " + std::to_string(expected) + " threads, which are no whole warps");
  Barrier &barrier = barriers[number];
  if (barrier.arrived && barrier.expected != expected)
    throw Fault("a barrier of " + std::to_string(expected) + " threads, at which others expect " +
                std::to_string(barrier.expected));
  clocks.publish(threadOf(warp, 0), lanes, barrier.brought);
  barrier.expected = expected;
  barrier.arrived += lanes;
  if (reduces)
    for (unsigned lane = 0; lane < lanes; ++lane)
      barrier.isTrueOfAll &= get(warp, instruction.operands.back()[0], lane) != 0;
  bool waits = instruction.action == Action::barrier;
  warp.barrier = number;
  for (Lane &lane : warp.lane) {
    lane.state = waits ? Lane::atBarrier : Lane::running;
    lane.place += waits ? 0 : 1;
  }
  if (barrier.arrived < expected)
    return;
  auto all = std::make_shared<const Knowledge>(std::move(barrier.brought));
  bool isTrueOfAll = barrier.isTrueOfAll;
  barrier = Barrier();
  for (Warp &other : warps) {
    if (other.lane[0].state != Lane::atBarrier || other.barrier != number)
      continue;
    clocks.learn(threadOf(other, 0), lanes, all);
    const Instruction &asked = kernel.code[other.lane[0].place];
    for (unsigned lane = 0; asked.hasResult && lane < lanes; ++lane)
      set(other, asked.operands[0][0], lane, isTrueOfAll);
    for (Lane &lane : other.lane) {
      lane.state = Lane::running;
      ++lane.place;
    }
  }
}
