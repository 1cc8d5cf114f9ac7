//===- Corpus.cpp - the modules that mutants are made of ------------------===//
#include "Corpus.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::fuzz;

static constexpr const char *kCommon[] = {
    // Each pass by itself.
    "ejk-describe-interface",
    "ejk-normalize-gates",
    "ejk-to-scan",
    "ejk-include-diagonal",
    "ejk-merge-decays",
    "ejk-derive-backward",
    "ejk-cut-rows",
    "ejk-cut-rows{shared=true}",
    "ejk-scale-after-read",
    "ejk-column-states",
    "ejk-cut-small-states",
    "ejk-separate-states",
    "ejk-split-states",
    "ejk-fold-own-heads",
    "ejk-gather-shifts",
    "ejk-expand-queries",
    "ejk-split-rotations",
    "ejk-split-sums",
    "ejk-split-reads",
    "ejk-split-reads{turned=true}",
    "ejk-narrow-operands",
    "ejk-hoist-reductions",
    "ejk-narrow-saves",
    "ejk-chunk",
    "ejk-fuse-programs",
    "ejk-merge-ifs",
    "ejk-scale-after-dot",
    "ejk-reuse-exponentials",
    "ejk-load-states-by-rows",
    "ejk-slice-rows-early",
    "ejk-sink-into-branches",
    "ejk-defer-state-scaling",
    "ejk-hoist-from-branches",
    "ejk-reuse-scaled-rows",
    "ejk-truncate-live-exponentials",
    "ejk-split-operands",
    "ejk-multiply-in-tf32",
    "ejk-assign-tile-layouts",
    "ejk-assign-tile-layouts{arch=sm_90a}",
    "ejk-select-warps{arch=sm_90a}",
    "ejk-schedule-matmuls",
    "ejk-multistage-loads",
    "ejk-pipeline-matmuls",
    "ejk-defer-stores",
    "ejk-pipeline-branch-operands",
    "ejk-select-stages",
    "ejk-select-stages{arch=sm_90a}",
    "ejk-split-exponentials",
    "ejk-specialize-warps",
    "ejk-partition-warps",
    "ejk-partition-warps{arch=sm_90a}",
    "ejk-make-alternatives",
    "ejk-enlarge-step-tiles",
    "ejk-select-schedule",
    "ejk-select-schedule{schedule=chunk}",
    "func.func(ejk-cut-fronts)",
    "func.func(ejk-cut-fronts{arch=sm_90a})",
    "ejk-jam-heads{arch=sm_90a}",
    "func.func(ejk-sum-in-turn)",
    "ejk-plan-memory",
    "ejk-plan-memory{arch=sm_90a}",
    "ejk-take-turns",
    "ejk-check-races",
    "ejk-lower-to-gpu",
    "ejk-lower-to-gpu{arch=sm_90a}",
    "ejk-lower-to-cpu",
    "ejk-expand-solves",
    "ejk-split-over-time",
    "ejk-split-over-time{whole=true}",
    "ejk-split-over-time{halves=true least=8}",
    "func.func(ejk-restart-scans{rows=16})",
    "ejk-split-over-time{least=16 most=16 packed=16 forget=-2 trailing=8}",
    "ejk-separate-kernels",
    "gpu.module(ejk-legalize-kernel-math)",
    "gpu.module(ejk-hold-bf16-as-bits)",
    "func.func(ejk-fuse-elementwise)",
    "canonicalize",
    "cse",
    // Together.
    "ejk-specialize",
    "ejk-backward",
    "ejk-backward{gate-gradients=suffix checkpoint-every=16}",
    "ejk-specialize,ejk-to-tile",
    "ejk-to-gpu",
    "ejk-to-gpu{arch=sm_90a}",
    "ejk-specialize,ejk-lower-to-cpu",
    "ejk-specialize,ejk-to-gpu",
    "ejk-specialize,ejk-to-gpu,ejk-to-nvvm",
    "ejk-backward,ejk-to-gpu,ejk-to-nvvm",
    "ejk-specialize,ejk-to-gpu{schedule=chunk}",
    "ejk-assign-tile-layouts,ejk-plan-memory,ejk-lower-to-gpu",
    ("ejk-assign-tile-layouts{arch=sm_90a},ejk-select-stages{arch=sm_90a},"
     "ejk-plan-memory{arch=sm_90a},ejk-lower-to-gpu{arch=sm_90a}"),
    ("func.func(ejk-sum-in-turn),ejk-assign-tile-layouts,ejk-plan-memory,ejk-take-turns,ejk-check-"
     "races,"
     "ejk-lower-to-gpu"),
    "ejk-lower-to-gpu,ejk-to-nvvm",
};

static constexpr const char *kPrefixes[] = {
    "", "", "", "", "ejk-specialize", "ejk-backward", "ejk-specialize,ejk-to-tile",
    "ejk-describe-interface,ejk-assign-tile-layouts",
    "ejk-specialize,ejk-to-tile,ejk-assign-tile-layouts{arch=sm_90a}",
    ("ejk-specialize,ejk-to-tile,ejk-assign-tile-layouts{arch=sm_90a},ejk-schedule-matmuls,"
     "ejk-multistage-loads"),
    "ejk-specialize,ejk-to-tile,ejk-assign-tile-layouts,ejk-multistage-loads,ejk-specialize-warps",
    "ejk-specialize,ejk-to-gpu",
};

ArrayRef<const char *> fuzz::commonPipelines() { return kCommon; }
ArrayRef<const char *> fuzz::prefixes() { return kPrefixes; }

std::vector<std::string> fuzz::pipelinesOf(StringRef text) {
  // RUN lines that go on are one.
  std::string commands;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines)
    if (auto [before, command] = line.split("RUN: "); !command.empty())
      commands += command.consume_back("\\") ? command.str() : (command + "\n").str();

  std::vector<std::string> pipelines;
  SmallVector<StringRef> parts;
  StringRef(commands).split(parts, '\n');
  for (StringRef line : parts) {
    SmallVector<StringRef> stages;
    line.split(stages, '|');
    for (StringRef stage : stages) {
      std::string pipeline;
      // Words, where what quotes hold is one.
      char quote = 0;
      std::string word;
      for (char c : (stage + " ").str()) {
        if (c == '"' || c == '\'') {
          quote = quote == c ? 0 : quote ? quote : c;
          continue;
        }
        if (c != ' ' || quote) {
          word += c;
          continue;
        }
        StringRef flag = word;
        if (flag.consume_front("--")) {
          auto [name, options] = flag.split('=');
          if (PassInfo::lookup(name) || PassPipelineInfo::lookup(name))
            pipeline += (pipeline.empty() ? "" : ",") + name.str() +
                        (options.empty() ? "" : "{" + options.str() + "}");
        }
        word.clear();
      }
      if (!pipeline.empty() && !llvm::is_contained(pipelines, pipeline))
        pipelines.push_back(pipeline);
    }
  }
  return pipelines;
}

static void readFile(const std::string &path, std::vector<Seed> &seeds) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return;
  StringRef text = (*buffer)->getBuffer();
  std::vector<std::string> pipelines = pipelinesOf(text);
  SmallVector<StringRef> modules;
  text.split(modules, "\n// -----");
  for (StringRef module : modules)
    seeds.push_back({path, module.str(), pipelines});
}

std::vector<Seed> fuzz::readSeeds(ArrayRef<std::string> folders) {
  std::vector<std::string> paths;
  for (const std::string &folder : folders) {
    std::error_code error;
    if (!llvm::sys::fs::is_directory(folder))
      paths.push_back(folder);
    for (llvm::sys::fs::recursive_directory_iterator it(folder, error), end; it != end && !error;
         it.increment(error))
      if (llvm::sys::path::extension(it->path()) == ".mlir")
        paths.push_back(it->path());
  }
  llvm::sort(paths);
  std::vector<Seed> seeds;
  for (const std::string &path : paths)
    readFile(path, seeds);
  return seeds;
}
