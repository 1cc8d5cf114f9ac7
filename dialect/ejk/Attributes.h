//===- Attributes.h - the discardable attributes of the ejk dialect --------===//
//
// What passes and tools leave on ops, functions and their arguments. The dialect
// verifies that each is known and has the right kind, so a misspelt one is an
// error; KnownAttributes.cpp has the table.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_EJK_ATTRIBUTES_H
#define EJK_DIALECT_EJK_ATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace ejk {
/// On a function's argument or result: its name; see Names.h.
constexpr llvm::StringLiteral kNameAttr = "ejk.name";
/// On a function's argument: the specification's letter of the one recurrence operand
/// that it feeds, by which it is found, too.
constexpr llvm::StringLiteral kOperandAttr = "ejk.operand";
/// On a function's argument: it is the logarithm of a decay, at most 0. A user may say so of
/// one that a gate is computed from.
constexpr llvm::StringLiteral kLogDecayAttr = "ejk.log_decay";
/// On a function's argument or result: its shape in symbols, ["B", "T", "64"];
/// see ejk-describe-interface.
constexpr llvm::StringLiteral kShapeAttr = "ejk.shape";
/// On a function's argument that is a cu_seqlens: its last entry, in symbols.
constexpr llvm::StringLiteral kTotalAttr = "ejk.total";
/// On a function: what its callers must satisfy, as dictionaries.
constexpr llvm::StringLiteral kConstraintsAttr = "ejk.constraints";
/// On f_fwd: f.
constexpr llvm::StringLiteral kForwardOfAttr = "ejk.forward_of";
/// On a lowered function: the number of arguments before the results.
constexpr llvm::StringLiteral kNumInputsAttr = "ejk.num_inputs";
/// On a lowered function's result: the input that it may replace.
constexpr llvm::StringLiteral kMayAliasAttr = "ejk.may_alias";
/// On a lowered function's result that may replace an input: it must.
constexpr llvm::StringLiteral kInPlaceAttr = "ejk.in_place";
/// On a scan: its class of decay, in words.
constexpr llvm::StringLiteral kDecayClassAttr = "ejk.decay_class";
/// On an `arith.mulf` of what is read of a state: this product nearly cancels others
/// in a sum, of the same numbers read of the state's adjoint. A schedule that rounds
/// what it multiplies must round it alike on both sides.
constexpr llvm::StringLiteral kPairingAttr = "ejk.pairing";
} // namespace ejk

#endif // EJK_DIALECT_EJK_ATTRIBUTES_H
