//===- JoinVariants.h - the entries of a manifest and their variants --*- C++ -*-===//
//
// Each program of launches is described as an entry with one variant. Alternatives join
// the entry of the function that they compute in another way (docs/package-format.md).
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_HOST_JOINVARIANTS_H
#define EJK_LOWERING_HOST_JOINVARIANTS_H

#include "llvm/Support/JSON.h"

namespace ejk {

/// Adds `entry`, or its variant to the entry of its name. What callers see of that is the
/// function's own description, not that of an alternative.
void addEntry(llvm::json::Array &entries, llvm::json::Object entry, bool isAlternative);

/// An entry with one way alone, of no schedule's name, has no variants.
void unwrapSingle(llvm::json::Object &entry);

/// Gives each f_fwd the variants in which nothing is saved, and, where code runs on devices with
/// less shared memory than others (`isPortable`), f_vjp's that read what is saved the condition
/// that f_fwd saves it.
void completeForwards(llvm::json::Array &entries, bool isPortable);

} // namespace ejk

#endif // EJK_LOWERING_HOST_JOINVARIANTS_H
