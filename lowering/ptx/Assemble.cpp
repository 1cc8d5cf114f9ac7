//===- Assemble.cpp - PTX to machine code with ptxas ----------------------===//
#include "lowering/ptx/EmitPTX.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

using namespace mlir;
using namespace ejk;

std::optional<std::string> ejk::findPtxas() {
  // A file that is named and is not there fails where it is run, with its name.
  if (std::optional<std::string> named = llvm::sys::Process::GetEnv("EJK_PTXAS"))
    return *named == "none" ? std::nullopt : named;
  SmallVector<std::string> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::optional<std::string> home = llvm::sys::Process::GetEnv(variable))
      folders.push_back(*home + "/bin");
  for (const std::string &folder : folders)
    if (auto found = llvm::sys::findProgramByName("ptxas", {folder}))
      return *found;
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  if (auto found = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"}))
    return *found;
  return std::nullopt;
}

/// The processor time that ptxas may take, in seconds. The longest derivatives known take some 20.
static constexpr unsigned kPtxasSeconds = 600;
/// How long it may wait for other programs and its files, in seconds.
static constexpr unsigned kPtxasWait = 4 * 3600;

/// How often a wait for ptxas asks whether the compilation is cancelled.
static constexpr std::chrono::milliseconds kBetweenQuestions(10);

/// The status of `program`, run with `arguments`, as ExecuteAndWait's; kills it soon after
/// `isCancelled` says so, and where it has not ended in `seconds`.
static int runProgram(StringRef program, ArrayRef<StringRef> arguments,
                      ArrayRef<std::optional<StringRef>> redirects, unsigned seconds,
                      function_ref<bool()> isCancelled, std::string &message) {
  bool couldNotStart = false;
  llvm::sys::ProcessInfo child = llvm::sys::ExecuteNoWait(program, arguments, std::nullopt, redirects,
                                                          0, &message, &couldNotStart);
  if (couldNotStart)
    return -1;
  auto last = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (true) {
    llvm::sys::ProcessInfo ended =
        llvm::sys::Wait(child, /*SecondsToWait=*/0, &message, nullptr, /*Polling=*/true);
    if (ended.Pid)
      return ended.ReturnCode;
    bool isLate = std::chrono::steady_clock::now() > last;
    if (isLate || (isCancelled && isCancelled())) {
      kill(child.Pid, SIGKILL);
      llvm::sys::Wait(child, std::nullopt, &message);
      message = isLate ? "timed out" : "cancelled";
      return -1;
    }
    std::this_thread::sleep_for(kBetweenQuestions);
  }
}

FailureOr<std::optional<std::string>> ejk::assemble(Location loc, StringRef ptxas, StringRef ptx,
                                                    const Target &target, bool mayBeUnknown,
                                                    function_ref<bool()> isCancelled) {
  llvm::SmallString<128> source, object, log;
  for (auto [path, suffix] :
       {std::pair(&source, "ptx"), std::pair(&object, "cubin"), std::pair(&log, "log")})
    if (std::error_code ec = llvm::sys::fs::createTemporaryFile("ejk", suffix, *path))
      return emitError(loc) << "cannot make a temporary file for ptxas: " << ec.message(),
             failure();
  llvm::FileRemover removers[] = {llvm::FileRemover(source), llvm::FileRemover(object),
                                  llvm::FileRemover(log)};
  {
    std::error_code ec;
    llvm::raw_fd_ostream os(source, ec);
    os << ptx;
    os.close();
    if (os.has_error())
      return emitError(loc) << "cannot write " << source << " for ptxas", failure();
  }
  std::string archFlag = ("-arch=" + target.name).str();
  // On all CPUs, a kernel at a time on each. The machine code does not depend on it; a derivative
  // has some twenty kernels. Older ones lack the option.
  SmallVector<StringRef> args = {ptxas, archFlag, "-o", object, source, "-split-compile=0"};
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(log), StringRef(log)};
  std::string message;
  // A shell sets the limit of its processor time and becomes ptxas.
  std::string limited = "ulimit -S -t " + std::to_string(kPtxasSeconds) +
                        " 2>/dev/null; exec \"$0\" \"$@\"";
  auto runPtxas = [&] {
    SmallVector<StringRef> command = {"sh", "-c", limited};
    llvm::append_range(command, args);
    return runProgram("/bin/sh", command, redirects, kPtxasWait, isCancelled, message);
  };
  auto logHas = [&](StringRef text) {
    auto output = llvm::MemoryBuffer::getFile(log);
    return output && (*output)->getBuffer().contains(text);
  };
  int rc = runPtxas();
  if (rc != 0 && logHas("Unknown option")) {
    args.pop_back();
    rc = runPtxas();
  }
  if (rc != 0) {
    if (isCancelled && isCancelled())
      return failure();
    auto output = llvm::MemoryBuffer::getFile(log);
    if (mayBeUnknown && logHas("is not defined for option 'gpu-name'")) {
      emitWarning(loc) << "the package holds PTX and no machine code: " << ptxas
                       << " does not know " << target.name;
      return std::optional<std::string>();
    }
    auto says = [&](StringRef text) { return StringRef(message).contains(text); };
    std::string limit = says(::strsignal(SIGXCPU))
                            ? "took more than " + std::to_string(kPtxasSeconds) + " s of processor time"
                        : says(::strsignal(SIGKILL))
                            ? std::string("was killed, as by a limit of processor time (ulimit -t) or of memory")
                        : says("timed out")
                            ? "did not end in " + std::to_string(kPtxasWait / 3600) + " hours"
                            : std::string();
    if (!limit.empty())
      return emitError(loc) << ptxas << " " << limit
                            << "; --cubin=never leaves the kernels to the driver, as PTX",
             failure();
    return emitError(loc) << ptxas << " failed: " << message << " "
                          << (output ? (*output)->getBuffer() : ""),
           failure();
  }
  auto result = llvm::MemoryBuffer::getFile(object, /*IsText=*/false);
  if (!result)
    return emitError(loc) << "cannot read what ptxas made: " << result.getError().message(),
           failure();
  return std::optional((*result)->getBuffer().str());
}
