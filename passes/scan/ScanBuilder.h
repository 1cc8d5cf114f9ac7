//===- ScanBuilder.h - build a scan from its step ------------------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANBUILDER_H
#define EJK_PASSES_SCAN_SCANBUILDER_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace ejk {

/// Builds a scan while its step is written. Tensors that the step needs become operands, and values
/// that it produces become outputs. `b` inserts into the step.
class ScanBuilder {
public:
  /// Scans in the direction of `model`, or in the other one with `turned`. The first sequence is
  /// that of the model, or `first`, because it determines the number of heads: the model's, unless the
  /// scan has no states.
  ScanBuilder(mlir::OpBuilder &outer, ScanOp model, bool turned = false, mlir::Value first = {});

  /// Divides the sequences into segments, where the model does not; before any state is added.
  void divide(SegmentsAttr into) { segments = into; }
  /// Leaves rows of the segments out.
  void leaveOut(TrailingRows kept) { trailing = kept; }
  mlir::Value addSequence(mlir::Value tensor);
  /// The tensor whose rows are `arg` in the step; null if `arg` is no sequence.
  mlir::Value sequenceOf(mlir::Value arg);
  mlir::Value addParameter(mlir::Value tensor, mlir::Type stepType);
  /// Adds a saved state of a scan in the other direction, which saved it every `every` rows.
  mlir::Value addSavedState(mlir::Value tensor, int64_t every);
  /// Adds a state; `initial` is null for zero. Returns the step's argument.
  mlir::Value addState(mlir::RankedTensorType type, mlir::Value initial);
  /// Sets the next value of the state with argument `arg`.
  void setNext(mlir::Value arg, mlir::Value next);
  /// Adds an output. Returns its index.
  unsigned addOutput(mlir::Value stepValue);
  /// Saves a K×V value of the step every `every` rows. Returns the index of the save.
  unsigned addSave(mlir::Value stepValue, int64_t every, mlir::RankedTensorType type);

  /// The tensor types of an output and of a state, [N,H,channels…].
  mlir::RankedTensorType outputType(mlir::Type stepType);
  mlir::RankedTensorType stateType(mlir::Type stepType);
  /// [slots,H,K,V] for a K×V value, with elements of `element`.
  mlir::RankedTensorType saveType(mlir::Type stepType, mlir::Type element);

  ScanOp finish();
  /// After finish: the final value of the state that was argument `arg`.
  mlir::Value finalState(mlir::Value arg);
  mlir::Value output(unsigned i) { return scan.getOutputs()[i]; }
  mlir::Value save(unsigned i) { return scan.getSaves()[i]; }

  mlir::OpBuilder b;

private:
  mlir::OpBuilder &outer;
  ScanOp model, scan;
  bool turned;
  SegmentsAttr segments;
  TrailingRows trailing;
  mlir::Region region;
  mlir::Block *block;
  llvm::SmallVector<mlir::Value> sequences, parameters, savedStates, initials, outputs, saves;
  llvm::SmallVector<mlir::BlockArgument> sequenceArgs, stateArgs;
  llvm::SmallVector<mlir::Value> nexts;
  llvm::SmallVector<mlir::Type> stateTypes, saveTypes;
  int64_t saveEvery = 0;
};

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCANBUILDER_H
