//===- Alternatives.h - several ways to compute a function --------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_ALTERNATIVES_H
#define EJK_LOWERING_SELECT_ALTERNATIVES_H

#include "dialect/ejk/AlternativeAttributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace ejk {

/// Segments side by side: of few sequences, and of so few that short segments fit the device at
/// once.
constexpr llvm::StringLiteral kSplitSchedule = "split";
constexpr llvm::StringLiteral kFineSplitSchedule = "fine-split";
constexpr llvm::StringLiteral kStepSchedule = "step";
constexpr llvm::StringLiteral kChunkSchedule = "chunk";
/// The same with programs that the gates of each head choose; so the bits of what "chunk" gives do
/// not depend on how many rows a launch has.
constexpr llvm::StringLiteral kByGatesSchedule = "chunk-by-gates";

/// The schedule that `function` is to have; empty where it has no alternatives.
llvm::StringRef scheduleOf(mlir::func::FuncOp function);
/// The name of the function that a call names, of which `function` is one way.
llvm::StringRef entryOf(mlir::func::FuncOp function);
/// The user's function that `function` was made of, as its derivative, forward or alternative;
/// empty where there is none.
llvm::StringRef originOf(mlir::func::FuncOp function);
/// Whether one of the ways to compute what `function` does goes step by step.
bool hasStepAlternative(mlir::func::FuncOp function);

/// A copy of `function` called `function`_`suffix` or the like, another way to compute it. It
/// stands before `function`, and so is taken before it, or after it.
mlir::func::FuncOp cloneAlternative(mlir::func::FuncOp function, llvm::StringRef suffix,
                                    llvm::StringRef schedule, bool before);

/// The condition on sizes and device under which `function`, whose scans are divided into segments,
/// is faster than undivided; null where none is divided, or sizes that are known say never. With
/// `inOneRound` it holds only where the device takes all segments at once.
mlir::ArrayAttr splitPays(mlir::func::FuncOp function, bool inOneRound);

/// Whether a derivative has gradients of gates that are numbers per head, or of fewer channels than
/// `kFewHeads`, or corrects its state, and chunks round that; whether it may be of few heads
/// (passes/Rounding.h); and the condition on sizes under which it is, null if it always is.
struct HeadNumbers {
  bool exist = false, mayBeFew = false;
  mlir::ArrayAttr areFew;
};
HeadNumbers countHeads(mlir::func::FuncOp function);

/// Erases alternatives that turned out to be the same as another: those of chunks in which no
/// scan became a program. Each entry keeps one that needs nothing.
void pruneAlternatives(mlir::ModuleOp module);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_ALTERNATIVES_H
