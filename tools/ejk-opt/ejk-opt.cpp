//===- ejk-opt.cpp - run ejk's passes on a file ---------------------------===//
#include "lowering/target/CostModel.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tools/common/CommandLine.h"
#include "tools/common/Registration.h"
#include "tools/io/OutputFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

/// Has messages come without the op's generic form, unless the flag is given.
static void printNoOpsOnDiagnostics() {
  mlir::registerMLIRContextCLOptions();
  auto found = llvm::cl::getRegisteredOptions().find("mlir-print-op-on-diagnostic");
  if (found != llvm::cl::getRegisteredOptions().end())
    static_cast<llvm::cl::opt<bool> *>(found->second)->setInitialValue(false);
}

static int fail(llvm::StringRef message) {
  llvm::errs() << "ejk-opt: " << message << "\n";
  return 1;
}

/// What MlirOptMain does, but that the output file is replaced by a whole one or stays as it is.
static int writeTo(const std::string &output, const std::string &input,
                   mlir::DialectRegistry &registry, const mlir::MlirOptMainConfig &config) {
  std::string error = ejk::checkNoInput(output, {input});
  if (!error.empty())
    return fail(error);
  std::unique_ptr<llvm::MemoryBuffer> file = mlir::openInputFile(input, &error);
  if (!file)
    return fail(error);
  std::string text;
  llvm::raw_string_ostream os(text);
  if (failed(MlirOptMain(os, std::move(file), registry, config)))
    return 1;
  error = ejk::writeFile(output, text);
  return error.empty() ? 0 : fail(error);
}

/// --ejk-print-cost-model is short for the flag with which MLIR's driver prints remarks of a
/// category.
static std::vector<char *> expandFlags(int argc, char **argv) {
  static std::string printDecisions = "--remarks-filter-analyse=" + ejk::cost::kCategory.str();
  std::vector<char *> flags(argv, argv + argc);
  for (char *&flag : flags)
    if (llvm::StringRef(flag).ltrim('-') == "ejk-print-cost-model" && flag[0] == '-')
      flag = printDecisions.data();
  return flags;
}

int main(int argc, char **argv) {
  llvm::cl::OptionCategory category("EJK's options");
  ejk::initCommandLine("ejk-opt", category);
  std::vector<char *> flags = expandFlags(argc, argv);
  argv = flags.data();
  mlir::DialectRegistry registry;
  ejk::registerAll(registry);
  printNoOpsOnDiagnostics();
  auto [input, output] =
      mlir::registerAndParseCLIOptions(argc, argv, "ejk: gated linear recurrences\n", registry);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  bool writesFile = output != "-" && !config.shouldShowDialects() && !config.shouldListPasses();
  if (!writesFile)
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
  llvm::InitLLVM init(argc, argv);
  return writeTo(output, input, registry, config);
}
