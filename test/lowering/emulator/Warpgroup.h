//===- Warpgroup.h - products that a warpgroup has under way ------*- C++ -*-===//
//
// A wgmma goes on from its issue until a wait for its group. Till then its accumulators
// belong to it, or to others with the same ones, which go in order; and nobody may write
// A's registers. What was in these registers before is there for it after a
// `wgmma.fence`. What a warp waits for is its own part: whoever writes what a wgmma reads
// must come after the waits of all four warps. Here it computes at the wait: as late as it may.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_WARPGROUP_H
#define EJK_TEST_EMULATOR_WARPGROUP_H

#include "Clocks.h"
#include "Ptx.h"
#include <deque>

namespace emulator {

struct Product {
  const Instruction *instruction;
  uint64_t a, b; // descriptors, of A where it is in memory
  bool accumulates;
  unsigned time; // of the warpgroup's tensor cores

  bool hasAInRegisters() const { return instruction->operands[1].size() == 4; }
};

class Warpgroup {
public:
  static constexpr unsigned warps = 4, threads = warps * Clocks::lanes;

  /// `firstOfBlock` is the block's first thread in the cluster.
  Warpgroup(unsigned number, unsigned firstOfBlock, const Kernel &kernel, Clocks &clocks);

  unsigned firstWarp() const { return number * warps; }
  /// In the cluster.
  unsigned firstThread() const { return firstOfBlock + number * threads; }
  /// The tensor cores of the first warp; those of the others follow.
  unsigned coresActor() const { return cores; }
  /// Of each thread; 0 where it is not known, and setmaxnreg does nothing.
  unsigned threadRegisters;
  bool isBusy() const { return !open.empty() || !groups.empty(); }

  /// Of an instruction, other than a wgmma, that one of the warps is about to execute.
  void checkRegisters(unsigned warp, const Instruction &instruction);
  void fence();
  /// Gives the product its time.
  void start(Product &product);
  void commit();
  /// Takes out those of all groups but the last `left`, in order.
  std::vector<Product> finish(uint64_t left);

private:
  void checkStart(const Product &product) const;
  [[noreturn]] void fault(unsigned reg, const std::string &what, unsigned line) const;

  unsigned number, firstOfBlock, cores, time = 0;
  const Kernel &kernel;
  std::vector<Product> open; // of no group yet
  std::deque<std::vector<Product>> groups;
  bool hasFence = false;
  // By register.
  std::vector<unsigned> writtenOn[warps]; // the line, since the last fence; 0 for none
  std::vector<std::vector<const Instruction *>> accumulating, reading;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_WARPGROUP_H
