//===- SegmentViews.h - states of segments as rows of sequences ---*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_SEGMENTVIEWS_H
#define EJK_PASSES_SCAN_SEGMENTVIEWS_H

#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"

namespace ejk {
/// An empty tensor [segments,H,channels…] of f32, or [N,H,channels…] without segments, of a scan or
/// program whose first sequence is `first`, with the offsets `cu` if they are not null.
mlir::Value emptyOfSegments(mlir::OpBuilder &b, mlir::Location loc, mlir::Value first,
                            mlir::Value cu, SegmentsAttr segments,
                            llvm::ArrayRef<int64_t> channels);

/// Sees the states of a scan that is divided into segments, [segments,H,…], as sequences in which
/// a segment is a row: [B,⌈T/L⌉,H,…], or [1,segments,H,…] of packed sequences.
class SegmentViews {
public:
  SegmentViews(mlir::OpBuilder &b, ScanOp scan, SegmentsAttr segments)
      : b(b), scan(scan), segments(segments), loc(scan.getLoc()) {}

  /// `states` by segment; with `merge`, the channels of their first axis become heads.
  mlir::Value bySegment(mlir::Value states, bool merge);
  /// What bySegment, of states of type `type`, makes back into those; matrices are merged.
  mlir::Value fromSegments(mlir::Value rows, mlir::RankedTensorType type);
  /// [N,H,K,V] as [N,H·K,V], and back.
  mlir::Value mergeKeys(mlir::Value states);
  mlir::Value separateKeys(mlir::Value states, mlir::RankedTensorType type);
  mlir::RankedTensorType mergedKeysType(mlir::RankedTensorType type);
  /// The type of `type`, states of sequences, for those of segments.
  mlir::RankedTensorType perSegment(mlir::RankedTensorType type);
  /// An empty tensor [segments,H,channels…] of f32, and zeros.
  mlir::Value emptyOfSegments(llvm::ArrayRef<int64_t> channels);
  mlir::Value zeros(llvm::ArrayRef<int64_t> channels);
  /// Of two segments of each batch entry, of which `first` is scanned first: what they start from,
  /// `initial`, or zero, and `end`, with which that one ends. States are of type `type`.
  mlir::Value startsOfHalves(mlir::Value initial, mlir::Value end, mlir::RankedTensorType type,
                             int64_t first);
  /// Of what both end with, that of `last`, of type `type`.
  mlir::Value endsOfHalves(mlir::Value ends, mlir::RankedTensorType type, int64_t last);
  /// The scan without a step, over `sequences` of segments: one state, of type `type`.
  ScanOp scanSegments(mlir::ValueRange sequences, mlir::Type output, mlir::Type type,
                      mlir::Value initial);
  /// The scan over segments, which start from `starts`, with its step. The scan itself keeps its
  /// results' uses, and is left without a step.
  ScanOp divideScan(llvm::ArrayRef<mlir::Value> starts);
  /// The sum of `sums` over a sequence's segments, in scan order, of type `type`.
  mlir::Value addUp(mlir::Value sums, mlir::Value initial, mlir::RankedTensorType type);
  /// Replaces sums over the channels of `final`, which `sums` add up to: each segment's channels are summed
  /// first, so that `sums` are only summed, too (ejk-hoist-reductions).
  void addUpNumbers(mlir::Value sums, mlir::Value final);
  /// Of packed sequences: cu_seqlens in segments. Null of a batch.
  mlir::Value offsets();

private:
  /// `x` as `type`, which may have other dynamic sizes.
  mlir::Value castTo(mlir::Value x, mlir::RankedTensorType type);
  mlir::Value expand(mlir::Value x, mlir::ArrayRef<mlir::ReassociationIndices> groups,
                     mlir::ArrayRef<mlir::OpFoldResult> sizes);
  mlir::OpFoldResult sizeOf(mlir::Value x, unsigned dim);
  /// [N,H,…]: the sizes of states of type `type`.
  llvm::SmallVector<mlir::OpFoldResult> sizesOfStates(mlir::RankedTensorType type);
  /// ⌈T/L⌉.
  mlir::OpFoldResult segmentsOfEach();

  mlir::OpBuilder &b;
  ScanOp scan;
  SegmentsAttr segments;
  mlir::Location loc;
  mlir::Value madeOffsets;
};
} // namespace ejk

#endif // EJK_PASSES_SCAN_SEGMENTVIEWS_H
