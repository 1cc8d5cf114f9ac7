//===- Mbarriers.cpp - barriers in shared memory --------------------------===//
#include "Mbarriers.h"

using namespace emulator;

std::string Mbarriers::nameOf(uint64_t address) const {
  return "the mbarrier at " + shared.nameOf(address);
}

void Mbarriers::initialize(uint64_t address, uint64_t count, unsigned thread) {
  if (!count || count >= 1 << 20)
    throw Fault("an mbarrier that counts " + std::to_string(count));
  if (all.count(address))
    throw Fault(nameOf(address) + " is initialized, and was before");
  shared.reserve(address, thread);
  Mbarrier mbarrier{};
  mbarrier.count = mbarrier.pending = unsigned(count);
  mbarrier.engine = clocks.addActors("a copy to " + nameOf(address), 1);
  mbarrier.completed = std::make_shared<Knowledge>();
  mbarrier.initializer = thread;
  mbarrier.initialized = clocks.timeOf(thread);
  all[address] = mbarrier;
}

void Mbarriers::invalidate(uint64_t address, unsigned thread) {
  Mbarrier &mbarrier = find(address);
  if (mbarrier.pending != mbarrier.count || mbarrier.bytes)
    throw Fault(nameOf(address) + " is invalidated in the middle of a phase");
  shared.unreserve(address, thread);
  all.erase(address);
}

void Mbarriers::fence(unsigned thread) {
  for (auto &[address, mbarrier] : all)
    if (mbarrier.initializer == thread && !mbarrier.fenced)
      mbarrier.fenced = clocks.timeOf(thread);
}

Mbarrier &Mbarriers::find(uint64_t address) {
  auto it = all.find(address);
  if (it == all.end())
    throw Fault("no mbarrier at " + shared.nameOf(address));
  return it->second;
}

Mbarrier &Mbarriers::find(uint64_t address, unsigned thread) {
  Mbarrier &mbarrier = find(address);
  shared.checkReserved(address, thread);
  return mbarrier;
}

Mbarrier &Mbarriers::findForCopy(uint64_t address, unsigned thread, const Knowledge &known) {
  Mbarrier &mbarrier = find(address, thread);
  bool isVisible = known.hasFenced(mbarrier.initializer, mbarrier.initialized) ||
                   (mbarrier.fenced && known.has(mbarrier.initializer, mbarrier.fenced));
  if (!isVisible)
    throw Fault("a copy reports to " + nameOf(address) +
                ", which lacks fence.mbarrier_init since " + clocks.nameOf(mbarrier.initializer) +
                " initialized it");
  return mbarrier;
}

bool Mbarriers::arrive(Mbarrier &mbarrier, uint64_t count) {
  if (count > mbarrier.pending)
    throw Fault(std::to_string(count) + " arrive at an mbarrier whose phase lacks " +
                std::to_string(mbarrier.pending));
  mbarrier.pending -= unsigned(count);
  return endPhase(mbarrier);
}

void Mbarriers::addBytes(Mbarrier &mbarrier, int64_t bytes) {
  mbarrier.bytes += bytes;
  if (std::abs(mbarrier.bytes) >= 1 << 20)
    throw Fault("an mbarrier expects " + std::to_string(mbarrier.bytes) + " bytes");
}

bool Mbarriers::expect(Mbarrier &mbarrier, uint64_t bytes) {
  addBytes(mbarrier, int64_t(bytes));
  return endPhase(mbarrier);
}

bool Mbarriers::bring(Mbarrier &mbarrier, uint64_t bytes) {
  mbarrier.brought.add(mbarrier.engine, mbarrier.timeOfPhase());
  addBytes(mbarrier, -int64_t(bytes));
  return endPhase(mbarrier);
}

bool Mbarriers::endPhase(Mbarrier &mbarrier) {
  if (mbarrier.pending || mbarrier.bytes)
    return false;
  auto both = std::make_shared<Knowledge>(*mbarrier.completed);
  both->join(mbarrier.brought);
  mbarrier.completed = both;
  mbarrier.brought = Knowledge();
  mbarrier.pending = mbarrier.count;
  ++mbarrier.phase;
  return true;
}

std::string Mbarriers::describe(uint64_t address) const {
  auto it = all.find(address);
  if (it == all.end())
    return "no mbarrier";
  const Mbarrier &mbarrier = it->second;
  return nameOf(address) + ", in phase " + std::to_string(mbarrier.phase) + ", which lacks " +
         std::to_string(mbarrier.pending) + " arrivals and " + std::to_string(mbarrier.bytes) +
         " bytes";
}
