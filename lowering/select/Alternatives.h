//===- Alternatives.h - several ways to compute a function --------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_ALTERNATIVES_H
#define EJK_LOWERING_SELECT_ALTERNATIVES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "dialect/ejk/AlternativeAttributes.h"

namespace ejk {

/// Rows from which on chunks are faster than steps. On an H200, from docs/performance.md: a step
/// takes 0.37 us (gk, B=4,T=2048,H=16: 0.756 ms), a chunk of 64 rows 2.3 us (gk, B=1,T=8192,H=96:
/// 0.295 ms) and the first chunk's loads and the last one's stores about as much again, which is
/// 12 steps. In a derivative they are 1.43 and 7.4 us. The matmuls' tiles have 16 rows.
constexpr int64_t kFewestRowsForChunks = 16;

/// Rows from which on segments of a sequence side by side may be faster than its chunks one after
/// the other: a segment's state costs two chunks' time to combine, and a quarter of 2048 rows has
/// eight.
constexpr int64_t kFewestRowsToSplit = 2048;
/// A split computes each segment twice, once for its state alone. On an H200 (docs/performance.md)
/// that and the combination take as long as 2 (gk, B=2,T=16384,H=16: 1.75 of 3.95 x the floor, with
/// 4 segments) to 2.1 segments (gk, B=1,T=65536,H=8: 1.77 of 13.5, with 16). With a third one as
/// margin, a split is taken where it is faster by a quarter or more.
constexpr int64_t kSegmentPasses = 3;

constexpr llvm::StringLiteral kSplitSchedule = "split";
constexpr llvm::StringLiteral kStepSchedule = "step";
constexpr llvm::StringLiteral kChunkSchedule = "chunk";

/// The schedule that `function` is to have; empty where it has no alternatives.
llvm::StringRef scheduleOf(mlir::func::FuncOp function);
/// The name of the function that a call names, of which `function` is one way.
llvm::StringRef entryOf(mlir::func::FuncOp function);

/// A copy of `function` called `function`_`suffix` or the like, another way to compute it. It
/// stands before `function`, and so is taken before it, or after it.
mlir::func::FuncOp cloneAlternative(mlir::func::FuncOp function, llvm::StringRef suffix,
                                    llvm::StringRef schedule, bool before);

/// The condition on sizes and device under which `function`, whose scans are divided into segments,
/// is faster than undivided; null where none is divided, or sizes that are known say never.
mlir::ArrayAttr splitPays(mlir::func::FuncOp function);

/// Erases alternatives that turned out to be the same as another: those of chunks in which no
/// scan became a program. Each entry keeps one that needs nothing.
void pruneAlternatives(mlir::ModuleOp module);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_ALTERNATIVES_H
