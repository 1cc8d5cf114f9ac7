//===- ScanGroups.h - rewrites of scans that share tensors ---------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANGROUPS_H
#define EJK_PASSES_SCAN_SCANGROUPS_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

/// Hoists reductions (ejk-hoist-reductions). `scans` are in program order, and are replaced by the
/// new ones. Returns the number of states and sequences that became scalars.
unsigned hoistReductions(llvm::MutableArrayRef<ScanOp> scans);

/// Includes diagonal terms in reads (ejk-include-diagonal). Returns the number of reads changed.
unsigned includeDiagonal(llvm::ArrayRef<ScanOp> scans);

/// Narrows saved states (ejk-narrow-saves). Returns the number of tensors of the group that became
/// narrower.
unsigned narrowSaves(llvm::ArrayRef<ScanOp> group);

/// Whether the step of `second` computes for `here` the same value as that of `first` for `there`:
/// from sequences and parameters that are the same by `sameTensor`, and from no states but
/// `states`, one of each scan. A sequence of `first` may also hold what `second` computes: where
/// `isGiven` says so of the tensor and of the value in the step of `second`.
using SameTensor = llvm::function_ref<bool(mlir::Value, mlir::Value)>;
bool areSame(ScanOp first, mlir::Value there, ScanOp second, mlir::Value here,
             SameTensor sameTensor, std::pair<mlir::Value, mlir::Value> states = {},
             SameTensor isGiven = {});

/// Whether `op` is an `ejk.cancelling_pair` that is only summed over channels.
bool isSummedPairing(mlir::Operation *op);

/// Groups `scans`, in order. Scans of which one reads states that another saves, or sums of
/// cancelling pairs that another computes, belong to one group, because terms that cancel between
/// them must be rounded alike: in chunks of the same rows.
llvm::SmallVector<llvm::SmallVector<ScanOp>> groupScans(llvm::ArrayRef<ScanOp> scans);

/// Whether chunks of the group's scans may save the state at their start instead of the one
/// before their last adds. For an `ejk.checkpoint` that reads it,
///
///   Σ A ⊙ S_last = Σ A ⊙ (D ⊙ S_entry) + Σ_j k_j ⊙ k̄_j
///
/// where D is the chunk's decay, k_j and v_j are the vectors that the chunk adds to S, and k̄_j
/// is A, decayed to step j, read with v_j. The sum that restarts there subtracts every k_j ⊙ k̄_j
/// again, so that the rounding of a matmul with the state cannot leave a part of them. That is
/// so if the backward scan reads A with every v_j and pairs it with k_j, under the same decays.
bool maySaveEntries(llvm::ArrayRef<ScanOp> group);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCANGROUPS_H
