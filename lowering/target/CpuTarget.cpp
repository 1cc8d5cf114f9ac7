//===- CpuTarget.cpp - the table of CPUs ----------------------------------===//
#include "lowering/target/CpuTarget.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace ejk;

// Levels of x86-64 are those of the psABI. FMA rates and latencies: Agner Fog's tables and the
// vendors' optimisation guides, for Zen 5 and Sapphire Rapids (v4), Haswell to Zen 3 (v3),
// Neoverse N1 (aarch64). LLVM takes x86-64-v4 for a CPU whose clock falls with 512-bit
// vectors; no CPU since Ice Lake is one, so the feature that says so is turned off.
static constexpr CpuTarget kCpuTargets[] = {
    {"x86-64-v4-bf16", "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit,+avx512bf16", 16,
     32, 2, 4, 32 * 1024, /*multipliesBf16=*/true},
    {"x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit", 16, 32, 2, 4,
     32 * 1024},
    {"x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", "", 8, 16, 2, 5, 32 * 1024},
    {"aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", 4, 32, 2, 4, 32 * 1024},
};

llvm::ArrayRef<CpuTarget> ejk::knownCpuTargets() { return kCpuTargets; }

const CpuTarget *ejk::findCpuTarget(llvm::StringRef name) {
  auto found = llvm::find_if(kCpuTargets, [&](const CpuTarget &t) { return t.name == name; });
  return found == std::end(kCpuTargets) ? nullptr : found;
}

std::string ejk::describeCpuTargets() {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "| `--cpu-arch` | f32 lanes of a register | vector registers | multiply-adds a cycle | "
        "first cache | multiplies bf16 |\n|---|---|---|---|---|---|\n";
  for (const CpuTarget &target : kCpuTargets)
    os << "| `" << target.name << "` | " << target.lanes << " | " << target.registers << " | "
       << target.fmaPerCycle << " | " << target.firstCacheBytes / 1024 << " KB | "
       << (target.multipliesBf16 ? "yes" : "") << " |\n";
  return text;
}
