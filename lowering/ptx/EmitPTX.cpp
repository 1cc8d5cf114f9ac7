//===- EmitPTX.cpp - kernels in the llvm dialect to PTX ------------------===//
#include "lowering/ptx/EmitPTX.h"
#include "lowering/ptx/KeepOffsets.h"
#include "lowering/kernels/KernelBuilder.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Scalar.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Utils.h"
#include <mutex>
#include <utility>

using namespace mlir;
using namespace ejk;

namespace {
/// Has the NVPTX machines that are made while it lives use 32 bits for an address in shared memory.
/// LLVM reads this from a command-line option, in a machine's constructor alone, and has no other
/// way to ask for it. So the option is set while one machine is made, by one thread at a time.
class ShortPointers {
public:
  ShortPointers() : lock(mutex()) {
    auto &options = llvm::cl::getRegisteredOptions();
    if (auto found = options.find("nvptx-short-ptr"); found != options.end())
      option = static_cast<llvm::cl::opt<bool> *>(found->second);
    if (option) {
      before = *option;
      option->setValue(true);
    }
  }
  ~ShortPointers() {
    if (option)
      option->setValue(before);
  }

private:
  static std::mutex &mutex() {
    static std::mutex instance;
    return instance;
  }

  std::lock_guard<std::mutex> lock;
  llvm::cl::opt<bool> *option = nullptr;
  bool before = false;
};

/// Code generation without the passes that move what a loop uses out of it, for addresses are made
/// where they are used (KeepOffsets.h), and without some that find nothing in kernels: constants that
/// are dear to make, memcmp, and values that are the same after global value numbering has been there.
class CodegenPasses : public llvm::legacy::PassManager {
public:
  CodegenPasses() {
    using OwnedPass = std::unique_ptr<llvm::Pass>;
    leftOut = {&llvm::EarlyMachineLICMID,
               OwnedPass(llvm::createLoopStrengthReducePass())->getPassID(),
               OwnedPass(llvm::createCanonicalizeFreezeInLoopsPass())->getPassID(),
               OwnedPass(llvm::createConstantHoistingPass())->getPassID(),
               OwnedPass(llvm::createExpandMemCmpLegacyPass())->getPassID(),
               OwnedPass(llvm::createEarlyCSEPass())->getPassID()};
    valueNumbering = OwnedPass(llvm::createGVNPass())->getPassID();
  }
  void add(llvm::Pass *pass) override {
    bool isLeftOut = llvm::is_contained(leftOut, pass->getPassID());
    // Twice in the pipeline.
    if (pass->getPassID() == valueNumbering)
      isLeftOut = std::exchange(hasValueNumbering, true);
    if (isLeftOut)
      delete pass;
    else
      llvm::legacy::PassManager::add(pass);
  }

private:
  SmallVector<llvm::AnalysisID, 6> leftOut;
  llvm::AnalysisID valueNumbering;
  bool hasValueNumbering = false;
};

/// What LLVM's default pipeline at O2 has for kernels, which have no calls, no globals and no memory of
/// their own, and whose loops the schedule has unrolled, since it knows their registers. Each pass that
/// is not here left the examples' kernels for sm_80 and sm_90a as they were.
/// `tools/ejk-digest` shows a kernel that a change of the list changes.
constexpr llvm::StringLiteral kPasses =
    "function<eager-inv>(simplifycfg,sroa<modify-cfg>,early-cse),"
    "ipsccp,"
    "function<eager-inv>("
    // The function's values.
    "instcombine<no-verify-fixpoint>,"
    "simplifycfg<switch-range-to-icmp>,"
    "early-cse<memssa>,"
    "speculative-execution<only-if-divergent-target>,"
    "correlated-propagation,"
    "simplifycfg<switch-range-to-icmp>,"
    "instcombine<no-verify-fixpoint>,"
    "simplifycfg<switch-range-to-icmp>,"
    "reassociate,"
    "constraint-elimination,"
    // Its loops.
    "loop-mssa(licm<no-allowspeculation>,loop-rotate,licm),"
    "simplifycfg<switch-range-to-icmp>,"
    "instcombine<no-verify-fixpoint>,"
    "loop(indvars),"
    // What is computed twice, and what nobody reads.
    "mldst-motion,"
    "gvn,"
    "sccp,"
    "bdce,"
    "instcombine<no-verify-fixpoint>,"
    "correlated-propagation,"
    "loop-mssa(licm),"
    "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-common-insts;sink-common-insts>,"
    "instcombine<no-verify-fixpoint>,"
    // The same after all is in the form that code generation wants.
    "loop(loop-rotate,loop-deletion),"
    "simplifycfg<forward-switch-cond;switch-range-to-icmp;switch-to-arithmetic;switch-to-lookup;"
    "no-keep-loops;hoist-common-insts;sink-common-insts>,"
    "vector-combine,"
    "loop-unroll<O2>,"
    "infer-alignment,"
    "instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm),"
    "div-rem-pairs,"
    "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-loads-stores-with-cond-faulting;"
    "speculate-unpredictables>)";
} // namespace

static std::unique_ptr<llvm::TargetMachine> createMachine(const Target &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  ShortPointers shortPointers;
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target.name, "+ptx" + std::to_string(target.ptxVersion),
                                   llvm::TargetOptions(), std::nullopt, std::nullopt,
                                   llvm::CodeGenOptLevel::Aggressive));
}

namespace {
/// Optimised LLVM IR and the machine it was made for.
struct Translation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
};
} // namespace

/// Tensor maps are 128 bytes among a kernel's parameters, named by their address there. Of all
/// arguments only they are pointers into no address space of their own; what gpu.func says of
/// them being passed by value, upstream's conversion to llvm.func drops.
static void passMapsByValue(llvm::Module &module) {
  llvm::LLVMContext &context = module.getContext();
  auto *bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), kMapBytes);
  for (llvm::Function &function : module)
    for (llvm::Argument &argument : function.args())
      if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel &&
          argument.getType() == llvm::PointerType::get(context, 0)) {
        argument.addAttr(llvm::Attribute::getWithByValType(context, bytes));
        argument.addAttr(llvm::Attribute::getWithAlignment(context, llvm::Align(kMapAlignment)));
        argument.addAttr(llvm::Attribute::get(context, "nvvm.grid_constant"));
      }
}

static std::unique_ptr<llvm::Module> translate(gpu::GPUModuleOp kernels, llvm::LLVMContext &context,
                                               llvm::TargetMachine &machine,
                                               function_ref<bool()> isCancelled) {
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(kernels, context, "ejk");
  if (!module)
    return nullptr;
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple());
  passMapsByValue(*module);

  llvm::PassInstrumentationCallbacks callbacks;
  if (isCancelled)
    callbacks.registerShouldRunOptionalPassCallback(
        [&](StringRef, llvm::Any) { return !isCancelled(); });
  llvm::PassBuilder passes(&machine, llvm::PipelineTuningOptions(), std::nullopt, &callbacks);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::ModulePassManager pipeline;
  llvm::cantFail(passes.parsePassPipeline(pipeline, kPasses));
  llvm::FunctionPassManager addresses;
  addresses.addPass(PutConstantsLastPass());
  addresses.addPass(AddArgumentsLastPass());
  addresses.addPass(llvm::EarlyCSEPass());
  addresses.addPass(KeepOffsetsPass());
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(addresses)));
  pipeline.run(*module, modules);
  return module;
}

/// Null after an error at `kernels`.
static std::unique_ptr<Translation> translateFor(gpu::GPUModuleOp kernels, const Target &target,
                                                 function_ref<bool()> isCancelled = nullptr) {
  auto result = std::make_unique<Translation>();
  result->machine = createMachine(target);
  if (!result->machine) {
    kernels.emitError("this LLVM has no NVPTX target");
    return nullptr;
  }
  result->module = translate(kernels, result->context, *result->machine, isCancelled);
  return result->module ? std::move(result) : nullptr;
}

/// `work` of each of `kernels`, on the context's threads, and what it gives, in order.
static FailureOr<SmallVector<std::string>>
forEach(ArrayRef<gpu::GPUModuleOp> kernels,
        function_ref<FailureOr<std::string>(gpu::GPUModuleOp)> work) {
  if (kernels.empty())
    return SmallVector<std::string>();
  MLIRContext &context = *kernels.front()->getContext();
  // A context learns of translations by one thread.
  registerBuiltinDialectTranslation(context);
  registerGPUDialectTranslation(context);
  registerLLVMDialectTranslation(context);
  registerNVVMDialectTranslation(context);
  SmallVector<std::string> texts(kernels.size());
  ParallelDiagnosticHandler diagnostics(&context);
  auto all = llvm::seq<size_t>(0, kernels.size());
  LogicalResult worked = failableParallelForEach(&context, all, [&](size_t i) {
    diagnostics.setOrderIDForThread(i);
    FailureOr<std::string> text = work(kernels[i]);
    if (succeeded(text))
      texts[i] = std::move(*text);
    diagnostics.eraseOrderIDForThread();
    return success(succeeded(text));
  });
  if (failed(worked))
    return failure();
  return texts;
}

FailureOr<std::string> ejk::emitLLVM(ArrayRef<gpu::GPUModuleOp> kernels, const Target &target) {
  FailureOr<SmallVector<std::string>> parts =
      forEach(kernels, [&](gpu::GPUModuleOp each) -> FailureOr<std::string> {
        std::unique_ptr<Translation> translation = translateFor(each, target);
        if (!translation)
          return failure();
        std::string text;
        llvm::raw_string_ostream os(text);
        llvm::WriteBitcodeToFile(*translation->module, os);
        return text;
      });
  if (failed(parts))
    return failure();
  llvm::LLVMContext context;
  llvm::Module all("ejk", context);
  for (StringRef part : *parts) {
    auto module = llvm::parseBitcodeFile({part, "ejk"}, context);
    if (!module || llvm::Linker::linkModules(all, std::move(*module)))
      return failure();
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  os << all;
  return text;
}

/// One text of the PTX of several modules: the version and target, which are the same in each, once;
/// a declaration that several have, once.
static std::string joinPTX(ArrayRef<std::string> texts) {
  constexpr StringLiteral lastOfHead = ".address_size 64\n", firstKernel = "\n.visible .entry";
  std::string joined;
  llvm::StringSet<> declared;
  for (StringRef text : texts) {
    size_t head = text.find(lastOfHead) + lastOfHead.size(), body = text.find(firstKernel);
    if (joined.empty())
      joined = text.take_front(head);
    for (StringRef line : llvm::split(text.slice(head, body), '\n'))
      if (!line.starts_with(".") || declared.insert(line).second)
        (joined += line) += '\n';
    joined += text.substr(body);
  }
  return joined;
}

FailureOr<std::string> ejk::emitPTX(ArrayRef<gpu::GPUModuleOp> kernels, const Target &target,
                                    function_ref<bool()> isCancelled) {
  FailureOr<SmallVector<std::string>> texts =
      forEach(kernels, [&](gpu::GPUModuleOp each) -> FailureOr<std::string> {
        std::unique_ptr<Translation> translation = translateFor(each, target, isCancelled);
        if (!translation || (isCancelled && isCancelled()))
          return failure();
        llvm::SmallString<0> text;
        llvm::raw_svector_ostream os(text);
        CodegenPasses codegen;
        if (translation->machine->addPassesToEmitFile(codegen, os, nullptr,
                                                      llvm::CodeGenFileType::AssemblyFile))
          return each.emitError("this LLVM cannot print PTX"), failure();
        codegen.run(*translation->module);
        return text.str().str();
      });
  if (failed(texts))
    return failure();
  return joinPTX(*texts);
}
