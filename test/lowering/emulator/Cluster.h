//===- Cluster.h - the blocks that run together -------------------*- C++ -*-===//
//
// A cluster is the unit that runs; a kernel that says nothing of clusters has one block in each.
// The blocks of a cluster take turns in random order. Their threads are actors of one set of
// clocks, so whatever orders two threads may lead through other blocks. Nothing goes on where no
// block can go on.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_CLUSTER_H
#define EJK_TEST_EMULATOR_CLUSTER_H

#include "Block.h"
#include <memory>

namespace emulator {

class Cluster {
public:
  Cluster(const LaunchContext &context, unsigned seed);

  /// Runs cluster `number` to its end; throws Fault.
  void run(unsigned number) {
    begin(number);
    while (goOn()) {
    }
  }
  void begin(unsigned number);
  /// One turn of a block; false at the cluster's end.
  bool goOn();

  unsigned size() const { return unsigned(blocks.size()); }
  Block &at(unsigned rank) { return *blocks.at(rank); }

  // The barrier of all threads that have not ended.
  void arrive(unsigned thread);
  /// Of a thread that ends, and may have come to the barrier before.
  void leave(bool hasArrived);
  /// Whether all threads have come so many times.
  bool hasPassed(unsigned times) const { return passed >= times; }
  /// What the threads knew that came the last time.
  const SharedKnowledge &knownAtBarrier() const { return completed; }
  std::string describeBarrier() const;

  Clocks clocks;
  unsigned line = 0; // of the program, that is executed

private:
  void endPhase();
  /// Says why nothing goes on any more.
  [[noreturn]] void failStuck() const;

  const Launch &launch;
  std::mt19937 random;
  std::vector<std::unique_ptr<Block>> blocks; // by rank
  unsigned vainTurns = 0;                     // one after the other
  unsigned left = 0;                          // threads that have not ended
  unsigned arrived = 0, passed = 0;
  Knowledge brought;
  SharedKnowledge completed;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_CLUSTER_H
