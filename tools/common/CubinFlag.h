//===- CubinFlag.h - whether packages hold machine code -------------------===//
#ifndef EJK_TOOLS_COMMON_CUBINFLAG_H
#define EJK_TOOLS_COMMON_CUBINFLAG_H

#include "lowering/driver/Compiler.h"
#include "tools/common/Choice.h"

namespace ejk {
/// --cubin, of tools that compile packages.
class CubinFlag : public Choice<CompileOptions::Cubin> {
public:
  explicit CubinFlag(llvm::cl::OptionCategory &category)
      : Choice<CompileOptions::Cubin>(
            "cubin", llvm::cl::cat(category), llvm::cl::init(CompileOptions::Cubin::automatic),
            llvm::cl::desc("Whether the package holds machine code beside PTX"),
            llvm::cl::values(
                clEnumValN(CompileOptions::Cubin::automatic, "auto", "when ptxas is found"),
                clEnumValN(CompileOptions::Cubin::never, "never", "PTX alone"),
                clEnumValN(CompileOptions::Cubin::always, "always", "fail without ptxas"))) {}
};
} // namespace ejk

#endif // EJK_TOOLS_COMMON_CUBINFLAG_H
