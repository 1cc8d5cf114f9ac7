//===- Mbarriers.h - barriers in shared memory --------------------*- C++ -*-===//
//
// A phase of an mbarrier ends when as many threads have arrived as it counts and as
// many bytes have come as it expects. Who sees that a phase has ended comes after all
// that arrived in it and before. Even phases have parity 0; a wait for a parity passes
// once the phase under way has the other one.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_MBARRIERS_H
#define EJK_TEST_EMULATOR_MBARRIERS_H

#include "SharedMemory.h"
#include <map>

namespace emulator {

struct Mbarrier {
  unsigned count, pending;   // arrivals of a phase, and those that it lacks
  int64_t bytes = 0;         // expected that have not come
  unsigned phase = 0;        // under way
  unsigned engine;           // the actor of copies that report here
  Knowledge brought;         // by the arrivals of this phase
  SharedKnowledge completed; // by those of earlier ones
  // Who initialized it, and when that was made visible to copies, 0 for not yet.
  unsigned initializer, initialized, fenced = 0;
  bool hasRemote = false; // threads of other blocks that arrive

  /// When what a copy brings in this phase is there.
  unsigned timeOfPhase() const { return phase + 1; }
};

class Mbarriers {
public:
  Mbarriers(Clocks &clocks, SharedMemory &shared) : clocks(clocks), shared(shared) {}

  void reset() { all.clear(); }
  void initialize(uint64_t address, uint64_t count, unsigned thread);
  void invalidate(uint64_t address, unsigned thread);
  /// `fence.mbarrier_init`
  void fence(unsigned thread);

  /// Throws Fault where there is none that the thread knows of.
  Mbarrier &find(uint64_t address, unsigned thread);
  /// For a copy that a thread issues, which knows what `known` does.
  Mbarrier &findForCopy(uint64_t address, unsigned thread, const Knowledge &known);
  /// Throws Fault where it is gone.
  Mbarrier &find(uint64_t address);

  // Each says whether a phase ends with it.
  bool arrive(Mbarrier &mbarrier, uint64_t count);
  bool expect(Mbarrier &mbarrier, uint64_t bytes);
  bool bring(Mbarrier &mbarrier, uint64_t bytes);

  std::string nameOf(uint64_t address) const;
  /// What it waits for.
  std::string describe(uint64_t address) const;

private:
  bool endPhase(Mbarrier &mbarrier);
  void addBytes(Mbarrier &mbarrier, int64_t bytes);

  Clocks &clocks;
  SharedMemory &shared;
  std::map<uint64_t, Mbarrier> all;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_MBARRIERS_H
