//===- CommandLine.cpp - what compiler tools say of themselves ------------===//
#include "tools/common/CommandLine.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"

void ejk::initCommandLine(llvm::StringRef tool, llvm::cl::OptionCategory &category) {
  llvm::cl::SetVersionPrinter([tool](llvm::raw_ostream &os) {
    os << tool << " " EJK_VERSION ", with LLVM " LLVM_VERSION_STRING "\n";
  });
  llvm::cl::HideUnrelatedOptions(category);
}
