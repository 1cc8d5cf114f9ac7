//===- CompilerLibrary.cpp - the functions of libejk-compiler -------------===//
#include "dialect/ejk/Names.h"
#include "dialect/reference/Interpreter.h"
#include "ejk/compiler.h"
#include "lowering/driver/Compiler.h"
#include "lowering/driver/DiagnosticLog.h"
#include "lowering/driver/Dialects.h"
#include "lowering/driver/HostTensors.h"
#include "lowering/driver/ReadModule.h"
#include "lowering/target/CpuTarget.h"
#include "lowering/target/Target.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"
#include <algorithm>
#include <cstring>
#include <new>

using namespace mlir;
using namespace ejk;

namespace {
/// A result with all that its pointers reach.
struct OwnedResult {
  ejk_result view = {}; // first, so that a pointer to it is one to the whole
  DiagnosticLog log;
  std::string data;
  std::deque<std::string> names;
  std::deque<std::vector<char>> bytes;
  std::deque<SmallVector<int64_t>> shapes;
  std::vector<ejk_host_tensor> tensors;

  ejk_result *finish(bool worked, bool cancelled) {
    view.struct_size = sizeof(view);
    view.status = cancelled ? EJK_CANCELLED : worked ? EJK_DONE : EJK_FAILED;
    if (view.status == EJK_FAILED && !log.hasError())
      log.addError("the compiler failed and did not say why: please report the source");
    view.data = data.data();
    view.size = data.size();
    view.tensors = tensors.data();
    view.num_tensors = tensors.size();
    view.diagnostics = log.list().data();
    view.num_diagnostics = log.list().size();
    return &view;
  }
};

/// A copy of a caller's struct, of which the fields that the caller does not know are zero.
template <typename T> T copyOf(const T *given) {
  T result = {};
  if (given)
    std::memcpy(&result, given, std::min(given->struct_size, sizeof(T)));
  return result;
}

static std::string sizeProblem(const char *name, size_t size) {
  return std::string(name) + ".struct_size is " + std::to_string(size) +
         "; set it to sizeof(" + name + ")";
}

/// What is wrong with a caller's structs before their fields are looked at; empty where nothing is.
static std::string problemOf(const ejk_source *source, const ejk_compile_options *options) {
  if (!source)
    return "source is NULL";
  if (source->struct_size < sizeof(size_t))
    return sizeProblem("ejk_source", source->struct_size);
  if (options && options->struct_size < sizeof(size_t))
    return sizeProblem("ejk_compile_options", options->struct_size);
  return "";
}

/// One call: a context of its own, whose diagnostics go to the result.
class Call {
public:
  Call(const ejk_source *source, const ejk_compile_options *given, OwnedResult &result)
      : problem(problemOf(source, given)), source(copyOf(source)), options(copyOf(given)),
        result(result),
        handler(&context, [&](Diagnostic &diagnostic) { result.log.add(diagnostic); }) {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.printOpOnDiagnostic(false);
    cancelPasses(context, [this] { return cancelled(); });
  }

  bool cancelled() const {
    return options.cancel && __atomic_load_n(options.cancel, __ATOMIC_RELAXED) != 0;
  }
  OwningOpRef<ModuleOp> read();
  FailureOr<std::string> compile();
  LogicalResult interpret(const char *entry, ArrayRef<const DLTensor *> inputs, bool native);

private:
  std::vector<std::string> wrt() const {
    return std::vector<std::string>(options.wrt, options.wrt + options.num_wrt);
  }
  /// Whether the options are ones that this library knows; adds an error where not.
  bool checkOptions();
  /// Finds the targets that the options name; adds an error where one is unknown.
  bool chooseTargets();

  /// What is wrong with the caller's structs themselves; empty where nothing is.
  std::string problem;
  ejk_source source;
  ejk_compile_options options;
  /// What the options' target names.
  std::vector<std::string> archs, cpus;
  bool forAllCpus = false;
  OwnedResult &result;
  MLIRContext context;
  ScopedDiagnosticHandler handler;
};
} // namespace

bool Call::checkOptions() {
  const char *const *end = options.wrt ? options.wrt + options.num_wrt : nullptr;
  if (!problem.empty())
    result.log.addError(problem);
  else if (options.num_wrt && !options.wrt)
    result.log.addError("num_wrt is " + std::to_string(options.num_wrt) + ", but wrt is NULL");
  else if (std::find(options.wrt, end, nullptr) != end)
    result.log.addError("wrt has an element that is NULL");
  else if (options.derivatives < 0 || options.derivatives > 2)
    result.log.addError("derivatives must be 0, 1 or 2, but is " +
                        Twine(options.derivatives).str());
  else if (options.emit < EJK_EMIT_PACKAGE || options.emit > EJK_EMIT_PTX)
    result.log.addError("emit must be one of ejk_emit, but is " + Twine(options.emit).str());
  else if (options.f32_matmuls < EJK_F32_MATMULS_NONE ||
           options.f32_matmuls > EJK_F32_MATMULS_BF16X6)
    result.log.addError("f32_matmuls must be one of ejk_f32_matmuls, but is " +
                        Twine(options.f32_matmuls).str());
  else if (!chooseTargets())
    return false;
  else if (!source.data && source.size)
    result.log.addError("the source has a size, but no data");
  else
    return true;
  return false;
}

/// The instruction set that is best on this machine; "" where none of the table runs.
static const char *hostArch() {
  const char *best = "";
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4"))
    best = __builtin_cpu_supports("avx512bf16") ? "x86-64-v4-bf16" : "x86-64-v4";
  else if (__builtin_cpu_supports("x86-64-v3"))
    best = "x86-64-v3";
#elif defined(__aarch64__)
  best = "aarch64";
#endif
  return best;
}

bool Call::chooseTargets() {
  SmallVector<StringRef> names;
  StringRef(options.target ? options.target : "").split(names, ',', -1, /*KeepEmpty=*/false);
  for (StringRef name : names) {
    if (name == "cpu") {
      forAllCpus = true;
    } else if (name == "native") {
      cpus.push_back(hostArch());
      if (cpus.back().empty()) {
        result.log.addError("this machine's CPU is none of those that kernels are made for:\n" +
                            describeCpuTargets());
        return false;
      }
    } else if (findCpuTarget(name)) {
      cpus.push_back(name.str());
    } else if (!findTarget(name)) {
      result.log.addError(describeUnknownTarget(name) + "; or cpu, native and:\n" +
                          describeCpuTargets());
      return false;
    } else {
      archs.push_back(name.str());
    }
  }
  return true;
}

OwningOpRef<ModuleOp> Call::read() {
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(
          StringRef(static_cast<const char *>(source.data), source.size),
          source.name ? source.name : "source"),
      llvm::SMLoc());
  return readModule(sources, &context);
}

FailureOr<std::string> Call::compile() {
  if (!checkOptions())
    return failure();
  OwningOpRef<ModuleOp> module = read();
  if (!module)
    return failure();
  CompileOptions compile;
  compile.forGpus = !options.target || !archs.empty();
  compile.archs = archs;
  compile.cpus = cpus;
  compile.forAllCpus = forAllCpus;
  if (options.no_binary)
    compile.cubin = CompileOptions::Cubin::never;
  compile.derivatives = options.derivatives;
  compile.wrt = wrt();
  compile.saveStates = options.save_states && options.derivatives == 1;
  static constexpr F32Matmuls f32Matmuls[] = {F32Matmuls::none, F32Matmuls::bf16x3,
                                              F32Matmuls::bf16x6};
  compile.f32Matmuls = f32Matmuls[options.f32_matmuls];
  compile.cancelled = [this] { return cancelled(); };
  static constexpr Stage stages[] = {Stage::package, Stage::scan, Stage::gpu, Stage::ptx};
  return ejk::compile(*module, stages[options.emit], compile);
}

LogicalResult Call::interpret(const char *entry, ArrayRef<const DLTensor *> inputs, bool native) {
  if (!checkOptions())
    return failure();
  if (!entry) {
    result.log.addError("entry is NULL");
    return failure();
  }
  OwningOpRef<ModuleOp> module = read();
  if (!module)
    return failure();
  if (options.derivatives && failed(derive(*module, options.derivatives, wrt(), {})))
    return failure();
  auto function = module->lookupSymbol<func::FuncOp>(entry);
  if (!function || function.isExternal()) {
    result.log.addError("the source has no function '" + std::string(entry) + "'");
    return failure();
  }
  if (inputs.size() != function.getNumArguments())
    return function.emitError("expected ")
           << function.getNumArguments() << " inputs (" << listArguments(function)
           << "), but got " << inputs.size();
  if (!inputs.empty() && !inputs.data())
    return function.emitError("the array of inputs is NULL");
  SmallVector<reference::Tensor> arguments;
  for (auto [i, input] : llvm::enumerate(inputs)) {
    std::string problem = "is NULL";
    std::optional<reference::Tensor> argument;
    if (input)
      argument = readHostTensor(*input, function.getArgumentTypes()[i], problem);
    if (!argument)
      return function.emitError("input '") << argumentName(function, i) << "' " << problem
                                           << "; expected " << function.getArgumentTypes()[i];
    arguments.push_back(std::move(*argument));
  }
  reference::Options how;
  how.precision = native ? reference::Precision::native : reference::Precision::f64;
  FailureOr<SmallVector<reference::Tensor>> results =
      reference::interpret(function, arguments, how);
  if (failed(results))
    return failure();
  for (auto [i, tensor] : llvm::enumerate(*results)) {
    Type element = tensor.element;
    if (!native && tensor.isFloat())
      element = Float64Type::get(&context);
    std::optional<DLDataType> dtype = dlpackType(element);
    if (!dtype)
      return function.emitError("result '")
             << resultName(function, i) << "' is " << tensor.typeName()
             << ", which DLPack has no type for";
    const char *name = result.names.emplace_back(resultName(function, i)).c_str();
    const auto &shape = result.shapes.emplace_back(tensor.shape);
    const auto &bytes = result.bytes.emplace_back(writeHostTensor(tensor, element));
    result.tensors.push_back({name, *dtype, int32_t(shape.size()), shape.data(), bytes.data()});
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static ejk_result *compileSource(const ejk_source *source, const ejk_compile_options *options) {
  auto *result = new (std::nothrow) OwnedResult;
  if (!result)
    return nullptr;
  Call call(source, options, *result);
  FailureOr<std::string> data = call.compile();
  bool cancelled = call.cancelled();
  if (succeeded(data) && !cancelled)
    result->data = std::move(*data);
  return result->finish(succeeded(data), cancelled);
}

static ejk_result *interpretSource(const ejk_source *source, const ejk_compile_options *options,
                                   const char *entry, const DLTensor *const *inputs,
                                   size_t numInputs, int32_t native) {
  auto *result = new (std::nothrow) OwnedResult;
  if (!result)
    return nullptr;
  Call call(source, options, *result);
  LogicalResult worked =
      call.interpret(entry, ArrayRef(inputs, numInputs), native != 0);
  return result->finish(succeeded(worked), call.cancelled());
}

static void destroyResult(ejk_result *result) { delete reinterpret_cast<OwnedResult *>(result); }

static const char *targetNames() {
  static const std::string names = [] {
    std::string text = "cpu native";
    for (const CpuTarget &target : knownCpuTargets())
      text += " " + target.name.str();
    for (const Target &target : knownTargets())
      text += " " + target.name.str();
    return text;
  }();
  return names.c_str();
}

extern "C" const ejk_compiler *ejk_get_compiler(int32_t version) {
  static const ejk_compiler table = {sizeof(ejk_compiler), EJK_COMPILER_VERSION, EJK_VERSION,
                                     targetNames(),        hostArch(),           compileSource,
                                     interpretSource,      destroyResult};
  return version == EJK_COMPILER_VERSION ? &table : nullptr;
}
