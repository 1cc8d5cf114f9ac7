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

/// How many of a segment's `length` rows are scanned: `count` where the number of its state `state` at
/// `remembered`, f32, is below 1, or where that is null; else all. `uniform` makes a flag (i32) that all lanes
/// have the compiler's to know as such.
mlir::Value keptRows(KernelBuilder &b, int64_t count, mlir::Value length, mlir::Value remembered,
                     mlir::Value state,
                     llvm::function_ref<mlir::Value(mlir::Value)> uniform = {});
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SEGMENTS_H
