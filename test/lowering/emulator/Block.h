//===- Block.h - one thread block at work -------------------------*- C++ -*-===//
//
// Warps take turns in random order, for a random number of instructions each. The
// lanes of a warp that stand at the same instruction execute it together; of
// several places the first in the program goes first, which brings lanes back
// together after a branch. What lanes do together (shuffles, ldmatrix, mma, barriers)
// faults where some of them never come, and so does what four warps do together. What
// comes by itself (bulk copies, arrivals of copies) comes at a random moment, and as
// late as it may where every warp waits. Where nothing is to come in any block of the cluster,
// that is a deadlock.
//
// A block may reach the shared memory of the others of its cluster. A block's memory is gone with
// the block's last thread, so a block may end only after each visit that others pay to its memory.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_BLOCK_H
#define EJK_TEST_EMULATOR_BLOCK_H

#include "Mbarriers.h"
#include "SharedMemory.h"
#include "TensorMap.h"
#include "Warpgroup.h"
#include <functional>
#include <map>
#include <random>
#include <unordered_map>

namespace emulator {

/// Allocated global memory; anything else faults.
class GlobalMemory {
public:
  virtual ~GlobalMemory() = default;
  virtual void check(uint64_t address, unsigned bytes) const = 0;
};

/// Sums in global memory to which several blocks add: the first one stores its term, and the others
/// add theirs in the order of their numbers.
class Sums {
public:
  /// Notes that block `block` stores or adds 4 bytes; faults where it is not its turn.
  void store(uint64_t address, unsigned block) { last[address] = block; }
  void add(uint64_t address, unsigned block);

private:
  std::unordered_map<uint64_t, unsigned> last; // block that has stored or added, by address
};

struct Launch {
  const Kernel *kernel;
  std::vector<Argument> arguments;
  unsigned blocks, threads, sharedBytes;
};

/// What a launch did, by opcode: instructions of warps, and how many times shared
/// memory had to answer (once for 32 lanes whose 4-byte words lie in 32 banks).
struct Statistics {
  std::map<std::string, uint64_t> executed, answers;
};

/// Between global memory and shared memory.
struct BulkCopy {
  bool isTensor; // by `map`
  uint64_t inShared, inGlobal, mbarrier;
  unsigned bytes, group;
  TensorMap map;
  int coordinates[5];
};

class Cluster;

/// What all blocks of a launch share. `sums` is null where no block adds to what another
/// has stored.
struct LaunchContext {
  const Launch &launch;
  const GlobalMemory &global;
  Statistics *statistics;
  Sums *sums;
};

class Block {
public:
  /// The block's place in its cluster is `rank`.
  Block(Cluster &cluster, unsigned rank, const LaunchContext &context, unsigned seed);

  void begin(unsigned number);
  /// One turn of a warp, or what comes by itself; Turn::none where there is neither.
  enum class Turn { none, polled, little, much };
  Turn goOn();

  bool hasEnded() const { return !left; }
  /// Throws Fault where copies, bulk stores or wgmma of threads that have ended are under way.
  void checkEnd() const;
  /// Which warps wait, and where.
  std::string describeWaiting() const;
  /// Says of a barrier that only some threads come to it; nothing where there is none.
  std::string describePartialBarrier() const;
  /// Lets those go on that wait at the cluster's barrier.
  void passClusterBarrier();

private:
  static constexpr unsigned lanes = Clocks::lanes;
  struct Copy {
    uint64_t to, from;
    unsigned bytes, source, group;
    unsigned arrival; // that is to report it, 0 for none
    bool hasLanded;
  };
  struct Lane {
    unsigned place = 0; // in the program
    enum {
      running,
      atWarp,
      atGroup,
      atBarrier,
      atMbarrier,
      atClusterBarrier,
      gone
    } state = running;
    uint64_t mbarrier = 0; // that it waits at
    std::vector<Copy> copies;
    unsigned groups = 0;
    unsigned arrivals = 0, copyActor = 0; // for copies that an mbarrier is told of
    std::vector<BulkCopy> stores;
    unsigned bulkGroups = 0, storeActor = 0;
    unsigned clusterArrivals = 0, clusterWaits = 0; // at the cluster's barrier
  };
  struct Warp {
    unsigned number;
    std::vector<uint64_t> registers; // a register's 32 lanes side by side
    Lane lane[lanes];
    unsigned barrier = 0;   // that its lanes wait at
    bool hasPolled = false; // in vain, by its last instruction
  };
  /// One of the 16 that threads of a block wait at.
  struct Barrier {
    unsigned expected = 0, arrived = 0;
    bool isTrueOfAll = true; // what the threads ask at a reduction
    Knowledge brought;
  };
  /// What comes by itself some time.
  struct Event {
    const Instruction *instruction;
    unsigned warp; // that issued it
    std::function<void()> land;
  };
  /// The last time that an actor of another block touched this one's memory.
  struct Visit {
    unsigned time, line;
  };
  using Mask = uint32_t;

  /// Those with a lane that can go on.
  bool findAble(std::vector<Warp *> &able);
  /// Executes an instruction; false where no lane can go on alone.
  bool step(Warp &warp);
  void execute(Warp &warp, const Instruction &instruction, Mask active);
  /// Runs `act` on behalf of an instruction, which its faults then name.
  template <typename Act> void attribute(const Instruction &instruction, unsigned warp, Act act);
  void landOne();
  void executeTogether(Warp &warp, const Instruction &instruction, Mask active);
  void executeAlone(Warp &warp, const Instruction &instruction, unsigned lane);
  /// The lanes whose predicate holds.
  Mask chosen(const Warp &warp, const Instruction &instruction, Mask active) const;
  /// Whether all lanes that are left have come to where `active` are.
  bool isTogether(const Warp &warp, Mask active) const;
  void compute(Warp &warp, const Instruction &instruction, Mask active);
  void move(Warp &warp, const Instruction &instruction, unsigned lane);
  void loadOrStore(Warp &warp, const Instruction &instruction, unsigned lane);
  void addInMemory(Warp &warp, const Instruction &instruction, unsigned lane);
  void copyAsync(Warp &warp, const Instruction &instruction, unsigned lane);
  void waitForCopies(Warp &warp, const Instruction &instruction, unsigned lane);

  void land(Copy &copy, const Access &access);
  void loadParameter(Warp &warp, const Instruction &instruction, unsigned lane);

  void arriveAtMbarrier(Warp &warp, const Instruction &instruction, unsigned lane);
  void prepareMbarrier(Warp &warp, const Instruction &instruction, unsigned lane);
  void arriveAfterCopies(Warp &warp, const Instruction &instruction, unsigned lane);
  void waitAtMbarrier(Warp &warp, const Instruction &instruction, Mask active);
  void wake(uint64_t mbarrier);

  /// The block of the cluster in whose memory an instruction's address lies, which becomes one of
  /// that block's own window.
  Block &blockAt(const Instruction &instruction, uint64_t &address);
  /// An actor touches this block's memory. It is a thread, or works for that thread. Only threads
  /// of other blocks count.
  void noteVisit(unsigned thread, unsigned actor, unsigned time);
  void mapAddress(Warp &warp, const Instruction &instruction, unsigned lane);
  void comeToClusterBarrier(Warp &warp, const Instruction &instruction, Mask active);
  void leave(Warp &warp, unsigned lane);
  void checkVisits();

  BulkCopy bulkCopy(Warp &warp, const Instruction &instruction, unsigned lane,
                    const std::vector<Operand> &inGlobal, uint64_t inShared) const;
  void checkGlobal(uint64_t address, int from, int to) const;
  void startBulkLoad(Warp &warp, const Instruction &instruction, unsigned lane);
  void landBulkLoad(const BulkCopy &copy, Block &target);
  void startBulkStore(Warp &warp, const Instruction &instruction, unsigned lane);
  void waitForBulkStores(Warp &warp, const Instruction &instruction, unsigned lane);

  void shuffle(Warp &warp, const Instruction &instruction);
  void elect(Warp &warp, const Instruction &instruction);
  void loadMatrices(Warp &warp, const Instruction &instruction);
  void storeMatrices(Warp &warp, const Instruction &instruction);
  void transposeMatrix(Warp &warp, const Instruction &instruction);
  void multiplyMatrices(Warp &warp, const Instruction &instruction);
  void comeToBarrier(Warp &warp, const Instruction &instruction);
  void count(Warp &warp, const Instruction &instruction, Mask active);

  /// Of a warp that has come to what its warpgroup does: does it if it is the last.
  void comeToGroup(Warp &warp, const Instruction &instruction);
  /// The instruction that all four warps have come to; null where they have not.
  const Instruction *togetherAt(const Warpgroup &group) const;
  void advance(const Warpgroup &group);
  void setRegisters(Warpgroup &group, const Instruction &instruction);
  void giveRegisters();
  void startProduct(Warpgroup &group, const Instruction &instruction);
  void waitForProducts(Warpgroup &group, const Instruction &instruction);
  void finishProduct(const Warpgroup &group, const Product &product);
  uint64_t getFromGroup(const Warpgroup &group, const Operand &operand) const;

  uint64_t get(const Warp &warp, const Operand &operand, unsigned lane) const;
  void set(Warp &warp, const Operand &operand, unsigned lane, uint64_t value) {
    warp.registers[operand.index * lanes + lane] = value;
  }
  /// In the cluster.
  unsigned threadOf(const Warp &warp, unsigned lane) const {
    return firstThread + warp.number * lanes + lane;
  }

  Cluster &cluster;
  const unsigned rank, firstThread; // in the cluster
  const Launch &launch;
  const Kernel &kernel;
  const GlobalMemory &global;
  std::mt19937 random;
  Statistics *statistics;
  Sums *sums;
  Clocks &clocks; // of the cluster
  SharedMemory shared;
  Mbarriers mbarriers;
  std::vector<Event> underWay;
  bool hasPolled = false; // without success, at an mbarrier or in global memory, in this turn
  unsigned left = 0;      // threads that have not ended
  std::map<unsigned, Visit> visits; // by actor
  unsigned elected = 0;             // the lane of each warp
  unsigned freeRegisters = 0;       // that setmaxnreg.dec has left, for each of 128 threads
  std::vector<Warp> warps;
  std::vector<Warpgroup> groups; // empty where the warps are no multiple of four
  std::vector<Barrier> barriers;
  unsigned block = 0;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_BLOCK_H
