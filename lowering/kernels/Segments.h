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

/// The kernel's arguments that place segments (KernelSignature::addSegments), i64: the rows of one;
/// and of a batch how many of each entry are scanned, and the number of the first of these.
struct SegmentSizes {
  mlir::Value rows, ofEach, first;

  /// Those from size `index` on, where `size` gives the kernel's sizes.
  static SegmentSizes take(llvm::function_ref<mlir::Value(unsigned)> size, unsigned index,
                           bool packed) {
    return packed ? SegmentSizes{size(index), {}, {}}
                  : SegmentSizes{size(index), size(index + 1), size(index + 2)};
  }
};

/// Segment `number` (i32) of a batch; or of `sequences` packed ones, of which `packedOffset` gives
/// the first row.
KernelSegment locateSegment(KernelBuilder &b, const SegmentSizes &sizes, mlir::Value number,
                            mlir::Value sequences = {},
                            llvm::function_ref<mlir::Value(mlir::Value)> packedOffset = {});

/// How many of a segment's `length` rows are scanned: `count` where the number of its state `state` at
/// `remembered`, f32, is below 1, or where that is null; else all. `uniform` makes a flag (i32) that all lanes
/// have the compiler's to know as such.
mlir::Value keptRows(KernelBuilder &b, int64_t count, mlir::Value length, mlir::Value remembered,
                     mlir::Value state,
                     llvm::function_ref<mlir::Value(mlir::Value)> uniform = {});
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_SEGMENTS_H
