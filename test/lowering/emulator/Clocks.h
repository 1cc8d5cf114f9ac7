//===- Clocks.h - what happened before what, in one cluster -------*- C++ -*-===//
//
// Vector clocks. An actor is a thread, or what works for one on its own: a
// warpgroup's tensor cores, a copy. An actor's time is a count that grows; what it does
// bears the actor and the time. A thread knows of each other actor the time up to
// which that one's doings are over for it: barriers hand this knowledge on.
//
// Tensor cores and bulk copies see shared memory through a proxy of their own: of what
// threads wrote, they see what was over before a `fence.proxy.async` of the writer.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_CLOCKS_H
#define EJK_TEST_EMULATOR_CLOCKS_H

#include <memory>
#include <string>
#include <vector>

namespace emulator {

/// Of each actor, the time up to which its doings are known; and those of them whose
/// writes the asynchronous proxy sees.
struct Knowledge {
  std::vector<unsigned> seen, fenced;

  bool has(unsigned actor, unsigned time) const {
    return actor < seen.size() && seen[actor] >= time;
  }
  bool hasFenced(unsigned actor, unsigned time) const {
    return actor < fenced.size() && fenced[actor] >= time;
  }
  void add(unsigned actor, unsigned time);
  /// Knows then what either knows.
  void join(const Knowledge &other);
  /// Knows then what both know.
  void meet(const Knowledge &other);
  /// Whether joining the other changes nothing.
  bool covers(const Knowledge &other) const;
};
using SharedKnowledge = std::shared_ptr<const Knowledge>;

class Clocks {
public:
  static constexpr unsigned lanes = 32;

  /// For the threads of a cluster's blocks, one block's after the other's. The first block has
  /// number `firstBlock`.
  void reset(unsigned blocks, unsigned threadsPerBlock, unsigned firstBlock);
  /// The first of `count` actors that follow each other, less than 32 of them.
  unsigned addActors(const std::string &name, unsigned count);
  std::string nameOf(unsigned actor) const;
  bool isThread(unsigned actor) const { return actor < known.size(); }
  /// " of block 3"; nothing where the cluster has one block.
  std::string blockOf(unsigned thread) const;

  unsigned timeOf(unsigned thread) const { return times[thread / lanes]; }
  /// Besides itself.
  const Knowledge &knownTo(unsigned thread) const { return *known[thread]; }
  /// With what it did itself.
  Knowledge knowledgeOf(unsigned thread) const;
  /// `fence.proxy.async`
  void fence(unsigned thread);

  /// Adds what some threads know and have done to `to`; what they do from here on is later.
  void publish(unsigned first, unsigned count, Knowledge &to);
  void learn(unsigned first, unsigned count, const SharedKnowledge &what);
  /// What each of several threads knows of the others and of the rest.
  Knowledge commonTo(unsigned first, unsigned count) const;
  void passWarpBarrier(unsigned warp);

private:
  std::vector<SharedKnowledge> known; // by thread
  std::vector<unsigned> fencedAt;     // by thread
  std::vector<unsigned> times;        // by warp, for all its threads
  // Of the last that learned: others that knew the same know the same afterwards.
  SharedKnowledge before, learned, after;
  std::vector<std::string> names; // of actors that are no threads
  unsigned threadsPerBlock = 0, firstBlock = 0;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_CLOCKS_H
