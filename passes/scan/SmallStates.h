//===- SmallStates.h - states that are numbers or vectors ----------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SMALLSTATES_H
#define EJK_PASSES_SCAN_SMALLSTATES_H

#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ejk {

/// Whether scans may be made of `scan`, which has K×V states, for its other states: its step has no
/// branches, and it has neither queries, nor segments, nor saved states.
bool mayCutStates(ScanOp scan);

/// Whether state `number`, a number or a vector, does more than add up, so that no chunk has it
/// beside a K×V state: it decays, or is a maximum.
bool doesMoreThanAdd(ScanOp scan, unsigned number);

/// Whether `scan` has K×V values read with or made of vectors that chunks cannot compute, and a
/// scan before can
/// (`ejk-cut-rows`).
bool hasCuttableRows(ScanOp scan);

/// Whether such a state of `function` keeps a scan of 16-bit rows from its chunks, or such a vector
/// does, and `ejk-separate-states` may give it a scan of its own.
bool hasSeparableStates(mlir::func::FuncOp function);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SMALLSTATES_H
