//===- ScanGroups.h - rewrites of scans that pass tensors on ------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCANGROUPS_H
#define EJK_PASSES_SCAN_SCANGROUPS_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

/// See ejk-hoist-reductions. `scans` are in the order of the program, and hold those in their
/// places afterwards. Gives the number of states and sequences that became numbers.
unsigned hoistReductions(llvm::MutableArrayRef<ScanOp> scans);

/// See ejk-include-diagonal. Gives the number of reads that include it.
unsigned includeDiagonal(llvm::ArrayRef<ScanOp> scans);

/// See ejk-narrow-saves. Gives the number of tensors of a group that became narrower.
unsigned narrowSaves(llvm::ArrayRef<ScanOp> group);

/// Whether the step of `second` computes in `here` what that of `first` does in `there`: the
/// same, of sequences and parameters that are so by `sameTensor`, and of no state but `states`,
/// one of each.
using SameTensor = llvm::function_ref<bool(mlir::Value, mlir::Value)>;
bool areSame(ScanOp first, mlir::Value there, ScanOp second, mlir::Value here,
             SameTensor sameTensor, std::pair<mlir::Value, mlir::Value> states = {});

/// Whether `product` pairs what is read (kPairingAttr), and nothing but its channels' sum is
/// asked for.
bool isSummedPairing(mlir::Operation *product);

/// Groups of `scans`, in order: those of which one reads the states another saves
/// belong together, for what cancels between them does so when both round alike.
llvm::SmallVector<llvm::SmallVector<ScanOp>> groupScans(llvm::ArrayRef<ScanOp> scans);

/// Whether chunks of the group's scans may save the state that they are entered with,
/// instead of the one before their last adds. For an `ejk.anchor` that reads it,
///
///   Σ A ⊙ S_last = Σ A ⊙ (D ⊙ S_entry) + Σ_j k_j ⊙ k̄_j
///
/// with D the chunk's decay, k_j and v_j what the chunk adds to S, and k̄_j what A
/// alone, decayed to step j, gives when read with v_j. The sum that starts there takes
/// every k_j ⊙ k̄_j away again, so that what a product of rounded states would leave
/// of them is not left. That holds where the scan that walks back reads A with every v_j
/// and pairs it with k_j, under the same decays.
bool maySaveEntries(llvm::ArrayRef<ScanOp> group);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCANGROUPS_H
