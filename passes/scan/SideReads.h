//===- SideReads.h - reads that only a step's outputs take ---------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SIDEREADS_H
#define EJK_PASSES_SCAN_SIDEREADS_H

#include "dialect/ejk/Ejk.h"
#include "llvm/ADT/DenseSet.h"

namespace ejk {

/// Reads of a scan along one axis whose results reach nothing but outputs, in a scan that reads
/// along the other axis, too.
struct SideReads {
  Axis axis;
  /// The reads' results, and the values that depend on them.
  llvm::DenseSet<mlir::Value> values;
};

/// The side reads of `scan`, where a kernel can make them while it passes over the states for
/// its other reads. It can if the states are linear (decays and outer products of what does not
/// depend on a state), decay along the side reads' axis or per head only, and are not saved.
std::optional<SideReads> findSideReads(ScanOp scan);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SIDEREADS_H
