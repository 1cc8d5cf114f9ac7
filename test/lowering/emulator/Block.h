//===- Block.h - one thread block at work -------------------------*- C++ -*-===//
//
// Warps take turns in random order, for a random number of instructions each. The
// lanes of a warp that stand at the same instruction execute it together; of
// several places the first in the program goes first, which brings lanes back
// together after a branch. What lanes do together (shuffles, ldmatrix, mma, barriers)
// faults where some of them never come.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_BLOCK_H
#define EJK_TEST_EMULATOR_BLOCK_H

#include "SharedMemory.h"
#include <random>

namespace emulator {

/// Allocated global memory; anything else faults.
class GlobalMemory {
public:
  virtual ~GlobalMemory() = default;
  virtual void check(uint64_t address, unsigned bytes) const = 0;
};

struct Launch {
  const Kernel *kernel;
  std::vector<uint64_t> arguments;
  unsigned blocks, threads, sharedBytes;
};

/// What a launch did, by opcode: instructions of warps, and how many times shared
/// memory had to answer (once for 32 lanes whose 4-byte words lie in 32 banks).
struct Statistics {
  std::map<std::string, uint64_t> executed, answers;
};

class Block {
public:
  Block(const Launch &launch, const GlobalMemory &global, unsigned seed, Statistics *statistics)
      : launch(launch), kernel(*launch.kernel), global(global), random(seed),
        statistics(statistics) {}

  /// Runs block `number` to its end; throws Fault.
  void run(unsigned number);

private:
  static constexpr unsigned lanes = 32;
  struct Copy {
    uint64_t to, from;
    unsigned bytes, source, group;
  };
  struct Lane {
    unsigned place = 0; // in the program
    enum { running, atWarp, atBlock, gone } state = running;
    std::vector<Copy> copies;
    unsigned groups = 0;
  };
  struct Warp {
    unsigned number;
    std::vector<uint64_t> registers; // a register's 32 lanes side by side
    Lane lane[lanes];
  };
  using Mask = uint32_t;

  /// Executes an instruction; false where no lane can go on alone.
  bool step(Warp &warp);
  void execute(Warp &warp, const Instruction &instruction, Mask active);
  void branch(Warp &warp, const Instruction &instruction, Mask active);
  /// Whether all lanes that are left have come to where `active` are.
  bool isTogether(const Warp &warp, Mask active) const;
  bool passBarrier();

  void compute(Warp &warp, const Instruction &instruction, Mask active);
  void move(Warp &warp, const Instruction &instruction, unsigned lane);
  void loadOrStore(Warp &warp, const Instruction &instruction, unsigned lane);
  void copyAsync(Warp &warp, const Instruction &instruction, unsigned lane);
  void waitForCopies(Warp &warp, const Instruction &instruction, unsigned lane);
  void shuffle(Warp &warp, const Instruction &instruction);
  void loadMatrices(Warp &warp, const Instruction &instruction);
  void multiplyMatrices(Warp &warp, const Instruction &instruction);
  void count(Warp &warp, const Instruction &instruction, Mask active);

  uint64_t get(const Warp &warp, const Operand &operand, unsigned lane) const;
  void set(Warp &warp, const Operand &operand, unsigned lane, uint64_t value) {
    warp.registers[operand.index * lanes + lane] = value;
  }
  int threadOf(const Warp &warp, unsigned lane) const { return int(warp.number * lanes + lane); }

  const Launch &launch;
  const Kernel &kernel;
  const GlobalMemory &global;
  std::mt19937 random;
  Statistics *statistics;
  SharedMemory shared;
  std::vector<Warp> warps;
  unsigned block = 0;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_BLOCK_H
