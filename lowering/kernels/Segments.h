//===- Segments.h - the segment that a thread block works on ------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_SEGMENTS_H
#define EJK_LOWERING_KERNELS_SEGMENTS_H

#include "lowering/kernels/KernelBuilder.h"

namespace ejk {
/// A segment: the sequence that it is a part of (i32), the position of its first row there,
/// and the most rows that it has (i64).
struct KernelSegment {
  mlir::Value sequence, start, rows;
};

/// Segment `number` (i32) of `rows` rows (i64), of sequences of `totalSteps` rows each; or of
/// `sequences` packed ones, of which `packedOffset` gives the first row, and then `totalSteps` are
/// all rows.
KernelSegment locateSegment(KernelBuilder &b, mlir::Value rows, mlir::Value number,
                            mlir::Value totalSteps, mlir::Value sequences = {},
                            llvm::function_ref<mlir::Value(mlir::Value)> packedOffset = {});
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SEGMENTS_H
