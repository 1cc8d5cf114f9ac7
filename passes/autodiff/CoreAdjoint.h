//===- CoreAdjoint.h - a step's K×V states, differentiated --------*- C++ -*-===//
//
// The part of a scan's derivative that concerns its matrix states; the rules stand
// in DeriveScan.cpp.
//
// A gate's gradient is Σ A ⊙ S where it decays, summed over the other axis. That
// *pairing* needs no state: a decay keeps it, a read adds q ⊙ q̄ to it (r ⊙ r̄ on
// the other axis) and an outer_add takes k ⊙ k̄ (v ⊙ v̄) away, so that it is one
// more state, a vector, carried from Σ ht ⊙ dht on.
//
// What a step both adds and reads cancels in that sum, and where gates are strong
// it is far larger than what remains. So q̄ and r there are read before the adds
// of the step's *segment* (the ops between two decays), and k̄ and v̄ of the adjoint
// before its reads; the gradients proper have the rest, e.g. q̄ += k (v · r̄).
//
// Rounding adds up along the walk nevertheless. With checkpoints, the walk forward
// saves the state every so many rows, as it is before the step's last adds, and
// the pairing starts anew there from Σ A ⊙ S.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_AUTODIFF_COREADJOINT_H
#define EJK_PASSES_AUTODIFF_COREADJOINT_H

#include "passes/autodiff/AdjointRules.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/autodiff/StepAnalysis.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {

/// What the walk forward leaves for the walk back, as tensors.
struct CoreRecord {
  /// By a read's result: its vector's cotangent, and the term (by axis) that it adds
  /// to the pairing.
  llvm::MapVector<mlir::Value, mlir::Value> queryCotangents;
  llvm::DenseMap<mlir::Value, std::array<mlir::Value, 2>> pairingTerms;
  /// Per state; null where it is not saved.
  llvm::SmallVector<mlir::Value> checkpoints, finalStates;
};

/// The states in the walk forward, where `primal` has the whole step.
class CoreForward {
public:
  /// `checkpointEvery` rows; 0 for never. `sizes`: pairings sum absolute values.
  CoreForward(ScanBuilder &sb, mlir::IRMapping &primal, ScanOp scan, const StepAnalysis &step,
              int64_t checkpointEvery, bool sizes)
      : sb(sb), primal(primal), scan(scan), step(step), checkpointEvery(checkpointEvery),
        sizes(sizes) {}

  /// The cotangent of the read's vector, given that of what is read.
  mlir::Value read(ReadOp read, mlir::Value cotangent);
  /// Saves the states that pairings start from.
  void saveCheckpoints();
  /// After the scan was made.
  CoreRecord finish();

private:
  mlir::Value readSegment(ReadOp read, mlir::Value cotangent);
  /// The sizes of a read's terms: of q ⊙ dq and of o ⊙ do, the step's own add included.
  mlir::Value readSizes(ReadOp read, mlir::Value cotangent);

  ScanBuilder &sb;
  mlir::IRMapping &primal;
  ScanOp scan;
  const StepAnalysis &step;
  int64_t checkpointEvery;
  bool sizes;
  /// Numbers of outputs and saves.
  llvm::MapVector<mlir::Value, unsigned> queryOutputs;
  llvm::MapVector<mlir::Value, std::array<std::optional<unsigned>, 2>> pairingOutputs;
  llvm::SmallVector<std::optional<unsigned>> saves;
};

/// The states' adjoints in the walk back.
class CoreBack {
public:
  CoreBack(mlir::OpBuilder &outer, ScanBuilder &sb, mlir::IRMapping &primal, Cotangents &adjoint,
           ScanOp scan, const StepAnalysis &step, CoreRecord &record, int64_t checkpointEvery,
           Cotangents *gateSizes)
      : outer(outer), sb(sb), primal(primal), cotangents(adjoint), scan(scan), step(step),
        record(record), checkpointEvery(checkpointEvery), gateSizes(gateSizes) {}

  /// Starts the adjoints from those of the final states; null for zero.
  void start(llvm::ArrayRef<mlir::Value> stateCotangents);
  /// Passes the adjoints, and the cotangents of vectors and gates, through `op`.
  void pass(mlir::Operation *op);
  /// Carries the adjoints to the step before.
  void end();
  /// After the scan was made: the cotangent of the state's initial value; null where
  /// it has none.
  mlir::Value initialStateCotangent(mlir::Value arg);

private:
  /// A K×V value's adjoint and pairings, while the walk passes it.
  struct Matrix {
    mlir::Value adjoint;
    mlir::Value pairing[2]; // by Axis::key, Axis::value
    /// Of the segment being passed: the adjoint behind its last op, what its reads
    /// added since to the adjoint and will add to the pairings, and the saved state
    /// before its adds, if there is one.
    mlir::Value segmentEnd, saved;
    llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> reads; // key, value
    llvm::SmallVector<mlir::Value> readTerms[2];

    void startSegment() {
      segmentEnd = adjoint;
      reads.clear();
    }
  };
  struct PendingRead {
    mlir::Value key, value, terms[2];
  };

  mlir::Value startPairing(unsigned i, Axis axis, mlir::Value stateCotangent);
  Matrix &matrixOf(mlir::Value value);
  void closeSegment(Matrix &m);
  bool startsAsZero(mlir::Value matrix);
  void give(mlir::Value operand, mlir::Value cotangent);
  void passRead(ReadOp read);
  void passDecay(DecayOp decay);
  void passOuterAdd(OuterAddOp add);
  mlir::Value passAddend(Matrix &m, OuterAddOp add, Axis axis);
  /// Adds the sizes of an addend's terms, k ⊙ dk or v ⊙ dv, to the pairing.
  void addAddendSizes(Matrix &m, OuterAddOp add, Axis axis);

  mlir::OpBuilder &outer;
  ScanBuilder &sb;
  mlir::IRMapping &primal;
  Cotangents &cotangents;
  ScanOp scan;
  const StepAnalysis &step;
  CoreRecord &record;
  int64_t checkpointEvery;
  /// Where the gates' cotangents go when pairings sum absolute values; null when they do not.
  Cotangents *gateSizes;
  llvm::SmallVector<std::pair<mlir::Value, Matrix>> carried;
  llvm::DenseMap<mlir::Value, Matrix> matrices;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<PendingRead>> pendingReads;
};

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_COREADJOINT_H
