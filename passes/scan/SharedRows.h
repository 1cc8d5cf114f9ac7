//===- SharedRows.h - rows that heads of a delta rule share --------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SHAREDROWS_H
#define EJK_PASSES_SCAN_SHAREDROWS_H

#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ejk {

/// What `scan`, which corrects its state, computes of one sequence alone and need not compute for
/// each head: keys and queries that are divided by their length, where several heads share them;
/// and beside those the numbers of a head that are made by a function, as a gate or a rate. None
/// otherwise.
llvm::SmallVector<mlir::Value> sharedRows(ScanOp scan);

/// Whether a scan of `function` has such rows.
bool hasSharedRows(mlir::func::FuncOp function);

/// Replaces `scan` by a scan without states for each sequence that `rows` are computed of, over
/// that sequence's own heads, and by one that takes them. Returns all of them, that one last.
llvm::SmallVector<ScanOp> cutSharedRows(ScanOp scan, llvm::ArrayRef<mlir::Value> rows);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SHAREDROWS_H
