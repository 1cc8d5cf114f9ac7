//===- Target.cpp - the table of GPU architectures ------------------------===//
//
// Sources of the figures:
// - PTX version: the PTX ISA's "Release Notes", table of targets. LLVM refuses an older version.
//   PTX 7.1 already had sm_86, 7.0 sm_80 and 7.8 sm_90. Their kernels are written in PTX 7.4 and
//   8.1 nevertheless, which has `red.v2.f32`: drivers that know later GPUs know those versions,
//   too.
// - Shared memory, registers and threads: the CUDA programming guide's appendix "Compute
//   Capabilities", tables "Technical Specifications per Compute Capability". A block may have all
//   of a multiprocessor's shared memory but the 1 KB that CUDA reserves for each block. For sm_88,
//   which the appendix leaves out, and for sm_103 and sm_121: CCCL's `cuda/arch_traits`, where
//   sm_88 has sm_86's figures, sm_103 has sm_100's and sm_121 has sm_120's.
// - wgmma, bulk copies, clusters, setmaxnreg: the PTX ISA's "Target ISA Notes" of
//   `wgmma.mma_async`, `cp.async.bulk.tensor`, `barrier.cluster` and `setmaxnreg`.
//   test/lowering/target/ptxas.test asks ptxas about each of them.
// - sm_101 is the name that sm_110 had before PTX 9.0.
//
//===----------------------------------------------------------------------===//
#include "lowering/target/Target.h"
#include "lowering/target/DefaultTargets.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace ejk;

static constexpr unsigned KB = 1024;

// clang-format off
static constexpr Target kTargets[] = {
  // name  capability  PTX  block     SM        threads wgmma  bulk   clusters setmaxnreg
  {"sm_80",   80,  74, 163 * KB, 164 * KB, 2048, false, false, false, false},
  {"sm_86",   86,  74,  99 * KB, 100 * KB, 1536, false, false, false, false},
  {"sm_87",   87,  74, 163 * KB, 164 * KB, 1536, false, false, false, false},
  {"sm_88",   88,  90,  99 * KB, 100 * KB, 1536, false, false, false, false},
  {"sm_89",   89,  78,  99 * KB, 100 * KB, 1536, false, false, false, false},
  {"sm_90",   90,  81, 227 * KB, 228 * KB, 2048, false, true,  true,  false},
  {"sm_90a",  90,  81, 227 * KB, 228 * KB, 2048, true,  true,  true,  true},
  {"sm_100",  100, 86, 227 * KB, 228 * KB, 2048, false, true,  true,  false},
  {"sm_100a", 100, 86, 227 * KB, 228 * KB, 2048, false, true,  true,  true},
  {"sm_100f", 100, 88, 227 * KB, 228 * KB, 2048, false, true,  true,  true},
  {"sm_101",  101, 86, 227 * KB, 228 * KB, 1536, false, true,  true,  false},
  {"sm_101a", 101, 86, 227 * KB, 228 * KB, 1536, false, true,  true,  true},
  {"sm_101f", 101, 88, 227 * KB, 228 * KB, 1536, false, true,  true,  true},
  {"sm_103",  103, 88, 227 * KB, 228 * KB, 2048, false, true,  true,  false},
  {"sm_103a", 103, 88, 227 * KB, 228 * KB, 2048, false, true,  true,  true},
  {"sm_103f", 103, 88, 227 * KB, 228 * KB, 2048, false, true,  true,  true},
  {"sm_110",  110, 90, 227 * KB, 228 * KB, 1536, false, true,  true,  false},
  {"sm_110a", 110, 90, 227 * KB, 228 * KB, 1536, false, true,  true,  true},
  {"sm_110f", 110, 90, 227 * KB, 228 * KB, 1536, false, true,  true,  true},
  {"sm_120",  120, 87,  99 * KB, 100 * KB, 1536, false, true,  true,  false},
  {"sm_120a", 120, 87,  99 * KB, 100 * KB, 1536, false, true,  true,  true},
  {"sm_120f", 120, 88,  99 * KB, 100 * KB, 1536, false, true,  true,  true},
  {"sm_121",  121, 88,  99 * KB, 100 * KB, 1536, false, true,  true,  false},
  {"sm_121a", 121, 88,  99 * KB, 100 * KB, 1536, false, true,  true,  true},
  {"sm_121f", 121, 88,  99 * KB, 100 * KB, 1536, false, true,  true,  true},
};
// clang-format on

llvm::ArrayRef<Target> ejk::knownTargets() { return kTargets; }

llvm::ArrayRef<llvm::StringLiteral> ejk::defaultTargets() {
  static constexpr llvm::StringLiteral kNames[] = {"sm_80", "sm_90a"};
  return kNames;
}

unsigned ejk::registersOf(unsigned threads) {
  constexpr unsigned kStep = 8;
  return std::min(kMostRegisters, kRegistersPerBlock / threads / kStep * kStep);
}

const Target *ejk::findTarget(llvm::StringRef name) {
  auto *row = llvm::find_if(kTargets, [&](const Target &target) { return target.name == name; });
  return row == std::end(kTargets) ? nullptr : row;
}

const Target *ejk::findTarget(llvm::StringRef name, mlir::Location loc) {
  const Target *target = findTarget(name);
  if (!target)
    mlir::emitError(loc) << describeUnknownTarget(name);
  return target;
}

const Target *ejk::findTargetOfDevice(unsigned major, unsigned minor) {
  unsigned capability = 10 * major + minor;
  const Target *best = nullptr;
  for (const Target &target : kTargets) {
    // Of what a letter adds, kernels use wgmma.
    bool isOwn = target.capability == capability && target.hasWgmma;
    if (isOwn || (target.isPortable() && target.capability <= capability))
      best = &target;
  }
  return best;
}

std::string ejk::describeUnknownTarget(llvm::StringRef name) {
  auto names = llvm::map_range(kTargets, [](const Target &target) { return target.name; });
  return llvm::formatv("unknown architecture '{0}'; the known ones are {1}", name,
                       llvm::join(names, ", "));
}

std::string ejk::describeTargets() {
  auto has = [](bool flag) { return flag ? "yes" : "no"; };
  std::string text =
      "| `--arch` | PTX | shared memory of a block | of a multiprocessor | threads of "
      "a multiprocessor | wgmma | TMA | clusters | setmaxnreg | runs on |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Target &target : kTargets)
    text += llvm::formatv(
                "| `{0}` | {1}.{2} | {3} KB | {4} KB | {5} | {6} | {7} | {8} | {9} | {10} |\n",
                target.name, target.ptxVersion / 10, target.ptxVersion % 10,
                target.sharedBytesPerBlock / KB, target.sharedBytesPerMultiprocessor / KB,
                target.threadsPerMultiprocessor, has(target.hasWgmma), has(target.hasBulkCopies),
                has(target.hasClusters), has(target.hasSetMaxRegisters),
                target.isPortable() ? "it and later ones" : "it alone")
                .str();
  return text;
}
