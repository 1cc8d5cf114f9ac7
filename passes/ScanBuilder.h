//===- ScanBuilder.h - a scan whose operands are found on the way -*- C++ -*-===//
#ifndef EJK_PASSES_SCANBUILDER_H
#define EJK_PASSES_SCANBUILDER_H

#include "dialect/Ejk.h"
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
  /// `initial` is null for zero. Gives the step's argument.
  mlir::Value addState(mlir::RankedTensorType type, mlir::Value initial);
  /// The next value of the state that is argument `arg`.
  void setNext(mlir::Value arg, mlir::Value next);
  /// Gives the number of the output.
  unsigned addOutput(mlir::Value stepValue);

  /// The tensor types of an output and of a state, [N,H,channels…].
  mlir::RankedTensorType outputType(mlir::Type stepType);
  mlir::RankedTensorType stateType(mlir::Type stepType);

  ScanOp finish();
  /// After finish: the final value of the state that was argument `arg`.
  mlir::Value finalState(mlir::Value arg);
  mlir::Value output(unsigned i) { return scan.getOutputs()[i]; }

  mlir::OpBuilder b;

private:
  mlir::OpBuilder &outer;
  ScanOp model, scan;
  bool turned;
  mlir::Region region;
  mlir::Block *block;
  llvm::SmallVector<mlir::Value> sequences, parameters, initials, outputs;
  llvm::SmallVector<mlir::BlockArgument> sequenceArgs, stateArgs;
  llvm::SmallVector<mlir::Value> nexts;
  llvm::SmallVector<mlir::Type> stateTypes;
};

} // namespace ejk

#endif // EJK_PASSES_SCANBUILDER_H
