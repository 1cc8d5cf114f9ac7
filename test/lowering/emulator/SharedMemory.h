//===- SharedMemory.h - a block's shared memory, watched ----------*- C++ -*-===//
//
// Remembers of every two bytes who last wrote and read them, and faults where two
// threads touch the same ones, one of them to write, with no barrier between: of the
// block, or for threads of one warp of that. What a thread writes over with the
// same bits in the same stretch between barriers counts as one write.
//
// An asynchronous copy may write at any moment from its start to the wait for it;
// here it writes at the wait. Whoever touches its bytes before then faults.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_SHAREDMEMORY_H
#define EJK_TEST_EMULATOR_SHAREDMEMORY_H

#include "Ptx.h"
#include <cstdint>
#include <vector>

namespace emulator {

class SharedMemory {
public:
  /// Forgets all, for the next block.
  void reset(unsigned bytes, unsigned warps);

  /// The line of the program that what follows is on, for what is said of faults.
  void setLine(unsigned number) { now.line = number; }
  /// Of `bytes` at an address of shared memory's window, by a thread of the block.
  void read(uint64_t address, void *to, unsigned bytes, int thread);
  void write(uint64_t address, const void *from, unsigned bytes, int thread);
  void startCopy(uint64_t address, unsigned bytes, int thread);
  void endCopy(uint64_t address, const void *from, unsigned bytes, int thread);

  void passBarrier() { ++now.block; }
  void passWarpBarrier(int warp) { ++warpTimes[warp]; }

private:
  struct Time {
    unsigned block = 0, warp = 0; // barriers passed
    unsigned line = 0;
  };
  static constexpr int nobody = -1, severalWarps = -2, severalLanes = -3; // less the warp
  struct Cell {
    int writer = nobody, reader = nobody, copier = nobody;
    Time written, read;
    bool isSet = false;
  };

  Cell *cellsAt(uint64_t address, unsigned bytes, const char *what);
  static int warpOf(int thread) { return thread / 32; }
  /// Whether what `earlier` did at `then` is over for `thread`.
  bool isOver(int earlier, Time then, int thread) const;
  Time timeOf(int thread) const { return {now.block, warpTimes[warpOf(thread)], now.line}; }
  void noteRead(Cell &cell, int thread);
  [[noreturn]] void fault(uint64_t address, int thread, const std::string &what, int other,
                          unsigned line = 0) const;

  std::vector<unsigned char> data;
  std::vector<Cell> cells;
  std::vector<unsigned> warpTimes;
  Time now;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_SHAREDMEMORY_H
