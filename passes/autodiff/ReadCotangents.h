//===- ReadCotangents.h - cotangents of reads that feed states ----*- C++ -*-===//
//
// If a read feeds an outer_add, a gate or another read of the step, its cotangent depends on
// the adjoints A of the states, which only the backward pass knows. So a pass of its own, in
// reverse over the sequence, first computes the cotangents of the reads alone. In reverse
// order of the step's ops:
//
//   outer_add  ū = Aᵀ b (and b̄ = A u), if the vector depends on a read
//   read       A += a r̄ᵀ, with r̄ as known by then
//   decay      A ← D ⊙ A
//
// With r̄ and the reads known, the passes of CoreAdjoint.h see a step whose reads feed nothing.
// If all that depends on a read is one vector of an outer_add, ū is handed on instead of r̄,
// which is computed of it. The later passes then need not read A for ū once more.
//
// A gate, or a read's vector, that depends on a read needs the state itself: Σ A ⊙ S', and
// S r̄. The forward pass then saves that state at every row.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_AUTODIFF_READCOTANGENTS_H
#define EJK_PASSES_AUTODIFF_READCOTANGENTS_H

#include "passes/autodiff/AdjointRules.h"
#include "passes/autodiff/StepAnalysis.h"
#include "passes/scan/ScanBuilder.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {

/// The K×V values of a step that the reads' cotangents need: saved at every row.
class RowStates {
public:
  /// Saves what `step` needs of the forward pass `sb`, where `primal` has the whole step.
  void save(ScanBuilder &sb, mlir::IRMapping &primal, ScanOp scan, const StepAnalysis &step);
  /// Collects the tensors after the scan was created.
  void finish(ScanBuilder &sb);
  bool empty() const { return saves.empty(); }

  /// Σ state ⊙ S over `axis`, with S the saved value that the step calls `matrix`.
  mlir::Value innerProduct(ScanBuilder &sb, mlir::Location at, mlir::Value matrix,
                           mlir::Value state, Axis axis);
  /// Reads that value along `axis`.
  mlir::Value read(ScanBuilder &sb, mlir::Location at, mlir::Value matrix, mlir::Value vector,
                   Axis axis);

private:
  llvm::MapVector<mlir::Value, unsigned> saves;
  llvm::DenseMap<mlir::Value, mlir::Value> tensors;
};

/// The adjoints of the states in the pass that computes the reads' cotangents.
class ReadBackward {
public:
  ReadBackward(ScanBuilder &sb, mlir::IRMapping &primal, Cotangents &cotangents, ScanOp scan,
               const StepAnalysis &step, RowStates &rows)
      : sb(sb), primal(primal), cotangents(cotangents), scan(scan), step(step), rows(rows) {}

  /// Initialises the adjoints from those of the final states; null for zero.
  void start(llvm::ArrayRef<mlir::Value> stateCotangents);
  /// Propagates the adjoints, and the cotangents of values that depend on reads, through `op`.
  void pass(mlir::Operation *op);
  /// Carries the adjoints to the previous step.
  void end();
  /// What the core's ops give to `operand`, a vector or gate that depends on reads, of its
  /// cotangent.
  mlir::Value givenTo(mlir::Value operand) const { return given.lookup(operand); }

private:
  /// The adjoint of `matrix`, including the terms of its reads.
  mlir::Value adjointOf(mlir::Value matrix);
  void give(mlir::Value operand, llvm::function_ref<mlir::Value()> cotangent);

  ScanBuilder &sb;
  mlir::IRMapping &primal;
  Cotangents &cotangents;
  ScanOp scan;
  const StepAnalysis &step;
  RowStates &rows;
  llvm::DenseMap<mlir::Value, mlir::Value> adjoints, given;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::array<mlir::Value, 2>>> reads; // key, value
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> carried;
};

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_READCOTANGENTS_H
