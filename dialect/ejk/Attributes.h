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
/// On a function's argument: it is a delta rule's key, about as long as 1, or its rate, from 0 to 1.
constexpr llvm::StringLiteral kKeyAttr = "ejk.key", kRateAttr = "ejk.rate";
/// On a function's argument or result: its shape in symbols, ["B", "T", "64"];
/// see ejk-describe-interface.
constexpr llvm::StringLiteral kShapeAttr = "ejk.shape";
/// On a function's argument that is a cu_seqlens: its last entry, in symbols.
constexpr llvm::StringLiteral kTotalAttr = "ejk.total";
/// On a function's argument that holds indices into a pool: the pool's states, in symbols.
constexpr llvm::StringLiteral kIndexedStatesAttr = "ejk.indexed_states";
/// On a function: what its callers must satisfy, as dictionaries.
constexpr llvm::StringLiteral kConstraintsAttr = "ejk.constraints";
/// On f_fwd: f.
constexpr llvm::StringLiteral kForwardOfAttr = "ejk.forward_of";
/// On a lowered function: the number of arguments before the results.
constexpr llvm::StringLiteral kNumInputsAttr = "ejk.num_inputs";
/// On a lowered function's result: the input that it may replace.
constexpr llvm::StringLiteral kMayAliasAttr = "ejk.may_alias";
/// Of an input whose rows lie as far apart as the caller says.
constexpr llvm::StringLiteral kRowStrideAttr = "ejk.row_stride";
/// On a lowered function's result that may replace an input: it must.
constexpr llvm::StringLiteral kInPlaceAttr = "ejk.in_place";
/// On a scan: its class of decay, in words.
constexpr llvm::StringLiteral kDecayClassAttr = "ejk.decay_class";
/// On f_vjp: f, whose derivative it is. Its arguments are f's, then cotangents, then saved states.
constexpr llvm::StringLiteral kDerivativeOfAttr = "ejk.derivative_of";
/// On a derivative's argument: the result of its function that it is the cotangent of, by name.
constexpr llvm::StringLiteral kCotangentOfAttr = "ejk.cotangent_of";
/// On a derivative's result: the argument of its function that it is the gradient of, by name.
constexpr llvm::StringLiteral kGradientOfAttr = "ejk.gradient_of";
/// On f_vjp's argument: rows that the steps of f read, which f_fwd gives. They have the rounding of
/// its matmuls.
constexpr llvm::StringLiteral kSavedReadAttr = "ejk.saved_read";
} // namespace ejk

#endif // EJK_DIALECT_EJK_ATTRIBUTES_H
