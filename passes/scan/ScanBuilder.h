//===- ScanBuilder.h - a scan whose operands are found on the way -*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANBUILDER_H
#define EJK_PASSES_SCAN_SCANBUILDER_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace ejk {

/// Builds a scan from its step: what the step turns out to need becomes an
/// operand, what it turns out to give an output. `b` stands in the step.
class ScanBuilder {
public:
  /// Walks like `model`, or the other way with `turned`. The first sequence is
  /// the model's, for that one gives the number of heads.
  ScanBuilder(mlir::OpBuilder &outer, ScanOp model, bool turned = false);

  mlir::Value addSequence(mlir::Value tensor);
  /// The tensor that the step sees as `arg`; null where it is no sequence.
  mlir::Value sequenceOf(mlir::Value arg);
  mlir::Value addParameter(mlir::Value tensor, mlir::Type stepType);
  /// A saved state of a scan that walks the other way, and that it saved every how
  /// many rows.
  mlir::Value addSavedState(mlir::Value tensor, int64_t every);
  /// `initial` is null for zero. Gives the step's argument.
  mlir::Value addState(mlir::RankedTensorType type, mlir::Value initial);
  /// The next value of the state that is argument `arg`.
  void setNext(mlir::Value arg, mlir::Value next);
  /// Gives the number of the output.
  unsigned addOutput(mlir::Value stepValue);
  /// Saves a K×V value of the step every `every` rows. Gives the number of the save.
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
