//===- ExpandQueries.h - a state for each query head ---------------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_EXPANDQUERIES_H
#define EJK_PASSES_SCAN_EXPANDQUERIES_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

/// Replaces a scan with queries by one without, whose states belong to query heads: each starts
/// from a copy of its group's, and the first of a group gives the final state. Numbers do not
/// change. Saves and outputs that do not depend on a query get a scan of their own. Returns the
/// scans made.
llvm::SmallVector<ScanOp> expandQueries(ScanOp scan);

/// The scans under `root` that have queries.
llvm::SmallVector<ScanOp> scansWithQueries(mlir::Operation *root);

} // namespace ejk

#endif // EJK_PASSES_SCAN_EXPANDQUERIES_H
