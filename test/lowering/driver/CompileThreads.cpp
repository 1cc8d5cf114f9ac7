//===- CompileThreads.cpp - the compiler, called from several threads -----===//
//
//   ejk-compile-threads FILE.mlir...
//
// Compiles each file in several ways, one after the other. Then threads do the same, all at once,
// each starting at another place. Every package must have the same bytes as before, and LLVM's
// options must be as they were.
//
//===----------------------------------------------------------------------===//
#include "lowering/driver/Compiler.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "tools/common/Registration.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include <thread>

using namespace ejk;

static constexpr unsigned kThreads = 4;

namespace {
struct Job {
  std::string file;
  CompileOptions options;
};
} // namespace

/// A package, or nothing after a diagnostic.
static std::string compileAlone(const Job &job) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(job.file, &context);
  if (!module)
    return "";
  mlir::FailureOr<std::string> package = compile(*module, Stage::package, job.options);
  return mlir::failed(package) ? "" : *package;
}

/// The options that say how LLVM generates code, of those that are of type bool.
static std::vector<bool> llvmOptions() {
  std::vector<bool> values;
  auto &options = llvm::cl::getRegisteredOptions();
  for (llvm::StringRef name : {"nvptx-short-ptr", "disable-machine-licm", "disable-lsr"})
    values.push_back(*static_cast<llvm::cl::opt<bool> *>(options.find(name)->second));
  return values;
}

int main(int argc, char **argv) {
  std::vector<Job> jobs;
  for (int i = 1; i < argc; ++i)
    for (const char *arch : {"sm_80", "sm_90a"})
      for (Schedule schedule : {Schedule::step, Schedule::chunk}) {
        CompileOptions options;
        options.archs = {arch};
        options.schedule = schedule;
        options.derivatives = schedule == Schedule::step;
        options.cubin = CompileOptions::Cubin::never;
        jobs.push_back({argv[i], options});
      }
  std::vector<bool> before = llvmOptions();
  std::vector<std::string> expected;
  for (const Job &job : jobs)
    expected.push_back(compileAlone(job));

  std::vector<std::thread> threads;
  std::vector<unsigned> same(kThreads);
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < jobs.size(); ++i) {
        size_t j = (i + t * jobs.size() / kThreads) % jobs.size();
        same[t] += !expected[j].empty() && compileAlone(jobs[j]) == expected[j];
      }
    });
  for (std::thread &thread : threads)
    thread.join();

  unsigned total = 0;
  for (unsigned count : same)
    total += count;
  bool ok = total == kThreads * jobs.size();
  llvm::outs() << total << " of " << kThreads * jobs.size() << " packages of " << kThreads
               << " threads are those of one thread\n";
  if (llvmOptions() != before) {
    ok = false;
    llvm::outs() << "LLVM's options have changed\n";
  }
  return ok ? 0 : 1;
}
