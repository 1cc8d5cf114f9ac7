//===- TileRings.h - rings and roles while a program runs ---------*- C++ -*-===//
#ifndef EJK_DIALECT_REFERENCE_TILERINGS_H
#define EJK_DIALECT_REFERENCE_TILERINGS_H

#include "mlir/IR/Operation.h"
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ejk::reference {

/// The rows or cells behind one of a program's arguments, for one sequence and
/// head.
struct TileMemory {
  double *data = nullptr; // of row or cell 0
  int64_t count = 0;
  size_t stride = 0; // elements from one to the next
};

/// A stage has an item from its acquire on. Its rows arrive as late as they may:
/// when they are taken.
struct TileRing {
  enum class State { free, acquired, filled, taken };
  struct Copy {
    TileMemory rows;
    int64_t row, channel, channels;
  };
  struct Stage {
    State state = State::free;
    int64_t item = -1; // the last one
    std::vector<Copy> copies;
  };
  std::vector<Stage> stages;

  Stage &stageOf(int64_t item) { return stages[item % stages.size()]; }
  bool has(int64_t item, State state) {
    Stage &stage = stageOf(item);
    return stage.item == item && stage.state == state;
  }
};

/// Lets roles run by turns, each on a host thread of its own, of which one alone runs
/// at any time.
class RoleScheduler {
public:
  struct Role {
    std::string name;
    std::function<bool()> body; // false where it fails
    // Where it waits, for what, and whether it need not any more.
    mlir::Operation *at = nullptr;
    std::string what = {};
    std::function<bool()> ready = {};
    bool ended = false;
  };

  /// Without a seed, a role keeps its turn until it must wait.
  RoleScheduler(std::vector<Role> roles, std::optional<uint64_t> seed);
  /// Whether all roles ended well.
  bool run();
  /// Called by a role: returns when `ready` is true and it is this one's turn, or
  /// false where that will never be.
  bool wait(mlir::Operation *at, std::string what, std::function<bool()> ready);
  /// After `run`: those that wait, where none could go on.
  llvm::ArrayRef<const Role *> stuck() const { return stuckRoles; }

private:
  /// Gives the turn to one that can go on; the lock is held.
  void passOn();

  std::vector<Role> roles;
  std::vector<const Role *> stuckRoles;
  std::optional<std::mt19937_64> random;
  std::mutex mutex;
  std::condition_variable changed;
  size_t turn = 0;
  bool stopped = false;
};

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_TILERINGS_H
