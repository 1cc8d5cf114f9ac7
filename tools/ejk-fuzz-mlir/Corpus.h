//===- Corpus.h - the modules that mutants are made of -------------*- C++ -*-===//
#ifndef EJK_TOOLS_EJKFUZZMLIR_CORPUS_H
#define EJK_TOOLS_EJKFUZZMLIR_CORPUS_H

#include "mlir/Support/LLVM.h"
#include <string>
#include <vector>

namespace ejk::fuzz {

/// One module of a file, and the pipelines that the file's RUN lines have.
struct Seed {
  std::string path, text;
  std::vector<std::string> pipelines;
};

/// The modules of all .mlir files under `folders`.
std::vector<Seed> readSeeds(llvm::ArrayRef<std::string> folders);

/// The pipelines of the RUN lines of `text`, as --pass-pipeline spells them: those of ejk-opt with
/// flags that are passes.
std::vector<std::string> pipelinesOf(llvm::StringRef text);

/// Pipelines that every module is tried with.
llvm::ArrayRef<const char *> commonPipelines();
/// Pipelines whose results are mutated, too.
llvm::ArrayRef<const char *> prefixes();

} // namespace ejk::fuzz

#endif // EJK_TOOLS_EJKFUZZMLIR_CORPUS_H
