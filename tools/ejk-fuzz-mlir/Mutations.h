//===- Mutations.h - small random changes of a module --------------*- C++ -*-===//
#ifndef EJK_TOOLS_EJKFUZZMLIR_MUTATIONS_H
#define EJK_TOOLS_EJKFUZZMLIR_MUTATIONS_H

#include "mlir/IR/BuiltinOps.h"
#include <random>

namespace ejk::fuzz {

using Generator = std::mt19937_64;

/// A number from 0 to `count` - 1.
inline size_t below(Generator &random, size_t count) { return random() % count; }

/// Changes `module` in one place: an operand, an op, its place, an attribute or a size. The result
/// may not verify.
void mutate(mlir::ModuleOp module, Generator &random);

/// Changes one number or one line of a module's text. The result may not parse.
std::string mutateText(llvm::StringRef text, Generator &random);

} // namespace ejk::fuzz

#endif // EJK_TOOLS_EJKFUZZMLIR_MUTATIONS_H
