//===- TileRings.h - execution of rings and partitions -----------------*- C++ -*-===//
#ifndef EJK_DIALECT_REFERENCE_TILERINGS_H
#define EJK_DIALECT_REFERENCE_TILERINGS_H

#include "mlir/IR/Operation.h"
#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ejk::reference {

/// The rows or state slots of one program argument, for one sequence and head.
struct TileMemory {
  double *data = nullptr; // of row or slot 0
  int64_t count = 0;
  size_t stride = 0; // elements from one to the next
};

/// A ring. A stage belongs to an item from its acquire on. Copies arrive as late as they may: when
/// the item is taken. Each partition that takes items is a taker, and the stage is free when all
/// takers have released it.
struct TileRing {
  enum class State { free, acquired, filled };
  enum class Use { none, taken, released };
  struct Copy {
    TileMemory rows;
    int64_t row, channel, channels;
  };
  struct Stage {
    State state = State::free;
    int64_t item = -1; // the latest
    std::vector<Copy> copies;
    std::vector<std::vector<double>> tiles; // that were put
    std::vector<Use> uses;                  // by taker
  };
  std::vector<Stage> stages;
  size_t numTakers = 1;

  Stage &stageOf(int64_t item) { return stages[item % stages.size()]; }
  bool has(int64_t item, State state) {
    Stage &stage = stageOf(item);
    return stage.item == item && stage.state == state;
  }
  bool isTaken(int64_t item, size_t taker) {
    return has(item, State::filled) && stageOf(item).uses[taker] == Use::taken;
  }
  void release(int64_t item, size_t taker) {
    Stage &stage = stageOf(item);
    stage.uses[taker] = Use::released;
    if (std::all_of(stage.uses.begin(), stage.uses.end(),
                    [](Use use) { return use == Use::released; }))
      stage.state = State::free;
  }
};

/// Runs partitions alternately, each on its own host thread. Only one of them runs at any time.
class PartitionScheduler {
public:
  struct Partition {
    std::string name;
    std::function<bool()> body; // returns false on an error
    // The op that waits, what for, and whether it can go on.
    mlir::Operation *at = nullptr;
    std::string what = {};
    std::function<bool()> ready = {};
    bool ended = false;
  };

  /// Without a seed, a partition runs until it must wait.
  PartitionScheduler(std::vector<Partition> partitions, std::optional<uint64_t> seed);
  /// Runs all partitions. Returns whether all ended without an error.
  bool run();
  /// Called by a partition. Returns true when `ready` is true and the partition may run, or false
  /// if that will never happen.
  bool wait(mlir::Operation *at, std::string what, std::function<bool()> ready);
  /// After `run`: the partitions in a deadlock, if any.
  llvm::ArrayRef<const Partition *> stuck() const { return stuckPartitions; }
  /// After `run`: the partitions that the system started no thread for.
  size_t notStarted() const { return withoutThread; }

private:
  /// Selects the next partition that can run. The caller has the lock.
  void passOn();

  std::vector<Partition> partitions;
  std::vector<const Partition *> stuckPartitions;
  std::optional<std::mt19937_64> random;
  std::mutex mutex;
  std::condition_variable changed;
  size_t turn = 0, withoutThread = 0;
  bool stopped = false;
};

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_TILERINGS_H
