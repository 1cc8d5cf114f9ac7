//===- StepProgram.h - a scan's region as a flat list of actions --*- C++ -*-===//
//
// A scan's step runs millions of times, so its region is compiled once: each value gets a slot in a
// flat frame, and each op becomes one action on slots. Each thread runs the actions on its own
// frame. To add a step op, write its compile function in StepProgram.cpp and list it in the table
// there.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_STEPPROGRAM_H
#define EJK_DIALECT_REFERENCE_STEPPROGRAM_H

#include "dialect/reference/Elementwise.h"
#include "dialect/reference/Handlers.h"

namespace ejk::reference {

/// What the i-th of several is called in errors.
inline std::string indexed(llvm::StringRef what, size_t i) {
  return (what + " " + llvm::Twine(i)).str();
}

/// A value's elements in a frame.
struct Slot {
  bool isInt = false;
  size_t offset = 0, size = 0;
  bool operator==(const Slot &other) const {
    return isInt == other.isInt && offset == other.offset;
  }
};

/// One thread's values.
struct Frame {
  std::vector<double> floats;
  std::vector<int64_t> ints;
  int64_t head = 0, numHeads = 0;
  /// The step's row in the sequence.
  int64_t stepIndex = 0;
  /// Whether the step is the first, in scan order, of the rows that share a saved state.
  bool entersChunk = false;
  /// Whether the step's row is the sequence's first, or last.
  bool inFirstRow = false, inLastRow = false;

  double *at(Slot slot) { return floats.data() + slot.offset; }
  Row row(Slot slot) {
    return slot.isInt ? Row{nullptr, ints.data() + slot.offset}
                      : Row{floats.data() + slot.offset, nullptr};
  }
};

class StepProgram {
public:
  using Action = std::function<void(Frame &)>;

  static mlir::FailureOr<StepProgram> compile(ScanOp scan, Precision precision);

  /// Creates a frame with the constants filled in.
  Frame makeFrame() const;
  /// Computes one step from its arguments.
  void run(Frame &frame) const {
    for (const Action &action : actions)
      action(frame);
  }
  /// Copies the yielded states to the state arguments of the next step.
  void advanceStates(Frame &frame) const;

  /// The slots of the region's arguments and of the yielded values, in order.
  llvm::ArrayRef<Slot> sequences() const { return sequenceSlots; }
  llvm::ArrayRef<Slot> queries() const { return querySlots; }
  llvm::ArrayRef<Slot> parameters() const { return parameterSlots; }
  llvm::ArrayRef<Slot> states() const { return stateSlots; }
  llvm::ArrayRef<Slot> outputs() const { return outputSlots; }
  llvm::ArrayRef<Slot> savedStates() const { return savedSlots; }
  llvm::ArrayRef<Slot> saves() const { return saveSlots; }

private:
  friend class StepCompiler;
  std::vector<Action> actions;
  std::vector<std::pair<Slot, Tensor>> constants;
  std::vector<Slot> sequenceSlots, querySlots, parameterSlots, stateSlots, yieldedSlots,
      outputSlots, savedSlots, saveSlots;
  /// Temporary copies of yielded states while others are copied.
  std::vector<Slot> waitingSlots;
  size_t numFloats = 0, numInts = 0;
};

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_STEPPROGRAM_H
