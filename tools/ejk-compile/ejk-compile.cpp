//===- ejk-compile.cpp - MLIR to a kernel package -------------------------===//
#include "lowering/driver/Compiler.h"
#include "lowering/driver/ReadModule.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/CpuTarget.h"
#include "lowering/target/Target.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/FileUtilities.h"
#include "tools/common/Choice.h"
#include "tools/common/CommandLine.h"
#include "tools/common/CompileInterruptibly.h"
#include "tools/common/CubinFlag.h"
#include "tools/common/Registration.h"
#include "tools/common/SavePolicyFlags.h"
#include "tools/common/ScheduleFlag.h"
#include "tools/io/OutputFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

using namespace llvm;
using ejk::CompileOptions;
using ejk::Stage;

static cl::OptionCategory category("EJK's options");
static cl::opt<std::string> input(cl::Positional, cl::desc("<input.mlir>"), cl::init("-"),
                                  cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("Where to write; '-' is standard output"),
                                   cl::value_desc("file"), cl::init("-"), cl::cat(category));
static cl::list<std::string> archs("arch", cl::CommaSeparated, cl::cat(category),
                                   cl::value_desc("sm_80,sm_90a,..."),
                                   cl::desc("Architectures to compile for (--list-archs); by "
                                            "default sm_80, which later ones run, and sm_90a"));
enum class TargetKind { cuda, cpu };
static cl::list<TargetKind>
    targets("target", cl::CommaSeparated, cl::cat(category), cl::desc("What to compile for (cuda)"),
            cl::values(clEnumValN(TargetKind::cuda, "cuda", "NVIDIA GPUs of --arch"),
                       clEnumValN(TargetKind::cpu, "cpu", "CPUs of --cpu-arch")));
static cl::list<std::string>
    cpuArchs("cpu-arch", cl::CommaSeparated, cl::cat(category), cl::value_desc("x86-64-v4,..."),
             cl::desc("For --target=cpu: instruction sets; by default all in the table "
                      "(--list-archs), those that multiply bf16 where kernels work by chunks"));
static cl::opt<bool> listArchs("list-archs", cl::cat(category),
                               cl::desc("Print the table of architectures and exit"));
static ejk::Choice<Stage>
    emit("emit", cl::desc("What to write"), cl::init(Stage::package), cl::cat(category),
         cl::values(clEnumValN(Stage::scan, "scan", "specialised ejk.scan"),
                    clEnumValN(Stage::tile, "tile", "block programs, tiles without layouts"),
                    clEnumValN(Stage::plan, "plan",
                               "block programs with layouts, in order, with staged copies"),
                    clEnumValN(Stage::gpu, "gpu", "kernels and launches in gpu, scf and arith"),
                    clEnumValN(Stage::nvvm, "nvvm", "kernels in the nvvm and llvm dialects"),
                    clEnumValN(Stage::llvm, "llvm", "optimised LLVM IR"),
                    clEnumValN(Stage::ptx, "ptx", "PTX"),
                    clEnumValN(Stage::assembly, "asm", "a CPU's assembly"),
                    clEnumValN(Stage::package, "package", "a kernel package (the default)")));
static cl::opt<std::string>
    drawSchedule("draw-schedule", cl::cat(category), cl::value_desc("file.svg"),
                 cl::desc("Draw what the plans' warps and units do in a chunk, as SVG, and exit"));
static ejk::CubinFlag cubin(category);

static cl::opt<bool> vjp("vjp", cl::cat(category),
                         cl::desc("Also compile each function's derivative, as NAME_vjp"));
static cl::list<std::string> wrt("wrt", cl::CommaSeparated, cl::cat(category),
                                 cl::desc("For --vjp: the arguments to differentiate by, by name; "
                                          "every float one by default"),
                                 cl::value_desc("q,k,..."));

static cl::opt<bool> verbose("verbose", cl::cat(category),
                             cl::desc("With each message, also the op as the compiler has it"));
static cl::alias verboseShort("v", cl::aliasopt(verbose), cl::desc("--verbose"), cl::cat(category));
static cl::opt<bool> printCostModel("print-cost-model", cl::cat(category),
                                    cl::desc("Print each decision about a kernel, with the figures "
                                             "that it was made from, as a remark"));
static ejk::SavePolicyFlags savePolicy(category);
static ejk::ScheduleFlag schedule(category);

/// Which options do not go together; empty where all do. What would be ignored is named.
static std::string findContradiction() {
  bool forCpu = is_contained(targets, TargetKind::cpu);
  bool forGpus = targets.empty() || is_contained(targets, TargetKind::cuda);
  if (schedule.wasToldToSave() && !vjp)
    return "--save-states goes with --vjp";
  if (!vjp && (savePolicy.given() || !wrt.empty()))
    return "--wrt, --gate-gradients and --checkpoint-every go with --vjp";
  if (!forGpus && !archs.empty())
    return "--arch is of GPUs, and --target=cpu compiles for none";
  if (!forGpus && cubin == CompileOptions::Cubin::always)
    return "--cubin=always is of GPUs, and --target=cpu compiles for none";
  if (!forGpus && schedule.get() == ejk::Schedule::split)
    return "--schedule=split is of GPUs: a CPU's kernels have no segments";
  if (!forCpu && !cpuArchs.empty())
    return "--cpu-arch goes with --target=cpu";
  if (emit != Stage::package && forCpu && forGpus)
    return "--emit writes what is compiled for one target, or a package: give --target=cuda or cpu";
  if (emit >= Stage::tile && emit <= Stage::ptx && archs.size() > 1)
    return "--emit writes what is compiled for one architecture, or a package: give one --arch";
  if (!drawSchedule.empty() && (!forGpus || forCpu))
    return "--draw-schedule is of plans, which GPUs have";
  if (!drawSchedule.empty() && (emit.getNumOccurrences() || output.getNumOccurrences()))
    return "--draw-schedule writes its file alone, without --emit and -o";
  if (!drawSchedule.empty() && archs.size() > 1)
    return "--draw-schedule draws what is compiled for one architecture: give one --arch";
  if (schedule.twoTermStates() < 0)
    return "--two-term-states is a number of channels, 0 or more";
  return "";
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  ejk::initCommandLine("ejk-compile", category);
  cl::ParseCommandLineOptions(argc, argv,
                              "Compiles a file's public functions to a kernel package.\n");

  if (listArchs) {
    outs() << ejk::describeTargets() << "\n" << ejk::describeCpuTargets();
    return 0;
  }
  for (const std::string &arch : archs)
    if (!ejk::findTarget(arch)) {
      errs() << "ejk-compile: " << ejk::describeUnknownTarget(arch) << "\n";
      return 1;
    }
  if (std::string wrong = findContradiction(); !wrong.empty()) {
    errs() << "ejk-compile: " << wrong << "\n";
    return 1;
  }
  const std::string &file = drawSchedule.empty() ? output : drawSchedule;
  std::string error = ejk::checkNoInput(file, {input});
  if (!error.empty()) {
    errs() << "ejk-compile: " << error << "\n";
    return 1;
  }
  Stage stage = drawSchedule.empty() ? Stage(emit) : Stage::schedule;
  if (stage == Stage::package && file == "-" && outs().is_displayed()) {
    errs() << "ejk-compile: a package is binary, and standard output is a terminal; name a file "
              "with -o, or ask for text with --emit\n";
    return 1;
  }
  auto text = mlir::openInputFile(input, &error);
  if (!text) {
    errs() << "ejk-compile: " << error << "\n";
    return 1;
  }
  mlir::DialectRegistry registry;
  ejk::registerDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(verbose);
  if (printCostModel && failed(ejk::cost::printDecisions(context)))
    return 1;
  auto source = std::make_shared<SourceMgr>();
  source->AddNewSourceBuffer(std::move(text), SMLoc());
  mlir::SourceMgrDiagnosticHandler diagnostics(*source, &context);
  mlir::OwningOpRef<mlir::ModuleOp> module = ejk::readModule(source, &context);
  if (!module)
    return 1;
  CompileOptions options;
  bool forCpu = is_contained(targets, TargetKind::cpu);
  options.forGpus = targets.empty() || is_contained(targets, TargetKind::cuda);
  options.archs.assign(archs.begin(), archs.end());
  if (forCpu) {
    options.cpus.assign(cpuArchs.begin(), cpuArchs.end());
    options.forAllCpus = cpuArchs.empty();
  }
  options.cubin = cubin;
  options.derivatives = vjp;
  options.wrt.assign(wrt.begin(), wrt.end());
  options.savePolicy = savePolicy.get();
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
  FailureOr<std::string> result = ejk::compileInterruptibly(*module, stage, options);
  if (failed(result))
    return 1;
  error = file == "-" ? ejk::writeStandardOutput(*result) : ejk::writeFile(file, *result);
  if (!error.empty()) {
    errs() << "ejk-compile: " << error << "\n";
    return 1;
  }
  return 0;
}
