//===- ejk-run.cpp - compile, run, check and time a function --------------===//
//
// From an MLIR file to a checked result: on a GPU where there is one, on the CPU
// where not, or in the interpreter.
//
//===----------------------------------------------------------------------===//
#include "Bench.h"
#include "Calls.h"
#include "Check.h"
#include "Differences.h"
#include "GateTerms.h"
#include "Inputs.h"
#include "RunFunction.h"
#include "dialect/ejk/Names.h"
#include "dialect/reference/Interpreter.h"
#include "harness/Choice.h"
#include "harness/Compare.h"
#include "harness/Harness.h"
#include "io/TensorFile.h"
#include "lowering/driver/Compiler.h"
#include "lowering/driver/ReadModule.h"
#include "lowering/target/Target.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tools/common/Choice.h"
#include "tools/common/CommandLine.h"
#include "tools/common/CompileInterruptibly.h"
#include "tools/common/CubinFlag.h"
#include "tools/common/Registration.h"
#include "tools/common/SavePolicyFlags.h"
#include "tools/common/ScheduleFlag.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include <ctime>
#include <unistd.h>

using namespace mlir;
using namespace ejk;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

enum class DeviceKind { automatic, cuda, cpu, interpreter };

static cl::OptionCategory category("EJK's options");
static cl::opt<std::string> file(cl::Positional, cl::Required, cl::desc("FILE.mlir"),
                                 cl::cat(category));
static cl::opt<std::string>
    entryName("entry", cl::desc("The function to run; the file's only public one by default"),
              cl::value_desc("name"), cl::cat(category));
static cl::list<std::string> inputFiles(
    "inputs", cl::CommaSeparated, cl::cat(category),
    cl::desc("Inputs by name: FILE.safetensors, FILE.npy, NAME=FILE.npy, or a folder of those"),
    cl::value_desc("file,..."));
static cl::opt<std::string>
    outputFile("outputs", cl::cat(category), cl::value_desc("file"),
               cl::desc("Write the results: a .safetensors file, an .npy file, or FOLDER/"));
static cl::opt<std::string> randomSizes(
    "random", cl::cat(category), cl::value_desc("B=2,T=128,..."),
    cl::desc("Draw the inputs that are not given at random, at the scale that a trained model has "
             "(keys of norm 1, decays near 1): a size for each symbol of the arguments' shapes"));
static cl::opt<uint64_t> seed("seed", cl::init(0), cl::cat(category),
                              cl::desc("For --random: the same seed gives the same inputs"));
static cl::opt<std::string> gates(
    "gates", cl::init("logsigmoid"), cl::cat(category), cl::value_desc("profile"),
    cl::desc("Log gates that --random draws: logsigmoid (the default), mid (logsigmoid(x)/16), "
             "weak, mixed, lb5 (-5 sigmoid(x)), softplus (-exp(A) softplus(x)), saturated or "
             "resets"));
static Choice<DeviceKind> device(
    "device", cl::init(DeviceKind::automatic), cl::cat(category), cl::desc("Where to run"),
    cl::values(clEnumValN(DeviceKind::automatic, "auto", "the GPU if there is one, else the CPU"),
               clEnumValN(DeviceKind::cuda, "cuda", "kernels on the GPU"),
               clEnumValN(DeviceKind::cpu, "cpu", "kernels on the CPU"),
               clEnumValN(DeviceKind::interpreter, "interpreter",
                          "the interpreter, which defines what a function means")));
static Choice<reference::Precision>
    precision("precision", cl::init(reference::Precision::native), cl::cat(category),
              cl::desc("The interpreter's, when it is what runs"),
              cl::values(clEnumValN(reference::Precision::native, "native",
                                    "each op's result is rounded to its type, as in a kernel"),
                         clEnumValN(reference::Precision::f64, "f64", "every float is a double")));
static cl::opt<bool> checkResults(
    "check", cl::cat(category),
    cl::desc("Compare every result with the f64 interpreter's; exit with 1 past the tolerance"));
static cl::opt<double> tolerance(
    "tolerance", cl::cat(category), cl::value_desc("x"),
    cl::desc("For --check: the largest |x - ref| / |ref| (Euclidean norms). By default 1e-5, and "
             "3e-3 when an input or the result is f16 or bf16, 5e-3 with products in 16 bits "
             "(--schedule); for gradients 2e-5 and 5e-3. The error of a gate's gradient may be "
             "larger, up to 1e-5 of the norm of its terms, but is 0 where the gradient is"));
static cl::opt<bool> bench("bench", cl::cat(category),
                           cl::desc("Time it, beside the device's own copy bandwidth"));
static cl::opt<std::string> arch("arch", cl::cat(category), cl::value_desc("sm_90"),
                                 cl::desc("The architecture to compile for; the GPU's by default"));
static cl::opt<bool> explainChoice(
    "explain", cl::cat(category),
    cl::desc(
        "Say which schedule is taken for these sizes on the GPU, and why; without a GPU, which "
        "an H200 would take"));
static cl::opt<bool> inPlace("in-place", cl::cat(category),
                             cl::desc("Let results replace the inputs they may, as decode does"));
static cl::opt<unsigned>
    rowGap("row-gap", cl::cat(category), cl::value_desc("bytes"),
           cl::desc("Place the rows of inputs that may lie apart as many bytes apart, rounded up to a "
                    "multiple of 16, as in a view of a wider tensor; the bytes between them are NaN"));
static cl::opt<bool>
    vjp("vjp", cl::cat(category),
        cl::desc("Run the function's derivative instead: its inputs and a cotangent "
                 "for each result (drawn at random where not given), to gradients"));
static cl::list<std::string>
    wrt("wrt", cl::CommaSeparated, cl::cat(category), cl::value_desc("q,k,..."),
        cl::desc("For --vjp: the arguments to differentiate by; by default all"));
static SavePolicyFlags savePolicy(category);
static ScheduleFlag schedule(category);
static CubinFlag cubin(category);
static cl::opt<bool> finiteDifferences(
    "finite-differences", cl::cat(category),
    cl::desc("For --vjp: also compare each gradient, along a random direction, with central "
             "differences of the function in f64"));
static cl::opt<bool> verbose("verbose", cl::cat(category),
                             cl::desc("With each message, also the op as the compiler has it"));
static cl::alias verboseShort("v", cl::aliasopt(verbose), cl::desc("--verbose"), cl::cat(category));

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

static int fail(const Twine &message) {
  llvm::errs() << "ejk-run: " << message << "\n";
  return 1;
}

/// The function to run, or null after an error.
static func::FuncOp findEntry(ModuleOp module) {
  if (!entryName.empty()) {
    auto function = module.lookupSymbol<func::FuncOp>(entryName);
    if (!function)
      fail("the file has no function '" + entryName + "'");
    return function;
  }
  SmallVector<func::FuncOp> found;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal())
      found.push_back(function);
  if (found.size() == 1)
    return found.front();
  std::string names =
      llvm::join(llvm::map_range(found, [](func::FuncOp f) { return f.getName().str(); }), ", ");
  fail(found.empty() ? "the file has no public function"
                     : "the file has several functions; choose with --entry: " + names);
  return {};
}

/// Inputs of `function`, of which the first `required` cannot be made up unasked.
static Result<std::vector<HostTensor>> makeInputs(func::FuncOp function, unsigned required) {
  Sizes sizes;
  if (randomSizes.getNumOccurrences()) {
    Result<Sizes> chosen = parseSizes(randomSizes.getValue());
    if (!chosen)
      return chosen.error();
    if (inputFiles.empty())
      return drawInputs(function, *chosen, seed, gates.getValue());
    sizes = std::move(*chosen);
    required = 0;
  }
  std::vector<std::string> wanted;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    llvm::append_values(wanted, argumentName(function, i), argumentOperand(function, i));
  Result<std::vector<HostTensor>> given =
      readTensors(std::vector<std::string>(inputFiles.begin(), inputFiles.end()),
                  [&](StringRef name) { return llvm::is_contained(wanted, name); });
  if (!given)
    return given;
  // Of inputs that may be missing, a name that is none would go unseen.
  if (randomSizes.getNumOccurrences())
    if (Result<bool> all = checkNames(function, *given); !all)
      return all.error();
  bool fromNpy =
      llvm::any_of(inputFiles, [](StringRef name) { return !name.ends_with(".safetensors"); });
  return matchInputs(function, *given, required, sizes, seed, gates.getValue(), fromNpy);
}

/// Before anything is run: an error's message if the results cannot go where they are to go.
static std::string checkOutputs(func::FuncOp function) {
  std::vector<std::string> names, files = {file};
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    names.push_back(resultName(function, i));
  Result<std::vector<std::string>> inputs =
      tensorFilePaths(std::vector<std::string>(inputFiles.begin(), inputFiles.end()));
  if (!inputs)
    return inputs.error().message;
  llvm::append_range(files, *inputs);
  return checkTensorOutputs(outputFile, names, files);
}

/// Compiles the functions in `entries`, and what they call, alone: the rest of the file may hold
/// what no kernel can. Of these, what `calls` launch alone, if that is given.
static FailureOr<std::string> compileEntries(ModuleOp module, ArrayRef<std::string> entries,
                                             StringRef arch, bool isCpu,
                                             CompileOptions::Cubin cubin, ExpectCalls calls,
                                             bool code = true) {
  OwningOpRef<ModuleOp> copy(module.clone());
  for (auto function : copy->getOps<func::FuncOp>())
    if (!llvm::is_contained(entries, function.getName()))
      function.setPrivate();
    else
      function.setPublic();
  PassManager pm(module.getContext());
  pm.addPass(createSymbolDCEPass());
  if (failed(pm.run(*copy)))
    return failure();
  CompileOptions options;
  options.forGpus = !isCpu;
  if (isCpu)
    options.cpus = {arch.str()};
  else
    options.archs = {arch.str()};
  options.cubin = cubin;
  options.code = code;
  options.expectedCalls = std::move(calls);
  options.schedule = schedule.get();
  options.fuse = schedule.fuse();
  options.saveStates = schedule.saveStates();
  options.roundComputed = schedule.roundComputed();
  options.f32Matmuls = schedule.f32Matmuls();
  options.roundExponentials = schedule.roundExponentials();
  options.twoTermStates = schedule.twoTermStates();
  options.twoTerms = schedule.twoTerms();
  options.byGates = schedule.byGates();
  options.warpSpecialize = schedule.warpSpecialize();
  options.partitionWarps = schedule.partitionWarps();
  return compileInterruptibly(*copy, Stage::package, options);
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// What is left to do once the results are there.
static int finish(func::FuncOp function, GateTerms *terms, const std::vector<HostTensor> &inputs,
                  const std::vector<HostTensor> &outputs) {
  for (const HostTensor &output : outputs)
    llvm::outs() << output.name << ": " << output.describe() << "\n";
  if (!outputFile.empty()) {
    std::string error = writeTensors(outputFile, outputs);
    if (!error.empty())
      return fail(error);
  }
  if (!checkResults)
    return 0;
  bool mayRoundProducts = schedule.get() != Schedule::step && device != DeviceKind::interpreter;
  Limits limits = {vjp || mayRoundProducts ? 5e-3 : 3e-3, vjp ? 2e-5 : 1e-5};
  if (tolerance.getNumOccurrences())
    limits = {tolerance, tolerance};
  FailureOr<bool> passed = checkAgainstInterpreter(function, terms, limits, inputs, outputs);
  return succeeded(passed) && *passed ? 0 : 1;
}

/// Shows what an H200 would run, for want of a device.
static int explainForH200(ModuleOp module, const std::string &name,
                          const std::vector<HostTensor> &inputs) {
  CompileOptions::Cubin never = CompileOptions::Cubin::never;
  FailureOr<std::string> bytes =
      compileEntries(module, {name}, "sm_90a", /*isCpu=*/false, never, {}, /*code=*/false);
  if (failed(bytes))
    return 1;
  Result<Package> package = readPackage(*bytes);
  if (!package)
    return fail(package.error().message);
  const Entry &entry = *package->manifest.findEntry(name);
  Result<VariantChoice> choice =
      chooseVariant(package->manifest, entry, sizesOf(entry, inputs), ChoiceDevice());
  if (!choice)
    return fail(choice.error().message);
  llvm::outs() << "on an H200, " << choice->explanation;
  return 0;
}

static int runInterpreter(ModuleOp module, func::FuncOp function, GateTerms *terms,
                          const std::vector<HostTensor> &inputs, StringRef why) {
  llvm::outs() << "device: the interpreter" << why << "\n";
  if (explainChoice)
    if (int status = explainForH200(module, function.getName().str(), inputs))
      return status;
  std::clock_t begin = std::clock();
  FailureOr<SmallVector<reference::Tensor>> results = interpretOn(function, inputs, precision);
  double micros = double(std::clock() - begin) * 1e6 / CLOCKS_PER_SEC;
  if (failed(results))
    return 1;
  FailureOr<std::vector<HostTensor>> outputs = toHost(function, *results, /*asReference=*/false);
  if (failed(outputs))
    return 1;
  int status = finish(function, terms, inputs, *outputs);
  if (bench)
    llvm::outs() << llvm::format("processor  %.2f us, once, in the interpreter\n", micros);
  return status;
}

static RunOptions runOptions() { return {inPlace, "", rowGap.getNumOccurrences() ? rowGap : -1l}; }

static int runDevice(DeviceSession &session, ModuleOp module, func::FuncOp function,
                     const std::string &primal, GateTerms *terms, std::vector<HostTensor> inputs) {
  // The package is for this device alone, and may use what no later one has.
  std::string target = arch.getValue();
  if (session.isCpu()) {
    target = session.architecture();
  } else if (arch.empty()) {
    const Target *own = findTargetOfDevice(session.majorCapability(), session.minorCapability());
    if (!own)
      return fail("the device is of " + Twine(session.architecture()) + "; kernels need " +
                  knownTargets().front().name + " or newer");
    target = own->name.str();
    if (own->capability != 10 * session.majorCapability() + session.minorCapability())
      llvm::errs() << "ejk-run: note: the device is of " << session.architecture()
                   << ", which is not in the table of architectures; compiled for " << target
                   << "\n";
  }
  std::string name = function.getName().str();
  bool saves = vjp && schedule.saveStates() && !session.isCpu();
  SmallVector<std::string> entries = {name};
  if (saves)
    entries.push_back(primal);
  Calls calls(session, name, vjp ? primal : "", inputs, bench);
  FailureOr<std::string> package = compileEntries(
      module, entries, target, session.isCpu(), cubin,
      [&](const Manifest &manifest, const Entry &entry) { return calls.expect(manifest, entry); });
  if (failed(package))
    return 1;
  Result<std::unique_ptr<Program>> program = session.load(*package);
  if (!program)
    return fail(program.error().message);
  llvm::outs() << "device: " << session.deviceName() << ", " << session.architecture();
  if (!session.isCpu())
    llvm::outs() << ", from " << ((*program)->usesBinary() ? "the binary" : "PTX");
  llvm::outs() << "\n";
  size_t numGiven = inputs.size();
  // What also gives the states that the derivative takes.
  std::string forward;
  if (saves)
    for (const Entry &entry : (*program)->package().manifest.entries)
      if (entry.forwardOf == primal)
        forward = entry.name;
  if (!forward.empty()) {
    Result<std::vector<HostTensor>> results = session.run(**program, forward, inputs, runOptions());
    if (!results)
      return fail(results.error().message);
    size_t own = module.lookupSymbol<func::FuncOp>(primal).getNumResults();
    for (HostTensor &result : MutableArrayRef(*results).drop_front(own)) {
      llvm::outs() << forward << " gives " << result.name << ": " << result.describe() << "\n";
      inputs.push_back(std::move(result));
    }
  }
  if (explainChoice) {
    if (!calls.explanation())
      return fail(calls.explanation().error().message);
    llvm::outs() << *calls.explanation();
  }
  Result<std::vector<HostTensor>> outputs = session.run(**program, name, inputs, runOptions());
  if (!outputs)
    return fail(outputs.error().message);
  int status = finish(function, terms, inputs, *outputs);
  if (bench)
    if (std::string error =
            benchCalls(session, **program, {name, primal, forward}, inputs, numGiven, runOptions());
        !error.empty())
      return fail(error);
  return status;
}

/// An option that says nothing of where the function is to run, with the remedy; empty if there is none.
static std::string optionOfOther() {
  bool isCpu = device == DeviceKind::cpu, interprets = device == DeviceKind::interpreter;
  if ((isCpu || interprets) && (arch.getNumOccurrences() || cubin.getNumOccurrences()))
    return "--arch and --cubin are of a GPU's kernels: give --device cuda";
  if (interprets && schedule.given() && !explainChoice) // that is of an H200's kernels then
    return "--schedule and what else says how kernels compute are of kernels: give --device cuda or cpu";
  if ((isCpu || device == DeviceKind::cuda) && precision.getNumOccurrences())
    return "--precision is of the interpreter: give --device interpreter";
  if (interprets && rowGap.getNumOccurrences())
    return "--row-gap is of kernels: give --device cuda or cpu";
  return "";
}

/// Adds the function's derivative to the module and returns it.
static func::FuncOp derive(ModuleOp module, StringRef name) {
  PassManager pm(module.getContext());
  buildBackwardPipeline(pm, {name.str(), {wrt.begin(), wrt.end()}, {}, savePolicy.get()});
  if (failed(pm.run(module)))
    return {};
  return findDerivative(module, name);
}

int ejkRun(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  initCommandLine("ejk-run", category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "ejk-run: compile a function of gated recurrences, run it, check it, time it\n\n"
      "  ejk-run examples/gla.mlir --random B=2,T=256,H=4 --check\n"
      "  ejk-run layer.mlir --inputs acts.safetensors --outputs o.safetensors --check --bench\n\n"
      "Inputs are found by the arguments' names: %query is called query, or what an\n"
      "'ejk.name' attribute says. What feeds a recurrence is found by q, k, v, beta, g, g_gamma,\n"
      "gk, gv, h0 and cu_seqlens, too.\n");

  if (!arch.empty() && !findTarget(arch))
    return fail(describeUnknownTarget(arch));
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(verbose);
  std::string error;
  auto buffer = openInputFile(file, &error);
  if (!buffer)
    return fail(error);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(*sources, &context);
  OwningOpRef<ModuleOp> module = readModule(sources, &context);
  func::FuncOp function = module ? findEntry(*module) : func::FuncOp();
  if (!function)
    return 1;
  std::string primal = function.getName().str();
  unsigned numPrimal = function.getNumArguments();
  if (std::string wrong = optionOfOther(); !wrong.empty())
    return fail(wrong);
  if (!vjp && (finiteDifferences || !wrt.empty()))
    return fail("--finite-differences and --wrt go with --vjp");
  if (!vjp && savePolicy.given())
    return fail("--gate-gradients and --checkpoint-every go with --vjp");
  if (!vjp && schedule.wasToldToSave())
    return fail("--save-states goes with --vjp");
  if (schedule.twoTermStates() < 0)
    return fail("--two-term-states is a number of channels, 0 or more");
  if (tolerance.getNumOccurrences() && !(checkResults && tolerance >= 0))
    return fail("--tolerance goes with --check, and is 0 or more");
  std::optional<GateTerms> terms;
  if (vjp && checkResults)
    terms.emplace(*module, primal, std::vector<std::string>(wrt.begin(), wrt.end()));
  if (vjp && !(function = derive(*module, primal)))
    return 1;
  Result<std::vector<HostTensor>> inputs = makeInputs(function, numPrimal);
  if (!inputs)
    return fail(inputs.error().message);
  if (!outputFile.empty())
    if (std::string wrong = checkOutputs(function); !wrong.empty())
      return fail(wrong);
  for (const HostTensor &input : *inputs)
    llvm::outs() << "input " << input.name << ": " << input.describe() << "\n";

  if (finiteDifferences) {
    FailureOr<bool> agree =
        compareWithDifferences(module->lookupSymbol<func::FuncOp>(primal), function, *inputs, seed);
    if (failed(agree) || !*agree)
      return 1;
  }
  if (device == DeviceKind::interpreter)
    return runInterpreter(*module, function, terms ? &*terms : nullptr, *inputs, "");
  GateTerms *ownTerms = terms ? &*terms : nullptr;
  auto runCpu = [&] {
    std::unique_ptr<DeviceSession> cpu = DeviceSession::openCpu();
    if (!cpu->architecture().empty())
      return runDevice(*cpu, *module, function, primal, ownTerms, *inputs);
    if (device == DeviceKind::cpu)
      return fail("kernels need a CPU with AVX2 and FMA, AVX-512 or NEON; there is "
                  "--device=interpreter");
    return runInterpreter(*module, function, ownTerms, *inputs,
                          ", for there is no GPU, and kernels need a CPU with AVX2");
  };
  if (device == DeviceKind::cpu)
    return runCpu();
  Result<std::unique_ptr<DeviceSession>> session = DeviceSession::open();
  if (session)
    return runDevice(**session, *module, function, primal, terms ? &*terms : nullptr, *inputs);
  if (device == DeviceKind::automatic && (session.error().code == ErrorCode::NoDriver ||
                                          session.error().code == ErrorCode::NoDevice)) {
    if (explainChoice)
      if (int status = explainForH200(*module, function.getName().str(), *inputs))
        return status;
    return runCpu();
  }
  return fail(session.error().message);
}
