//===- ejk-reduce.cpp - shrink a file that shows a fault ------------------===//
//
// What mlirReduceMain does, but that the output file is replaced by a whole one or stays as it is.
//
//===----------------------------------------------------------------------===//
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Reducer/Passes.h"
#include "tools/common/CommandLine.h"
#include "tools/common/Registration.h"
#include "tools/io/OutputFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;
using namespace mlir;

static cl::OptionCategory category("EJK's options");
static cl::opt<std::string> input(cl::Positional, cl::desc("<file>"), cl::init("-"),
                                  cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("Where the reduced module goes"),
                                   cl::value_desc("file"), cl::init("-"), cl::cat(category));

static int fail(llvm::StringRef message) {
  llvm::errs() << "ejk-reduce: " << message << "\n";
  return 1;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  ejk::initCommandLine("ejk-reduce", category);
  DialectRegistry registry;
  ejk::registerAll(registry);
  registerReducerPasses();
  PassPipelineCLParser pipeline("", "Passes to run");
  cl::ParseCommandLineOptions(argc, argv, "Shrinks a module to what a test still accepts.\n");
  if (std::string error = ejk::checkNoInput(output, {input}); !error.empty())
    return fail(error);

  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(input, ParserConfig(&context));
  if (!module)
    return 1;
  PassManager passes(&context);
  auto report = [&](const Twine &message) {
    llvm::errs() << message << "\n";
    return failure();
  };
  if (failed(pipeline.addToPipeline(passes, report)))
    return 1;
  // A reducer also tries modules that are not valid, and drops them. What is wrong with those tells
  // a user nothing; what makes the passes fail does.
  std::vector<Diagnostic> problems;
  LogicalResult reduced = failure();
  {
    ScopedDiagnosticHandler collect(
        &context, [&](Diagnostic &problem) { problems.push_back(std::move(problem)); });
    reduced = passes.run(*module);
  }
  if (failed(reduced)) {
    for (Diagnostic &problem : problems)
      context.getDiagEngine().emit(std::move(problem));
    return 1;
  }

  std::string text;
  llvm::raw_string_ostream(text) << *module;
  std::string error = output == "-" ? ejk::writeStandardOutput(text) : ejk::writeFile(output, text);
  return error.empty() ? 0 : fail(error);
}
