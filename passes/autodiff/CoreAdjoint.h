//===- CoreAdjoint.h - derivative of the K×V states of a step -----*- C++ -*-===//
//
// The part of a scan's derivative that concerns its K×V states. DeriveScan.cpp has the rules.
//
// The gradient of a gate is Σ A ⊙ S at the decay, summed over the other axis. This *pair sum*
// can be computed without the state: a decay preserves it, a read adds q ⊙ q̄ to it (r ⊙ r̄ on
// the other axis), and an outer_add subtracts k ⊙ k̄ (v ⊙ v̄). So it is one more state, a vector,
// whose initial value is Σ ht ⊙ dht.
//
// Terms that a step both adds and reads cancel in that sum. With strong gates they are far
// larger than the rest. So the pair sum uses q̄ and r from before the adds of the step's
// *segment* (the ops between two decays), and k̄ and v̄ of the adjoint from before its reads.
// The gradients of q, k and v include the remainder, e.g. q̄ += k (v · r̄).
//
// Rounding errors still accumulate along the sequence. With checkpoints, the forward pass
// saves the state every so many rows, as it is before the step's last adds, and the pair sum
// restarts there from Σ A ⊙ S.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_AUTODIFF_COREADJOINT_H
#define EJK_PASSES_AUTODIFF_COREADJOINT_H

#include "passes/autodiff/AdjointRules.h"
#include "passes/autodiff/StepAnalysis.h"
#include "passes/scan/ScanBuilder.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {

/// The cotangent of the vector along `axis` of an outer product, known before the passes.
struct HandedCotangent {
  OuterAddOp add;
  Axis axis = Axis::value;
  mlir::Value tensor;

  mlir::Value vector() { return axis == Axis::key ? add.getKey() : add.getValue(); }
};

/// Tensors that the forward pass records for the backward pass.
struct CoreRecord {
  /// By a read's result: the cotangent of its vector, and the term (by axis) that it adds to the
  /// pair sum.
  llvm::MapVector<mlir::Value, mlir::Value> queryCotangents;
  llvm::DenseMap<mlir::Value, std::array<mlir::Value, 2>> pairingTerms;
  /// For each state; null if it is not saved.
  llvm::SmallVector<mlir::Value> checkpoints, finalStates;
  std::optional<HandedCotangent> handed;
};

/// The K×V states in the forward pass, where `primal` has the whole step.
class CoreForward {
public:
  /// `checkpointEvery` is in rows; 0 for no checkpoints. `sizes`: pair sums sum absolute values.
  CoreForward(ScanBuilder &sb, mlir::IRMapping &primal, ScanOp scan, const StepAnalysis &step,
              int64_t checkpointEvery, bool sizes)
      : sb(sb), primal(primal), scan(scan), step(step), checkpointEvery(checkpointEvery),
        sizes(sizes) {}

  /// The cotangent of the read's vector, given that of its result.
  mlir::Value read(ReadOp read, mlir::Value cotangent);
  /// Saves the states from which pair sums restart.
  void saveCheckpoints();
  /// Collects the tensors after the scan was created.
  CoreRecord finish();

private:
  mlir::Value readSegment(ReadOp read, mlir::Value cotangent);
  /// The absolute values of a read's terms, q ⊙ dq and o ⊙ do, including the diagonal term.
  mlir::Value readSizes(ReadOp read, mlir::Value cotangent);

  ScanBuilder &sb;
  mlir::IRMapping &primal;
  ScanOp scan;
  const StepAnalysis &step;
  int64_t checkpointEvery;
  bool sizes;
  /// Indices of outputs and saves.
  llvm::MapVector<mlir::Value, unsigned> queryOutputs;
  llvm::MapVector<mlir::Value, std::array<std::optional<unsigned>, 2>> pairingOutputs;
  llvm::SmallVector<std::optional<unsigned>> saves;
};

/// The adjoints of the K×V states in the backward pass.
class CoreBackward {
public:
  CoreBackward(mlir::OpBuilder &outer, ScanBuilder &sb, mlir::IRMapping &primal,
               Cotangents &adjoint, ScanOp scan, const StepAnalysis &step, CoreRecord &record,
               int64_t checkpointEvery, Cotangents *gateSizes)
      : outer(outer), sb(sb), primal(primal), cotangents(adjoint), scan(scan), step(step),
        record(record), checkpointEvery(checkpointEvery), gateSizes(gateSizes) {}

  /// Initialises the adjoints from those of the final states; null for zero.
  void start(llvm::ArrayRef<mlir::Value> stateCotangents);
  /// Propagates the adjoints, and the cotangents of vectors and gates, through `op`.
  void pass(mlir::Operation *op);
  /// Carries the adjoints to the previous step.
  void end();
  /// After the scan was created: the cotangent of the state's initial value; null if there is none.
  mlir::Value initialStateCotangent(mlir::Value arg);

private:
  /// The adjoint and pair sums of a K×V value during the backward pass.
  struct Matrix {
    mlir::Value adjoint;
    mlir::Value pairing[2]; // by Axis::key, Axis::value
    /// For the current segment: the adjoint after its last op, what its reads have added to the
    /// adjoint since and will add to the pair sums, and the saved state before its adds, if any.
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
  /// Adds the absolute values of an addend's terms, k ⊙ dk or v ⊙ dv, to the pair sum.
  void addAddendSizes(Matrix &m, OuterAddOp add, Axis axis);

  mlir::OpBuilder &outer;
  ScanBuilder &sb;
  mlir::IRMapping &primal;
  Cotangents &cotangents;
  ScanOp scan;
  const StepAnalysis &step;
  CoreRecord &record;
  int64_t checkpointEvery;
  /// Receives the gates' cotangents if pair sums sum absolute values, otherwise null.
  Cotangents *gateSizes;
  llvm::SmallVector<std::pair<mlir::Value, Matrix>> carried;
  llvm::DenseMap<mlir::Value, Matrix> matrices;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<PendingRead>> pendingReads;
};

} // namespace ejk

#endif // EJK_PASSES_AUTODIFF_COREADJOINT_H
