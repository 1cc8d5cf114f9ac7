//===- ejk-launch.cpp - run a kernel package, with no compiler ------------===//
//
// For the machine where a model is served: a package and inputs in; outputs,
// their comparison with expected ones, and timing out.
//
//===----------------------------------------------------------------------===//

#include "Info.h"
#include "Options.h"

#include "harness/Compare.h"
#include "harness/Harness.h"
#include "harness/RandomInputs.h"
#include "harness/Traffic.h"
#include "io/OutputFile.h"
#include "io/TensorFile.h"
#include "package/Names.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>

using namespace ejk;

namespace {
enum ExitStatus {
  exitDone = 0,
  exitDiffers = 1,
  exitUsage = 2,
  exitBadInput = 3,
  exitNoDevice = 4,
  exitFailed = 5,
};
} // namespace

static int report(const Error &error) {
  std::fprintf(stderr, "ejk-launch: %s\n", error.message.c_str());
  switch (error.code) {
  case ErrorCode::NoDriver:
  case ErrorCode::NoDevice:
  case ErrorCode::ArchMismatch:
    return exitNoDevice;
  case ErrorCode::Driver:
  case ErrorCode::OutOfMemory:
    return exitFailed;
  case ErrorCode::InvalidArgument:
  case ErrorCode::InvalidTensor:
  case ErrorCode::InvalidPackage:
  case ErrorCode::Io:
    break;
  }
  return exitBadInput;
}

static Result<const Entry *> chooseEntry(const LaunchOptions &options, const Package &package) {
  const std::vector<Entry> &entries = package.manifest.entries;
  const Entry *entry = options.entry.empty() && entries.size() == 1
                           ? &entries[0]
                           : package.manifest.findEntry(options.entry);
  if (!entry)
    return Error{ErrorCode::InvalidArgument,
                 options.entry.empty() ? "the package has several entries; choose with --entry"
                                       : "the package has no entry " + inQuotes(options.entry)};
  return entry;
}

static Result<std::vector<HostTensor>> makeInputs(const LaunchOptions &options,
                                                  const Package &package) {
  Result<const Entry *> entry = chooseEntry(options, package);
  if (!entry)
    return entry.error();
  if (!options.random)
    return readTensors(options.inputs, [&](std::string_view name) {
      return std::any_of((*entry)->inputs.begin(), (*entry)->inputs.end(),
                         [&](const TensorSpec &spec) { return spec.name == name; });
    });
  Result<Sizes> sizes = parseSizes(*options.random);
  if (!sizes)
    return sizes.error();
  return randomInputs(**entry, *sizes, options.seed, options.gates);
}

static int printTraffic(const LaunchOptions &options, const Package &package) {
  Result<Sizes> sizes = parseSizes(*options.random);
  if (!sizes)
    return report(sizes.error());
  Result<const Entry *> entry = chooseEntry(options, package);
  if (!entry)
    return report(entry.error());
  ChoiceDevice device{options.arch, 0, options.multiprocessors.value_or(132)}; // an H200's
  device.schedule = options.schedule;
  if (options.explain) {
    Result<VariantChoice> choice = chooseVariant(package.manifest, **entry, *sizes, device);
    if (!choice)
      return report(choice.error());
    std::fputs(choice->explanation.c_str(), stdout);
  }
  Result<Traffic> traffic = countTraffic(package.manifest, **entry, *sizes, device);
  if (!traffic)
    return report(traffic.error());
  std::fputs(traffic->describe().c_str(), stdout);
  return exitDone;
}

// Compares every expected tensor with the output of its name.
static Result<bool> check(const std::vector<HostTensor> &outputs, const LaunchOptions &options) {
  Result<std::vector<HostTensor>> expected = readTensors(
      options.expect, [&](std::string_view name) { return findTensor(outputs, name) != nullptr; });
  if (!expected)
    return expected.error();
  bool equal = true, compared = false;
  for (const HostTensor &output : outputs) {
    const HostTensor *reference = findTensor(*expected, output.name);
    if (!reference) {
      std::printf("%s: not compared, nothing is expected of it\n", output.name.c_str());
      continue;
    }
    Comparison comparison = compare(output, *reference);
    bool passes = comparison.passes(options.rtol);
    std::printf("%s: %s, %s (tolerance %.1e)\n", output.name.c_str(), passes ? "pass" : "FAIL",
                comparison.describe().c_str(), options.rtol);
    equal &= passes;
    compared = true;
  }
  // A check that compares nothing must not look like one that passed.
  if (!compared)
    return Error{ErrorCode::Io, "--expect has no tensor named as an output"};
  return equal;
}

// Before anything is run: whether the outputs can go where they are to go.
static Error checkOutputs(const LaunchOptions &options, const Package &package) {
  Result<const Entry *> entry = chooseEntry(options, package);
  if (!entry)
    return entry.error();
  std::vector<std::string> names, files = {options.package};
  for (const TensorSpec &output : (*entry)->outputs)
    names.push_back(output.name);
  for (const std::vector<std::string> *specs : {&options.inputs, &options.expect}) {
    Result<std::vector<std::string>> paths = tensorFilePaths(*specs);
    if (!paths)
      return paths.error();
    files.insert(files.end(), paths->begin(), paths->end());
  }
  return {ErrorCode::Io, checkTensorOutputs(options.outputs, names, files)};
}

// The device that is asked for, or else a GPU before the CPU.
static Result<std::unique_ptr<DeviceSession>> openSession(const LaunchOptions &options,
                                                          const Package &package) {
  using Device = LaunchOptions::Device;
  const std::vector<Architecture> &archs = package.manifest.architectures;
  auto isCpu = [](const Architecture &arch) { return arch.isCpu; };
  bool hasGpu = !std::all_of(archs.begin(), archs.end(), isCpu);
  bool hasCpu = std::any_of(archs.begin(), archs.end(), isCpu);
  if (options.deviceKind == Device::cpu || (options.deviceKind == Device::automatic && !hasGpu))
    return DeviceSession::openCpu();
  Result<std::unique_ptr<DeviceSession>> session = DeviceSession::open(options.device);
  bool isMissing = !session && (session.error().code == ErrorCode::NoDriver ||
                                session.error().code == ErrorCode::NoDevice);
  if (options.deviceKind == Device::automatic && isMissing) {
    if (hasCpu)
      return DeviceSession::openCpu();
    return Error{session.error().code,
                 session.error().message + ". For a CPU, compile the package with --target=cpu, too"};
  }
  return session;
}

static int launch(const LaunchOptions &options, const std::string &bytes, const Package &package) {
  if (!options.outputs.empty())
    if (Error error = checkOutputs(options, package); !error.message.empty())
      return report(error);
  Result<std::vector<HostTensor>> inputs = makeInputs(options, package);
  if (!inputs)
    return report(inputs.error());
  Result<std::unique_ptr<DeviceSession>> session = openSession(options, package);
  if (!session)
    return report(session.error());
  Result<std::unique_ptr<Program>> program = (*session)->load(bytes, options.preferPtx);
  if (!program)
    return report(program.error());
  std::printf("device: %s, %s, from %s\n", (*session)->deviceName().c_str(),
              (*session)->architecture().c_str(),
              (*session)->isCpu()      ? ("the code for " + (*program)->architecture()).c_str()
              : (*program)->usesBinary() ? "the binary"
                                         : "PTX");

  RunOptions run;
  run.inPlace = options.inPlace;
  run.schedule = options.schedule;
  run.rowGap = options.rowGap;
  if (options.explain) {
    Result<std::string> explained =
        (*session)->explain(**program, options.entry, *inputs, options.schedule);
    if (!explained)
      return report(explained.error());
    std::fputs(explained->c_str(), stdout);
  }
  Result<std::vector<HostTensor>> outputs = (*session)->run(**program, options.entry, *inputs, run);
  if (!outputs)
    return report(outputs.error());
  for (const HostTensor &output : *outputs)
    std::printf("%s: %s\n", output.name.c_str(), output.describe().c_str());
  if (!options.outputs.empty()) {
    std::string error = writeTensors(options.outputs, *outputs);
    if (!error.empty())
      return report({ErrorCode::Io, error});
  }
  int status = exitDone;
  if (!options.expect.empty()) {
    Result<bool> equal = check(*outputs, options);
    if (!equal)
      return report(equal.error());
    status = *equal ? exitDone : exitDiffers;
  }
  if (options.bench) {
    BenchOptions bench;
    bench.inPlace = options.inPlace;
    bench.schedule = options.schedule;
    bench.rowGap = options.rowGap;
    Result<BenchResult> result = (*session)->bench(**program, options.entry, *inputs, bench);
    if (!result)
      return report(result.error());
    std::fputs(result->describe().c_str(), stdout);
  }
  return status;
}

// Of each architecture the first image of a kind, which is the one that counts.
static int writeCode(const std::string &folder, const Package &package) {
  const Manifest &manifest = package.manifest;
  if (std::error_code error; !std::filesystem::create_directories(folder, error) && error)
    return report({ErrorCode::Io, "cannot make " + inQuotes(folder) + ": " + error.message()});
  std::vector<OutputFile> files;
  for (const Image &image : manifest.images) {
    if (package.findImage(image.kind, image.architecture) != &image)
      continue;
    Result<std::string> code = package.codeOf(image);
    if (!code)
      return report(code.error());
    if (image.kind == Image::Kind::Ptx && code->back() == '\0')
      code->pop_back();
    const char *ending = image.kind == Image::Kind::Ptx     ? ".ptx"
                         : image.kind == Image::Kind::Cubin ? ".cubin"
                                                            : ".bin";
    const std::string &arch = manifest.architectures[size_t(image.architecture)].name;
    files.push_back({folder + "/" + arch + ending, std::move(*code), /*isInFolder=*/true});
  }
  if (std::string error = writeFiles(files); !error.empty())
    return report({ErrorCode::Io, error});
  return exitDone;
}

static int run(const LaunchOptions &options) {
  Result<std::string> bytes = readPackageFile(options.package);
  if (!bytes)
    return report(bytes.error());
  Result<Package> package = readPackage(*bytes);
  if (!package)
    return report(
        {package.error().code, inQuotes(options.package) + ": " + package.error().message});
  if (!options.code.empty())
    if (int status = writeCode(options.code, *package); status != exitDone || !options.info)
      return status;
  if (options.info) {
    if (!options.entry.empty() && !package->manifest.findEntry(options.entry))
      return report(chooseEntry(options, *package).error());
    std::fputs(describePackage(*package).c_str(), stdout);
    return options.random ? printTraffic(options, *package) : exitDone;
  }
  return launch(options, *bytes, *package);
}

int main(int argc, char **argv) {
  Result<LaunchOptions> options = parseOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr, "ejk-launch: %s; see --help\n", options.error().message.c_str());
    return exitUsage;
  }
  if (options->help) {
    std::fputs(launchHelp, stdout);
    return exitDone;
  }
  if (options->version) {
    std::printf("ejk-launch %s\n", ejk_version_string());
    return exitDone;
  }
  try {
    return run(*options);
  } catch (const std::bad_alloc &) {
    return report({ErrorCode::OutOfMemory, "out of memory"});
  } catch (const std::length_error &) {
    return report({ErrorCode::OutOfMemory, "out of memory: a size is larger than any memory"});
  }
}
