//===- Handlers.h - interfaces between parts of the interpreter ---*- C++ -*-===//
#ifndef EJK_DIALECT_REFERENCE_HANDLERS_H
#define EJK_DIALECT_REFERENCE_HANDLERS_H

#include "dialect/ejk/Ejk.h"
#include "dialect/reference/Interpreter.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/StringMap.h"

namespace ejk::reference {
using Operands = llvm::ArrayRef<const Tensor *>;
using Results = llvm::SmallVectorImpl<Tensor>;

// Recurrence.cpp: gla, lightning_attn and recurrent, from the specification's
// formula alone; shares no code with the scan, so that each checks the other.
mlir::LogicalResult interpretRecurrence(mlir::Operation *op, Operands operands, Results &results,
                                        const Options &options);
// DeltaRule.cpp
mlir::LogicalResult interpretDeltaRule(DeltaRuleOp op, Operands operands, Results &results,
                                       const Options &options);
// Scan.cpp
mlir::LogicalResult interpretScan(ScanOp op, Operands operands, Results &results,
                                  const Options &options);
mlir::LogicalResult interpretHeads(mlir::Operation *op, Operands operands, Results &results);
mlir::LogicalResult interpretSumHeads(SumHeadsOp op, Operands operands, Results &results,
                                      const Options &options);
// Segments.cpp
mlir::LogicalResult interpretSegmentStarts(SegmentStartsOp op, Operands operands, Results &results);
mlir::LogicalResult interpretCombineSegments(CombineSegmentsOp op, Operands operands,
                                             Results &results, const Options &options);
// Pools.cpp
mlir::LogicalResult interpretReadStates(ReadStatesOp op, Operands operands, Results &results);
mlir::LogicalResult interpretWriteStates(WriteStatesOp op, Operands operands, Results &results,
                                         const Options &options);
mlir::LogicalResult interpretZeroSkipped(ZeroSkippedOp op, Operands operands, Results &results);
// Tile.cpp
mlir::LogicalResult interpretTileProgram(tile::ProgramOp op, Operands operands, Results &results,
                                         const Options &options);
// Linalg.cpp. `lookup` gives the values that the body takes from outside.
mlir::LogicalResult interpretLinalg(mlir::linalg::LinalgOp op, Operands operands, Results &results,
                                    const Options &options,
                                    llvm::function_ref<const Tensor *(mlir::Value)> lookup);

/// Checks operand sizes at run time against the specification's letters. The first operand with a
/// letter binds its size. An operand that disagrees is an error with its name, the expected size,
/// the reason, and the given size.
class SizeCheck {
public:
  explicit SizeCheck(mlir::Operation *op) : op(op) {}
  mlir::LogicalResult check(const Tensor &tensor, llvm::StringRef name,
                            llvm::ArrayRef<llvm::StringRef> letters);
  void bind(llvm::StringRef letter, int64_t size, llvm::StringRef from);
  int64_t size(llvm::StringRef letter) const;
  /// Checks that `divisor` heads divide `heads`, of which the specification's letter is `letter`.
  mlir::LogicalResult checkHeads(llvm::StringRef name, int64_t divisor, int64_t heads,
                                 llvm::StringRef letter = "H");

private:
  mlir::Operation *op;
  llvm::StringMap<std::pair<int64_t, std::string>> bound;
};

/// A sequence: batch entry `batch`, rows `begin` to `end`.
struct Span {
  int64_t batch, begin, end;
};
/// A part of a sequence that is scanned by itself: rows `begin` to `end` of sequence `sequence`.
/// Without segments it is the whole sequence.
struct Segment {
  int64_t sequence, begin, end;

  /// Its last `rows` rows in the direction of a scan; all where it has fewer.
  Segment trailing(int64_t rows, bool reverse) const {
    rows = std::min(rows, end - begin);
    return reverse ? Segment{sequence, begin, begin + rows} : Segment{sequence, end - rows, end};
  }
};
/// The segments that a scan or a block program runs over, in the order of their states.
std::vector<Segment> segmentsOf(llvm::ArrayRef<Span> spans, SegmentsAttr segments, int64_t steps,
                                bool packed);

/// The spans of a batch or of packed sequences. Verifies the offsets: the first is 0, none is less
/// than the previous one, and the last is at most T.
/// Rows after it belong to no sequence.
mlir::FailureOr<std::vector<Span>> sequenceSpans(mlir::Operation *op, const Tensor *cuSeqlens,
                                                 int64_t batch, int64_t steps);

/// Appends a result of zeros with the given shape. Fails if it is too large or contradicts a static
/// size of `type`.
mlir::LogicalResult addResult(mlir::Operation *op, mlir::Type type, llvm::ArrayRef<int64_t> shape,
                              Results &results);

/// Emits "the interpreter does not know …" at `op`.
mlir::LogicalResult unknownOp(mlir::Operation *op);

/// Runs job(0) to job(count-1) on the options' threads, in any order.
void parallelFor(size_t count, const Options &options, llvm::function_ref<void(size_t)> job);

/// Counts finished steps over all threads and reports them.
class Progress {
public:
  Progress(const Options &options, size_t total);
  ~Progress();
  void add(size_t steps);

private:
  struct State;
  std::unique_ptr<State> state;
};
} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_HANDLERS_H
