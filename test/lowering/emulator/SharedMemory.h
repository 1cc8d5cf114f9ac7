//===- SharedMemory.h - a block's shared memory, watched ----------*- C++ -*-===//
//
// Remembers of every two bytes who last wrote and read them, and faults where two
// actors touch the same ones, one of them to write, and nothing orders the two. What a
// thread writes over with the same bits, unordered, counts as one write.
//
// An asynchronous copy may write at any moment from its start to the wait for it;
// here it writes at the wait. Whoever touches its bytes before then faults. What goes
// through the asynchronous proxy must find what threads wrote fenced.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_SHAREDMEMORY_H
#define EJK_TEST_EMULATOR_SHAREDMEMORY_H

#include "Clocks.h"
#include "Ptx.h"
#include <cstdint>
#include <vector>

namespace emulator {

/// Who touches memory, when, and what is over for it.
struct Access {
  unsigned actor, time;
  const Knowledge *known;
  /// Through the proxy of tensor cores and bulk copies.
  bool isAsync = false;
  /// Actors that do it together, from `actor` on.
  unsigned actors = 1;
};

class SharedMemory {
public:
  /// `line` is the line of the program that is executed, for what is said of faults.
  SharedMemory(const Clocks &clocks, const unsigned &line) : clocks(clocks), line(line) {}

  /// Forgets all, for the next block. Faults name the memory by `ofBlock`, as in " of block 3".
  void reset(unsigned bytes, const std::string &ofBlock);
  /// "byte 64 of shared memory"
  std::string nameOf(uint64_t address) const;
  /// Of `bytes` at an address of shared memory's window, by a thread of the cluster.
  void read(uint64_t address, void *to, unsigned bytes, unsigned thread);
  void write(uint64_t address, const void *from, unsigned bytes, unsigned thread);
  /// What a copy brings, from its start to its end.
  void startCopy(uint64_t address, unsigned bytes, const Access &access);
  void endCopy(uint64_t address, const void *from, unsigned bytes, const Access &access);
  /// A read that goes on for a while: until others know of the time of `access`.
  void startRead(uint64_t address, unsigned bytes, const Access &access);
  /// 8 bytes for an mbarrier, which ordinary instructions and copies must not touch.
  void reserve(uint64_t address, unsigned thread);
  void unreserve(uint64_t address, unsigned thread);
  void checkReserved(uint64_t address, unsigned thread);
  /// What a read finds that has started.
  void peek(uint64_t address, void *to, unsigned bytes) const;

  Access by(unsigned thread) const {
    return {thread, clocks.timeOf(thread), &clocks.knownTo(thread)};
  }

private:
  static constexpr unsigned nobody = ~0u;
  /// Up to 32 actors side by side that read at the same time.
  struct Readers {
    unsigned row, time;
    uint32_t lanes;
    unsigned line;
  };
  struct Cell {
    unsigned writer = nobody, copier = nobody;
    unsigned written = 0, line = 0; // when and where
    bool isAsync = false;           // written through the asynchronous proxy
    bool isSet = false, isReserved = false;
    std::vector<Readers> readers; // since the last write
  };

  Cell *cellsAt(uint64_t address, unsigned bytes, const char *what);
  bool knows(const Access &access, unsigned actor, unsigned time) const;
  bool knows(const Access &access, const Readers &readers) const;
  void checkRead(const Cell &cell, uint64_t address, const Access &access) const;
  void checkNotReserved(const Cell &cell, uint64_t address, const Access &access) const;
  void checkUnread(const Cell &cell, uint64_t address, const Access &access,
                   const char *what) const;
  void noteRead(Cell &cell, const Access &access);
  [[noreturn]] void fault(uint64_t address, const Access &access, const std::string &what,
                          unsigned other = nobody, unsigned line = 0) const;

  const Clocks &clocks;
  const unsigned &line;
  std::vector<unsigned char> data;
  std::vector<Cell> cells;
  std::string ofBlock;
};

} // namespace emulator

#endif // EJK_TEST_EMULATOR_SHAREDMEMORY_H
