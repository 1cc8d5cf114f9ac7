//===- Options.cpp - ejk-launch's command line ----------------------------===//

#include "Options.h"

#include <cstdlib>

using namespace ejk;

const char *const ejk::launchHelp =
    R"(ejk-launch PACKAGE [options]

Runs a kernel package on a GPU, or on the CPU, with no compiler.

  --info                Print what the package holds; needs no GPU. With
                        --random, also the bytes that its launches move.
  --code=FOLDER         Write the package's code into a folder and end: PTX and
                        binaries for other tools, named ARCH.ptx, ARCH.cubin,
                        and ARCH.bin for a CPU.
  --explain             Say which schedule is taken for these sizes, and why.
  --schedule=NAME       Take this schedule instead.
  --arch=NAME           For --info: the architecture to choose for, one of the
                        package's (default the last one).
  --multiprocessors=N   For --info: those of the device to choose for (default
                        132, an H200's).
  --entry=NAME          The entry to run; may be left out if there is only one.
  --inputs=FILE         Inputs, found by name: a .safetensors file, NAME=FILE.npy,
                        FILE.npy, or a folder of such. May be repeated.
  --random=B=4,T=128,.. Draw inputs of these sizes instead, at the scale that a
                        trained model has: keys of norm 1, decays near 1. An
                        entry without sizes takes --random= alone.
  --gates=NAME          Log gates that --random draws: mid (logsigmoid(x)/16, the
                        default), weak, mixed, logsigmoid, lb5 (-5 sigmoid(x)),
                        softplus (-exp(A) softplus(x)), saturated or resets.
  --seed=N              What --random starts from (default 0).
  --outputs=FILE        Write the outputs: a .safetensors file, or a folder that
                        ends in / for .npy files.
  --expect=FILE         Compare the outputs with the tensors of the same names,
                        in files as --inputs takes them. May be repeated.
  --rtol=X              The largest relative L2 error that passes (default 3e-3,
                        for f16 and bf16 inputs; for f32 use 1e-5).
  --bench               Time the entry against the device's copy bandwidth.
  --in-place            Let outputs replace inputs where the entry allows it.
  --row-gap=N           Place the rows of inputs that may lie apart N bytes apart,
                        rounded up to a multiple of 16, as in a view of a wider
                        tensor; the bytes between them are NaN.
  --prefer-ptx          Have the driver compile the PTX even if there is a binary.
  --device=N            The GPU to use, or 'cpu'. By default GPU 0 if the package
                        has code for it and there is one, else the CPU.
  --help                This text.
  --version             The version of ejk.

Exit status: 0 done and equal, 1 outputs differ from the expected ones, 2 wrong
usage, 3 unusable package or inputs, 4 no usable driver or device, 5 the device
or the driver failed.
)";

static Error usage(const std::string &message) { return {ErrorCode::InvalidArgument, message}; }

static bool parseNumber(const std::string &text, uint64_t &value) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return false;
  value = std::strtoull(text.c_str(), nullptr, 10);
  return true;
}

Result<LaunchOptions> ejk::parseOptions(int argc, char **argv) {
  LaunchOptions options;
  struct Flag {
    const char *name;
    bool *value;
  };
  const Flag flags[] = {{"--explain", &options.explain},
                        {"--bench", &options.bench},
                        {"--info", &options.info},
                        {"--in-place", &options.inPlace},
                        {"--prefer-ptx", &options.preferPtx},
                        {"--help", &options.help},
                        {"--version", &options.version},
                        {"-h", &options.help}};
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.empty() || argument[0] != '-') {
      if (!options.package.empty())
        return usage("a second package, '" + argument + "'");
      options.package = argument;
      continue;
    }
    bool isFlag = false;
    for (const Flag &flag : flags)
      if (argument == flag.name)
        isFlag = *flag.value = true;
    if (isFlag)
      continue;
    // --name=value or --name value
    size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals), value;
    auto takeValue = [&] {
      if (equals != std::string::npos)
        value = argument.substr(equals + 1);
      else if (i + 1 < argc)
        value = argv[++i];
      return !value.empty();
    };
    static const char *const valued[] = {"--code",     "--entry",  "--inputs",
                                         "--outputs",  "--expect",
                                         "--rtol",     "--random", "--seed",           "--device",
                                         "--schedule", "--arch",   "--multiprocessors", "--gates",
                                         "--row-gap"};
    bool known = false;
    for (const char *option : valued)
      known |= name == option;
    if (!known)
      return usage("unknown option '" + name + "'");
    // A function may have no size to name: `--random=`.
    if (!takeValue() && !(name == "--random" && equals != std::string::npos))
      return usage(name + " needs a value");
    uint64_t number = 0;
    if (name == "--code") {
      options.code = value;
    } else if (name == "--entry") {
      options.entry = value;
    } else if (name == "--inputs") {
      options.inputs.push_back(value);
    } else if (name == "--outputs") {
      options.outputs = value;
    } else if (name == "--expect") {
      options.expect.push_back(value);
    } else if (name == "--schedule") {
      options.schedule = value;
    } else if (name == "--arch") {
      options.arch = value;
    } else if (name == "--random") {
      options.random = value;
    } else if (name == "--gates") {
      options.gates = value;
    } else if (name == "--rtol") {
      char *end = nullptr;
      options.rtol = std::strtod(value.c_str(), &end);
      if (*end || !(options.rtol >= 0))
        return usage("--rtol takes a number that is not negative");
    } else if (name == "--device" && value == "cpu") {
      options.deviceKind = LaunchOptions::Device::cpu;
    } else if (!parseNumber(value, number)) {
      return usage(name + " takes a natural number");
    } else if (name == "--seed") {
      options.seed = number;
    } else if (name == "--row-gap") {
      if (number > uint64_t(1) << 30)
        return usage("--row-gap takes at most 1073741824 bytes");
      options.rowGap = int64_t(number);
    } else if (name == "--multiprocessors") {
      options.multiprocessors = int64_t(number);
    } else {
      options.deviceKind = LaunchOptions::Device::cuda;
      options.device = int(number);
    }
  }
  if (options.help || options.version)
    return options;
  if (options.package.empty())
    return usage("no package was named");
  if (!options.info && options.code.empty() && options.inputs.empty() && !options.random)
    return usage("name inputs with --inputs or --random, or ask for --info or --code");
  if (!options.inputs.empty() && options.random)
    return usage("--inputs and --random exclude each other");
  bool runs = !options.inputs.empty() || !options.outputs.empty() || !options.expect.empty() ||
              options.bench || options.inPlace || (options.random && !options.info);
  if (!options.code.empty() && runs)
    return usage("--code runs nothing; leave out what says how to run");
  if (options.preferPtx && options.deviceKind == LaunchOptions::Device::cpu)
    return usage("--prefer-ptx is of a GPU");
  if (!options.info && (!options.arch.empty() || options.multiprocessors))
    return usage("--arch and --multiprocessors are for --info; a launch takes the device's");
  return options;
}
