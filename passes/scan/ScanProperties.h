//===- ScanProperties.h - properties of a scan's step --------------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANPROPERTIES_H
#define EJK_PASSES_SCAN_SCANPROPERTIES_H

#include "dialect/ejk/Ejk.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace ejk {

/// Whether a step's value is a K×V matrix.
bool isMatrix(mlir::Value value);

/// The elements of the largest state of `scan` that is a matrix; 0 without one.
int64_t largestMatrixState(ScanOp scan);

/// The elements of the matrices and vectors that `scan` carries.
int64_t elementsOfStates(ScanOp scan);

/// The steps of `scan`, which may be dynamic.
int64_t rowsOf(ScanOp scan);

/// Whether a state starts from a pool, which only one kernel may then read.
bool readsPool(ScanOp scan);
/// Whether the state after each step goes to a slot of a pool, which chunks do not have.
bool keepsEachState(ScanOp scan);

/// Whether `value` is the same at every step of a sequence: computed only from parameters,
/// constants and the head.
bool isConstantInTime(ScanOp scan, mlir::Value value);

/// The axis along which reads and checkpoints sum the states, other than side reads (SideReads.h);
/// null if they use both, key if there are none.
std::optional<Axis> getReadAxis(ScanOp scan);
/// Whether the step has an `scf.if`, which canonicalisation turns into selects. Passes that rewrite
/// a step skip such scans.
bool hasBranches(ScanOp scan);

/// Whether `op` reduces a vector to a scalar: `ejk.sum` or `ejk.max`.
bool isReduction(mlir::Operation *op);
/// Whether `op` reduces a vector of a single channel, so that the result is that channel.
bool isOnlyChannel(mlir::Operation *op);
/// Whether a step can compute `reduction` like a read: along the axis of the reads, of values that
/// do not depend on a state.
bool isReductionAlongReads(ScanOp scan, mlir::Operation *reduction);
/// Whether `value` depends on a state or a reduction, which no single thread has.
bool dependsOnThreads(ScanOp scan, mlir::Value value);

/// Whether f_fwd gives `rows`, which it computed by matmuls: a tensor of f_vjp.
bool isSavedRead(mlir::Value rows);

/// Whether `op`, a function or a program, or the function that it is in has operands in two terms
/// (`ejk.two_terms`).
bool isInTwoTerms(mlir::Operation *op);

/// Whether what a step adds depends on what it reads, as in a delta rule, or was computed so by
/// another scan (`outer_add … corrects`).
bool correctsState(ScanOp scan);
/// Whether `scan` corrects its state, and a gate of its state has a known bound that is `gate`, below 0, or
/// lower: then what is before some rows may be forgotten.
bool mayForget(ScanOp scan, double gate);
/// The functions with such scans. Others of their scans may compute parts of the same derivative.
class Correcting {
public:
  bool contains(ScanOp scan) const { return functions.contains(scan->getParentOp()); }

private:
  friend Correcting findCorrecting(mlir::Operation *op);
  llvm::SmallPtrSet<mlir::Operation *, 4> functions;
};
/// Those under `op`.
Correcting findCorrecting(mlir::Operation *op);

/// The classes of decays of a step, cheapest first.
enum class DecayClass { none, constant, scalar, key, value, both };
llvm::StringRef stringifyDecayClass(DecayClass decayClass);
/// The class of `scan`'s decays.
DecayClass getDecayClass(ScanOp scan);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCANPROPERTIES_H
