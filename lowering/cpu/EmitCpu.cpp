//===- EmitCpu.cpp - kernels in the llvm dialect to machine code ----------===//
//
// LLVM's options are those of one machine that is made here; nothing that is set is seen by
// the rest of the process.
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/EmitCpu.h"
#include "lowering/cpu/SplitLongBlocks.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;
using namespace ejk;

static std::unique_ptr<llvm::TargetMachine> createMachine(const CpuTarget &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
  std::string error;
  llvm::Triple triple(target.triple);
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  llvm::TargetOptions options;
  options.FunctionSections = false;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default));
}

/// What an image cannot have: calls of the C library, tables of jumps, unwinding.
static void restrict(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("no-builtins");
    function.addFnAttr("no-jump-tables", "true");
    // A frame larger than a page must not jump over a stack's guard page.
    function.addFnAttr("probe-stack", "inline-asm");
    function.addFnAttr(llvm::Attribute::NoUnwind);
    for (llvm::Argument &argument : function.args())
      if (argument.getType()->isPointerTy()) {
        argument.addAttr(llvm::Attribute::NoAlias);
        argument.addAttr(llvm::Attribute::ReadOnly);
      }
  }
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine,
                     function_ref<bool()> isCancelled) {
  llvm::PipelineTuningOptions tuning;
  // The schedule chose its vectors and unrolled what it wants unrolled.
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  llvm::PassInstrumentationCallbacks callbacks;
  if (isCancelled)
    callbacks.registerShouldRunOptionalPassCallback(
        [&](StringRef, llvm::Any) { return !isCancelled(); });
  llvm::PassBuilder passes(&machine, tuning, std::nullopt, &callbacks);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

namespace {
/// Optimised LLVM IR and the machine it was made for.
struct Translation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
};
} // namespace

/// Null after an error at `kernels`.
static std::unique_ptr<Translation> translate(gpu::GPUModuleOp kernels, const CpuTarget &target,
                                              function_ref<bool()> isCancelled = nullptr) {
  auto result = std::make_unique<Translation>();
  result->machine = createMachine(target);
  if (!result->machine) {
    kernels.emitError() << "this LLVM has no target " << target.triple;
    return nullptr;
  }
  MLIRContext &context = *kernels.getContext();
  registerBuiltinDialectTranslation(context);
  registerGPUDialectTranslation(context);
  registerLLVMDialectTranslation(context);
  result->module = translateModuleToLLVMIR(kernels, result->context, "ejk");
  if (!result->module)
    return nullptr;
  result->module->setDataLayout(result->machine->createDataLayout());
  result->module->setTargetTriple(result->machine->getTargetTriple());
  restrict(*result->module);
  optimize(*result->module, *result->machine, isCancelled);
  return result;
}

static FailureOr<std::string> emitFile(gpu::GPUModuleOp kernels, const CpuTarget &target,
                                       llvm::CodeGenFileType type,
                                       function_ref<bool()> isCancelled = nullptr) {
  std::unique_ptr<Translation> translation = translate(kernels, target, isCancelled);
  if (!translation || (isCancelled && isCancelled()))
    return failure();
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream os(bytes);
  PartsPassManager codegen(splitLongBlocks(*translation->module));
  if (translation->machine->addPassesToEmitFile(codegen, os, nullptr, type))
    return kernels.emitError() << "this LLVM cannot write code for " << target.triple, failure();
  codegen.run(*translation->module);
  return bytes.str().str();
}

FailureOr<std::string> ejk::emitCpuText(gpu::GPUModuleOp kernels, const CpuTarget &target,
                                        CpuText kind) {
  if (kind == CpuText::assembly)
    return emitFile(kernels, target, llvm::CodeGenFileType::AssemblyFile);
  std::unique_ptr<Translation> translation = translate(kernels, target);
  if (!translation)
    return failure();
  std::string text;
  llvm::raw_string_ostream(text) << *translation->module;
  return text;
}

FailureOr<std::string> ejk::emitCpuObject(gpu::GPUModuleOp kernels, const CpuTarget &target,
                                          function_ref<bool()> isCancelled) {
  return emitFile(kernels, target, llvm::CodeGenFileType::ObjectFile, isCancelled);
}
