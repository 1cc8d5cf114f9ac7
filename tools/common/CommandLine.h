//===- CommandLine.h - what compiler tools say of themselves ------*- C++ -*-===//
#ifndef EJK_TOOLS_COMMON_COMMANDLINE_H
#define EJK_TOOLS_COMMON_COMMANDLINE_H

#include "llvm/Support/CommandLine.h"

namespace ejk {
/// For the start of a tool's `main`: `--version` gives ejk's, and `--help` shows the options of
/// `category` and those that are registered later, not those that LLVM's libraries have.
void initCommandLine(llvm::StringRef tool, llvm::cl::OptionCategory &category);
} // namespace ejk

#endif // EJK_TOOLS_COMMON_COMMANDLINE_H
