//===- DividedScans.h - states of scans over segments -------------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_DIVIDEDSCANS_H
#define EJK_PASSES_SCAN_DIVIDEDSCANS_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

/// A state of a scan over segments: what sequences start from, null for zero; what segments start
/// from; and what sequences end with.
struct DividedState {
  mlir::Value initial, starts, final;
};
/// The scan, and its states. Those whose segments start from nothing of the one before have no
/// starts.
struct DividedScan {
  ScanOp scan;
  llvm::SmallVector<DividedState> states;
};

/// A state of a scan of a list: the scan's place, and the state's number.
struct KnownState {
  DividedState state;
  unsigned scan, number;
};

/// The state among those of `before` that is K×V state `number` of `scan` step by step, over
/// `segments`, or undivided where that is null. A derivative's later scans go through the states
/// that its first ones have corrected, and get what these read as rows.
std::optional<KnownState> findDivided(ScanOp scan, unsigned number, SegmentsAttr segments,
                                      llvm::ArrayRef<DividedScan> before);
} // namespace ejk

#endif // EJK_PASSES_SCAN_DIVIDEDSCANS_H
