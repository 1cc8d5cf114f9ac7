//===- CpuExecutable.cpp - a package's code on this CPU -------------------===//

#include "CpuExecutable.h"

#include "../cpu/Threads.h"

#include <algorithm>

using namespace ejk;

bool ejk::hasCpuCode(const Manifest &manifest) {
  return std::any_of(manifest.architectures.begin(), manifest.architectures.end(),
                     [](const Architecture &arch) { return arch.isCpu; });
}

bool ejk::hasGpuCode(const Manifest &manifest) {
  return std::any_of(manifest.architectures.begin(), manifest.architectures.end(),
                     [](const Architecture &arch) { return !arch.isCpu; });
}

static Error noCode(const Manifest &manifest) {
  return {ErrorCode::ArchMismatch,
          "the package is compiled for " + manifest.archText +
              (hasCpuCode(manifest) ? ", and this CPU runs none of these; compile it for this "
                                      "CPU's architecture, too (--target=cpu)"
                                    : ", not for CPUs; compile it with --target=cpu, too")};
}

static int findBest(const Manifest &manifest) {
  int best = -1;
  const std::vector<Architecture> &archs = manifest.architectures;
  for (size_t a = 0; a < archs.size(); ++a)
    if (archs[a].isCpu && runsCpuArchitecture(archs[a].name) &&
        (best < 0 || isBetterCpuArchitecture(archs[a].name, archs[size_t(best)].name)))
      best = int(a);
  return best;
}

static Error findKernels(ejk_executable &executable, const Image &image) {
  for (const Entry &entry : executable.package->manifest.entries) {
    std::vector<std::vector<ejk_cpu_kernel>> &functions = executable.cpuFunctions.emplace_back();
    std::vector<char> &usable = executable.usable.emplace_back();
    for (const Variant &variant : entry.variants) {
      functions.emplace_back();
      usable.push_back(variant.isFor(executable.architecture));
      if (!usable.back())
        continue;
      for (const Launch &launch : variant.launches) {
        auto kernel =
            std::find_if(image.kernels.begin(), image.kernels.end(),
                         [&](const auto &known) { return known.first == launch.kernel; });
        if (kernel == image.kernels.end())
          return {ErrorCode::InvalidPackage,
                  "kernel '" + launch.kernel + "' is not in the package's CPU image"};
        if (!launch.tensorMaps.empty())
          return {ErrorCode::InvalidPackage,
                  "kernel '" + launch.kernel + "' of a CPU takes tensor maps"};
        functions.back().push_back(executable.image->kernel(kernel->second));
      }
    }
  }
  return {};
}

Result<std::unique_ptr<ejk_executable>>
ejk::createCpuExecutable(const std::shared_ptr<const Package> &package) {
  const Manifest &manifest = package->manifest;
  int architecture = findBest(manifest);
  if (architecture < 0)
    return noCode(manifest);
  auto executable = std::make_unique<ejk_executable>();
  executable->package = package;
  executable->architecture = architecture;
  executable->usesBinary = true;
  // An architecture is named by an image.
  const Image &image = *package->findImage(Image::Kind::Cpu, architecture);
  Result<std::string> code = package->codeOf(image);
  if (!code)
    return code.error();
  Result<CpuImage> mapped = CpuImage::map(*code);
  if (!mapped)
    return mapped.error();
  executable->image = std::make_unique<CpuImage>(std::move(*mapped));
  if (Error error = findKernels(*executable, image); !error.message.empty())
    return error;
  if (Result<unsigned> threads = startThreads(); !threads)
    return threads.error();
  return executable;
}

namespace {
/// A kernel with its arguments, for threads to run on ranges of its items.
struct Job {
  ejk_cpu_kernel kernel;
  const uint64_t *arguments;
};
} // namespace

// A sanitizer of calls would look for a type before the kernel, where nothing may be mapped.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
static void runRange(void *data, int64_t first, int64_t end) {
  const Job *job = static_cast<const Job *>(data);
  job->kernel(job->arguments, first, end);
}

void ejk::runOnCpu(const ejk_executable &executable, size_t entry, const CallPlan &plan,
                   const CpuThreads &threads) {
  const Variant &variant = executable.package->manifest.entries[entry].variants[plan.variant];
  const uint64_t *arguments = plan.values;
  for (size_t l = 0; l < variant.launches.size(); ++l) {
    const Launch &launch = variant.launches[l];
    Job job{executable.cpuFunctions[entry][plan.variant][l], arguments};
    arguments += launch.args.size();
    if (plan.grids[l] == 0)
      continue;
    if (threads.parallelFor)
      threads.parallelFor(threads.context, plan.grids[l], launch.block[0], runRange, &job);
    else
      runOnThreads(plan.grids[l], launch.block[0], runRange, &job, threads.most);
  }
}
