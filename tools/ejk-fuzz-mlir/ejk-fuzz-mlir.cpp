//===- ejk-fuzz-mlir.cpp - mutated modules through every pass -------------===//
//
// Takes modules of the test suite, changes them in a few places, and keeps those that still verify.
// What verifies must go through every pass and pipeline without a crash: a pass either rewrites
// it, to IR that verifies, or fails with an error. After each pass of ejk's, what the interpreter
// ran before must give the same numbers.
//
//===----------------------------------------------------------------------===//
#include "Corpus.h"
#include "Isolation.h"
#include "Meaning.h"
#include "Mutations.h"
#include "lowering/driver/ReadModule.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tools/common/CommandLine.h"
#include "tools/common/Registration.h"
#include "tools/io/OutputFile.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace ejk::fuzz;
namespace cl = llvm::cl;

static cl::OptionCategory category("EJK's options");
static cl::list<std::string> folders(cl::Positional, cl::desc("<files or folders of .mlir>"),
                                     cl::OneOrMore, cl::cat(category));
static cl::opt<uint64_t> cases("cases", cl::desc("how many mutants to make"), cl::init(1000),
                               cl::cat(category));
static cl::opt<uint64_t> firstCase("first", cl::desc("the number of the first"), cl::init(0),
                                   cl::cat(category));
static cl::opt<unsigned> jobs("jobs", cl::desc("how many at a time (all cores)"), cl::init(0),
                              cl::cat(category));
static cl::opt<std::string> into("into", cl::desc("a folder for mutants that show a fault"),
                                 cl::init("mutants"), cl::cat(category));
static cl::opt<unsigned> seconds("seconds", cl::init(60), cl::cat(category),
                                 cl::desc("processor time that the passes may take on one mutant, "
                                          "and so much again to compare what it means"));
static cl::opt<std::string> replay("pipeline", cl::cat(category),
                                   cl::desc("run this pipeline on the files as they are"));

/// A mutant's loop may have 2^40 iterations: what it means is then not found out, and no pass is at
/// fault.
static constexpr llvm::StringLiteral kInterpreting = "(interpreting)";
static constexpr std::chrono::seconds kInterpretingLimit(5);

namespace {
/// What went wrong, other than a crash, with the module under way.
struct Finding {
  std::string what;
};

/// After each pass: that the module verifies, and means what it meant.
class Watch : public PassInstrumentation {
public:
  Watch(ModuleOp module, const Meaning *meaning, Duration &comparingLeft, Shared &shared,
        std::optional<Finding> &found)
      : module(module), meaning(meaning), comparingLeft(comparingLeft), shared(shared),
        found(found) {}

  void runBeforePass(Pass *pass, Operation *) override {
    running += isNamed(pass);
    Shared::set(shared.pass, sizeof(shared.pass), pass->getArgument());
  }
  void runAfterPassFailed(Pass *pass, Operation *) override { running -= isNamed(pass); }
  void runAfterPass(Pass *pass, Operation *op) override {
    running -= isNamed(pass);
    if (found)
      return;
    if (failed(verify(op)))
      return note(pass, "makes IR that does not verify");
    // What a pass tries in a pipeline of its own need not mean anything yet.
    if (!meaning || running || !pass->getArgument().starts_with("ejk-"))
      return;
    // Kernels are not interpreted.
    if (module->hasAttr("gpu.container_module"))
      return;
    unsigned compared = 0;
    Shared::set(shared.pass, sizeof(shared.pass), kInterpreting);
    Duration passesLeft = setTimeLimit(comparingLeft);
    if (std::string difference = meaning->differenceFrom(module, compared); !difference.empty())
      note(pass, "changes the meaning: " + difference);
    comparingLeft = setTimeLimit(passesLeft);
    shared.comparisons += compared;
  }

private:
  /// Adaptors of nested pipelines have no name.
  static bool isNamed(Pass *pass) { return !pass->getArgument().empty(); }
  void note(Pass *pass, const std::string &what) {
    found = Finding{pass->getArgument().str() + " " + what};
  }

  /// How many passes are at work, one in another one's pipeline.
  unsigned running = 0;
  ModuleOp module;
  const Meaning *meaning;
  Duration &comparingLeft;
  Shared &shared;
  std::optional<Finding> &found;
};

class Fuzzer {
public:
  Fuzzer(Shared &shared, const DialectRegistry &registry) : shared(shared), context(registry) {
    context.disableMultithreading();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
      return success();
    });
  }

  /// Keeps `text` as what is to blame for a crash.
  OwningOpRef<ModuleOp> parse(StringRef text) {
    Shared::set(shared.module, sizeof(shared.module), text);
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(text, ParserConfig(&context, /*verifyAfterParse=*/false));
    return module && succeeded(ejk::verifyParsed(*module)) ? std::move(module) : nullptr;
  }

  /// Runs `pipeline`; false where it fails. Says what is wrong, if anything.
  bool run(ModuleOp module, StringRef pipeline, const Meaning *meaning,
           std::optional<Finding> &found) {
    PassManager pm(&context);
    if (failed(parsePassPipeline(pipeline, pm, llvm::nulls())))
      return false;
    // The verifier is asked by Watch, which says of whom it complains.
    pm.enableVerifier(false);
    pm.addInstrumentation(std::make_unique<Watch>(module, meaning, comparingLeft, shared, found));
    unsigned before = errors;
    bool ran = succeeded(pm.run(module));
    if (!ran && errors == before && !found)
      found = Finding{std::string(shared.pass) + " fails and says nothing"};
    return ran;
  }

  /// A mutant that verifies, as text; empty where none was found.
  std::string makeMutant(const Seed &seed, Generator &random) {
    OwningOpRef<ModuleOp> module = parse(seed.text);
    if (!module)
      return "";
    if (StringRef prefix = prefixes()[below(random, prefixes().size())]; !prefix.empty()) {
      std::optional<Finding> found;
      if (!run(*module, prefix, nullptr, found))
        module = parse(seed.text);
    }
    Shared::set(shared.pass, sizeof(shared.pass), "(changing)");
    unsigned wanted = 1 + below(random, 3), changes = 0;
    for (unsigned attempt = 0; attempt < 40 && changes < wanted; ++attempt) {
      if (below(random, 3) == 0) {
        std::string text;
        llvm::raw_string_ostream os(text);
        OpPrintingFlags flags;
        if (below(random, 2))
          flags.printGenericOpForm();
        module->print(os, flags);
        if (OwningOpRef<ModuleOp> changed = parse(mutateText(text, random))) {
          module = std::move(changed);
          ++changes;
        }
        continue;
      }
      OwningOpRef<ModuleOp> changed = module->clone();
      mutate(*changed, random);
      std::string generic;
      llvm::raw_string_ostream(generic) << OpWithFlags(*changed, OpPrintingFlags().printGenericOpForm());
      Shared::set(shared.module, sizeof(shared.module), generic);
      if (succeeded(ejk::verifyParsed(*changed))) {
        module = std::move(changed);
        ++changes;
      }
    }
    if (!changes)
      return "";
    Shared::set(shared.pass, sizeof(shared.pass), "(printing)");
    std::string text;
    llvm::raw_string_ostream os(text);
    module->print(os);
    // What is printed must be what is run.
    return parse(text) ? text : "";
  }

  /// Starts the time of a mutant.
  void startClocks() { setTimeLimit(comparingLeft = std::chrono::seconds(seconds)); }

  std::vector<std::string> choosePipelines(const Seed &seed, Generator &random) {
    std::vector<std::string> chosen;
    if (!seed.pipelines.empty())
      chosen.push_back(seed.pipelines[below(random, seed.pipelines.size())]);
    for (unsigned i = 0; i < 6; ++i)
      chosen.push_back(commonPipelines()[below(random, commonPipelines().size())]);
    return chosen;
  }

  void runCase(uint64_t number, ArrayRef<Seed> seeds) {
    Generator random(number * 0x9E3779B97F4A7C15u + 1);
    Shared::set(shared.pipeline, sizeof(shared.pipeline), "(making the mutant)");
    shared.pass[0] = shared.module[0] = 0;
    const Seed &seed = seeds[below(random, seeds.size())];
    Shared::set(shared.seed, sizeof(shared.seed), seed.path);
    Shared::set(shared.module, sizeof(shared.module), seed.text);
    std::string text = makeMutant(seed, random);
    if (text.empty())
      return;
    ++shared.mutants;
    Shared::set(shared.module, sizeof(shared.module), text);
    Shared::set(shared.pipeline, sizeof(shared.pipeline), kInterpreting);
    OwningOpRef<ModuleOp> module = parse(text);
    setTimeLimit(kInterpretingLimit);
    Meaning meaning(*module, number);
    startClocks();
    const bool isSmall = fitsInterpreter(*module);
    for (const std::string &pipeline : choosePipelines(seed, random))
      if (!isSmall && StringRef(pipeline).contains("ejk-interpret"))
        ++shared.endless;
      else if (std::optional<Finding> found = tryPipeline(*module, pipeline, &meaning)) {
        ++shared.findings;
        report(number, shared.seed, pipeline, found->what, text);
      }
  }

  /// Whether no tensor of `module` takes much of the time or memory of a case. A size in a test may
  /// be that of a batch and of heads at once; where both become 256, a test of 10 MB takes 600 GB.
  static bool fitsInterpreter(ModuleOp module) {
    return !module
                .walk([&](Operation *op) {
                  for (Type type : op->getResultTypes())
                    if (auto shaped = dyn_cast<ShapedType>(type);
                        shaped && shaped.hasStaticShape() && isLarge(shaped.getShape()))
                      return WalkResult::interrupt();
                  return WalkResult::advance();
                })
                .wasInterrupted();
  }
  static bool isLarge(ArrayRef<int64_t> shape) {
    constexpr int64_t kMostElements = 1 << 22;
    int64_t elements = 1;
    for (int64_t size : shape)
      if (size == 0 || (elements *= std::min(size, kMostElements + 1)) > kMostElements)
        return size != 0;
    return false;
  }

  std::optional<Finding> tryPipeline(ModuleOp module, const std::string &pipeline,
                                     const Meaning *meaning) {
    Shared::set(shared.pipeline, sizeof(shared.pipeline), pipeline);
    OwningOpRef<ModuleOp> copy = module.clone();
    std::optional<Finding> found;
    ++(run(*copy, pipeline, meaning, found) ? shared.accepted : shared.refused);
    return found;
  }

  static void report(uint64_t number, StringRef seed, StringRef pipeline, StringRef what,
                     StringRef text) {
    llvm::outs() << "case " << number << " of " << seed << ": " << pipeline << ": " << what << "\n";
    llvm::outs().flush();
    if (into.empty())
      return;
    llvm::sys::fs::create_directories(into.getValue());
    std::string path = into + "/case-" + std::to_string(number) + ".mlir";
    std::string error = ejk::writeFile(
        path, ("// " + seed + "\n// " + pipeline + "\n// " + what + "\n" + text).str());
    if (!error.empty())
      llvm::errs() << error << "\n";
  }

private:
  Shared &shared;
  MLIRContext context;
  unsigned errors = 0;
  Duration comparingLeft{};
};
} // namespace

/// Runs one pipeline on files as they are: what a mutant of `--into` is looked at with.
static int replayFiles(Shared &shared, const DialectRegistry &registry, ArrayRef<Seed> seeds) {
  int faults = 0;
  for (const Seed &seed : seeds) {
    std::string end = runApart(
        [&] {
          Fuzzer fuzzer(shared, registry);
          OwningOpRef<ModuleOp> module = fuzzer.parse(seed.text);
          if (!module)
            return;
          Meaning meaning(*module, 0);
          fuzzer.startClocks();
          if (auto found = fuzzer.tryPipeline(*module, replay, &meaning)) {
            llvm::errs() << "ERROR: " << found->what << "\n";
            _exit(1);
          }
        },
        0);
    if (!end.empty()) {
      llvm::outs() << seed.path << ": " << end << "\n";
      llvm::outs().flush(); // before the next process copies what waits to be written
      ++faults;
    }
  }
  return faults != 0;
}

/// Runs the cases from `shared.nextCase` to before `end`, in one process after another where they
/// crash.
static void runBlock(Shared &shared, const DialectRegistry &registry, ArrayRef<Seed> seeds,
                     uint64_t end) {
  constexpr uint64_t bytes = uint64_t(6) << 30;
  while (shared.nextCase < end) {
    std::string death = runApart(
        [&] {
          // One context for all these cases: making one takes longer than a case.
          Fuzzer fuzzer(shared, registry);
          for (; shared.nextCase < end; ++shared.nextCase) {
            fuzzer.startClocks();
            fuzzer.runCase(shared.nextCase, seeds);
          }
        },
        bytes);
    if (death.empty())
      return;
    if (death == kDoesNotEnd &&
        (shared.pipeline == kInterpreting || shared.pass == kInterpreting)) {
      ++shared.endless;
    } else {
      ++shared.crashes;
      Fuzzer::report(shared.nextCase, shared.seed, shared.pipeline,
                     (StringRef(shared.pass) + ": " + death).str(), shared.module);
    }
    ++shared.nextCase;
  }
}

/// Runs all cases, `jobs` at a time. A case is its number, whichever job runs it.
static int runCases(Shared &all, const DialectRegistry &registry, ArrayRef<Seed> seeds) {
  constexpr uint64_t casesInBlock = 50;
  const uint64_t end = firstCase + cases;
  const unsigned count = jobs ? jobs : std::max(1u, std::thread::hardware_concurrency());
  std::vector<Shared *> ofJobs;
  for (unsigned job = 0; job < count; ++job)
    ofJobs.push_back(&makeShared());
  all.nextCase = firstCase.getValue();
  unsigned lost = runJobs(count, [&](unsigned job) {
    for (uint64_t first; (first = all.nextCase.fetch_add(casesInBlock)) < end;) {
      ofJobs[job]->nextCase = first;
      runBlock(*ofJobs[job], registry, seeds, std::min(first + casesInBlock, end));
    }
  });
  auto sum = [&](std::atomic<uint64_t> Shared::*counter) {
    uint64_t total = 0;
    for (const Shared *job : ofJobs)
      total += job->*counter;
    return total;
  };
  const uint64_t findings = sum(&Shared::findings), crashes = sum(&Shared::crashes);
  llvm::outs() << cases.getValue() << " cases from " << firstCase.getValue() << ": "
               << sum(&Shared::mutants) << " mutants, " << sum(&Shared::accepted)
               << " times rewritten, " << sum(&Shared::refused) << " times refused, "
               << sum(&Shared::comparisons) << " comparisons of meaning, " << sum(&Shared::endless)
               << " too long to interpret, " << findings << " findings, " << crashes
               << " crashes\n";
  if (lost)
    llvm::errs() << "ejk-fuzz-mlir: " << lost << " of " << count << " jobs ended early\n";
  return findings || crashes || lost;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  ejk::initCommandLine("ejk-fuzz-mlir", category);
  cl::ParseCommandLineOptions(argc, argv,
                              "Mutated modules through every pass: no crash, the same meaning.\n");
  // A stack trace takes longer than a case; `ejk-opt` on the mutant gives one.
  setenv("LLVM_DISABLE_SYMBOLIZATION", "1", 1);
  DialectRegistry registry;
  ejk::registerAll(registry);
  for (const std::string &folder : folders)
    if (!llvm::sys::fs::exists(folder)) {
      llvm::errs() << "ejk-fuzz-mlir: cannot read '" << folder << "': no such file or folder\n";
      return 1;
    }
  std::vector<Seed> seeds = readSeeds(std::vector<std::string>(folders.begin(), folders.end()));
  if (seeds.empty()) {
    llvm::errs() << "ejk-fuzz-mlir: no .mlir files there\n";
    return 1;
  }
  Shared &shared = makeShared();
  if (!replay.empty())
    return replayFiles(shared, registry, seeds);

  return runCases(shared, registry, seeds);
}
