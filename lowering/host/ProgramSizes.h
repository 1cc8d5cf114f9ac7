//===- ProgramSizes.h - sizes of tensors, computed by the host -*- C++ -*-===//
#ifndef EJK_LOWERING_HOST_PROGRAMSIZES_H
#define EJK_LOWERING_HOST_PROGRAMSIZES_H

#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace ejk {

/// What the program of launches knows of sizes: each is computed, where a launch needs it, from the
/// sizes of the function's arguments.
class ProgramSizes {
protected:
  explicit ProgramSizes(mlir::func::FuncOp function)
      : function(function), shapes(function), b(function) {}

  DimExpr sizeOf(mlir::Value tensor, unsigned dim);
  /// Records the first argument that determines each size symbol.
  void noteSizes(mlir::Value tensor, mlir::Value buffer);
  mlir::Value index(int64_t v);
  llvm::FailureOr<mlir::Value> hostSize(mlir::Operation *op, mlir::Value tensor, unsigned dim);
  llvm::FailureOr<mlir::Value> hostSize(const DimExpr &size);
  /// The rows of a segment of `op`, a scan or a block program.
  llvm::FailureOr<mlir::Value> hostRowsOfSegments(mlir::Operation *op);
  /// How many segments of a batch entry are scanned, and the number of the first of these.
  llvm::FailureOr<mlir::Value> hostSegmentsOfEach(mlir::Operation *op);
  llvm::FailureOr<mlir::Value> hostFirstSegment(mlir::Operation *op);
  /// The number of segments that `op`, a scan or a block program, divides its sequences into.
  llvm::FailureOr<mlir::Value> hostSegments(mlir::Operation *op);
  /// N, of a scan or a block program.
  template <typename Scan> DimExpr sequencesOf(Scan scan) {
    mlir::Value cu = scan.getCuSeqlens();
    if (!cu)
      return shapes.dim(scan.getSequences().front(), 0);
    DimExpr sequences = shapes.dim(cu, 0);
    if (sequences.kind == DimExpr::Kind::symbolPlusOne)
      sequences.kind = DimExpr::Kind::symbol;
    else
      --sequences.value;
    return sequences;
  }

  mlir::func::FuncOp function;
  ShapeAnalysis shapes;
  mlir::OpBuilder b;
  llvm::DenseMap<mlir::Value, mlir::Value> copied; // a copy's result to its source

private:
  llvm::StringMap<mlir::Value> symbols;
};

} // namespace ejk

#endif // EJK_LOWERING_HOST_PROGRAMSIZES_H
