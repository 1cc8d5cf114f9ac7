//===- AlternativeAttributes.h - attributes of ways to compute a function --===//
//
// What --ejk-make-alternatives leaves on functions; a package's manifest takes it
// from there. KnownAttributes.cpp has the table of all attributes.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_ALTERNATIVEATTRIBUTES_H
#define EJK_DIALECT_EJK_ALTERNATIVEATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace ejk {
/// On a function with alternatives, and on each of them: the schedule's name.
constexpr llvm::StringLiteral kScheduleAttr = "ejk.schedule";
/// On an alternative: the function that it is another way to compute.
constexpr llvm::StringLiteral kAlternativeOfAttr = "ejk.alternative_of";
/// On a function with alternatives, or one of them: the condition without which its results
/// would be wrong, as [op, a, b] over symbols of shapes, numbers and such conditions.
constexpr llvm::StringLiteral kNeedsAttr = "ejk.needs";
/// Likewise: the condition without which another alternative is better.
constexpr llvm::StringLiteral kWhenAttr = "ejk.when";
/// Whether matmuls of a function's block programs take operands in two terms where a sum is made of
/// what they give, or everywhere if a recurrence corrects its state, and states are saved in f32
/// (passes/Rounding.h). On a block program: that program's, whose state is a column.
constexpr llvm::StringLiteral kTwoTermsAttr = "ejk.two_terms";
/// On a function: heads of strong and of weak gates per channel are computed by programs of their
/// own, chosen on the device (lowering/select/StrongGates.h).
constexpr llvm::StringLiteral kByGatesAttr = "ejk.by_gates";
/// On a function beside one that chooses by gates: it has the same programs, and takes all gates to
/// be weak.
constexpr llvm::StringLiteral kForWeakGatesAttr = "ejk.for_weak_gates";
/// On a block program that starts from another's results: no launch has the blocks of both
/// (lowering/select/StrongGates.h).
constexpr llvm::StringLiteral kLaunchedApartAttr = "ejk.launched_apart";
/// On a scan that goes step by step: a thread has more elements of the state, for launches of many heads
/// (--ejk-enlarge-step-tiles).
constexpr llvm::StringLiteral kLargeTilesAttr = "ejk.large_tiles";
/// On a scan of a forward function that saves: how many of its last outputs are reads that the
/// derivative takes.
constexpr llvm::StringLiteral kGivenReadsAttr = "ejk.given_reads";
} // namespace ejk

#endif // EJK_DIALECT_EJK_ALTERNATIVEATTRIBUTES_H
