//===- Block.h - one thread block at work -------------------------*- C++ -*-===//
//
// Warps take turns in random order, for a random number of instructions each. The
// lanes of a warp that stand at the same instruction execute it together; of
// several places the first in the program goes first, which brings lanes back
// together after a branch. What lanes do together (shuffles, ldmatrix, mma, barriers)
// faults where some of them never come, and so does what four warps do together.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_BLOCK_H
#define EJK_TEST_EMULATOR_BLOCK_H

#include "SharedMemory.h"
#include "Warpgroup.h"
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
        statistics(statistics), shared(clocks) {}

  /// Runs block `number` to its end; throws Fault.
  void run(unsigned number);

private:
  static constexpr unsigned lanes = Clocks::lanes;
  struct Copy {
    uint64_t to, from;
    unsigned bytes, source, group;
  };
  struct Lane {
    unsigned place = 0; // in the program
    enum { running, atWarp, atGroup, atBarrier, gone } state = running;
    std::vector<Copy> copies;
    unsigned groups = 0;
  };
  struct Warp {
    unsigned number;
    std::vector<uint64_t> registers; // a register's 32 lanes side by side
    Lane lane[lanes];
    unsigned barrier = 0; // that its lanes wait at
  };
  /// One of the 16 that threads of a block wait at.
  struct Barrier {
    unsigned expected = 0, arrived = 0;
    Knowledge brought;
  };
  using Mask = uint32_t;

  /// Those with a lane that can go on.
  bool findAble(std::vector<Warp *> &able);
  /// Executes an instruction; false where no lane can go on alone.
  bool step(Warp &warp);
  void execute(Warp &warp, const Instruction &instruction, Mask active);
  void executeTogether(Warp &warp, const Instruction &instruction, Mask active);
  void executeAlone(Warp &warp, const Instruction &instruction, unsigned lane);
  /// The lanes whose predicate holds.
  Mask chosen(const Warp &warp, const Instruction &instruction, Mask active) const;
  /// Whether all lanes that are left have come to where `active` are.
  bool isTogether(const Warp &warp, Mask active) const;
  void checkEnd();
  /// Says why nothing goes on any more.
  [[noreturn]] void failStuck() const;

  void compute(Warp &warp, const Instruction &instruction, Mask active);
  void move(Warp &warp, const Instruction &instruction, unsigned lane);
  void loadOrStore(Warp &warp, const Instruction &instruction, unsigned lane);
  void copyAsync(Warp &warp, const Instruction &instruction, unsigned lane);
  void waitForCopies(Warp &warp, const Instruction &instruction, unsigned lane);

  void shuffle(Warp &warp, const Instruction &instruction);
  void loadMatrices(Warp &warp, const Instruction &instruction);
  void storeMatrices(Warp &warp, const Instruction &instruction);
  void transposeMatrix(Warp &warp, const Instruction &instruction);
  void multiplyMatrices(Warp &warp, const Instruction &instruction);
  void comeToBarrier(Warp &warp, const Instruction &instruction);
  void count(Warp &warp, const Instruction &instruction, Mask active);

  /// Of a warp that has come to what its warpgroup does: does it if it is the last.
  void comeToGroup(Warp &warp, const Instruction &instruction);
  void startProduct(Warpgroup &group, const Instruction &instruction);
  void waitForProducts(Warpgroup &group, const Instruction &instruction);
  void finishProduct(const Warpgroup &group, const Product &product);
  uint64_t getFromGroup(const Warpgroup &group, const Operand &operand) const;

  uint64_t get(const Warp &warp, const Operand &operand, unsigned lane) const;
  void set(Warp &warp, const Operand &operand, unsigned lane, uint64_t value) {
    warp.registers[operand.index * lanes + lane] = value;
  }
  unsigned threadOf(const Warp &warp, unsigned lane) const { return warp.number * lanes + lane; }

  const Launch &launch;
  const Kernel &kernel;
  const GlobalMemory &global;
  std::mt19937 random;
  Statistics *statistics;
  Clocks clocks;
  SharedMemory shared;
  std::vector<Warp> warps;
  std::vector<Warpgroup> groups; // empty where the warps are no multiple of four
  std::vector<Barrier> barriers;
  unsigned block = 0;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_BLOCK_H
