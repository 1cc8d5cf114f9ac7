//===- ScaleAfterRead.h - scale what is read, not what reads it ---*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SCALEAFTERREAD_H
#define EJK_PASSES_SCAN_SCALEAFTERREAD_H

#include "dialect/ejk/Ejk.h"

namespace ejk {

/// Divides what a delta rule reads, and the value that it adds, by a key's length instead of the key
/// (`ejk-scale-after-read`). Returns how many reads and outer products take keys as given now.
unsigned scaleAfterRead(llvm::ArrayRef<ScanOp> scans);

} // namespace ejk

#endif // EJK_PASSES_SCAN_SCALEAFTERREAD_H
