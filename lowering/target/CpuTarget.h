//===- CpuTarget.h - the table of CPUs ----------------------------*- C++ -*-===//
#ifndef EJK_LOWERING_TARGET_CPUTARGET_H
#define EJK_LOWERING_TARGET_CPUTARGET_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/ArrayRef.h"

namespace ejk {

/// An instruction set that kernels are compiled for, and what a schedule has to know of the
/// CPUs that have it.
struct CpuTarget {
  /// As a package's manifest and --arch have it.
  llvm::StringLiteral name;
  llvm::StringLiteral triple, cpu, features;
  /// f32 lanes of a vector register, and how many registers there are.
  unsigned lanes, registers;
  /// Vectors of f32 that FMA instructions of one cycle take, and their latency in cycles.
  unsigned fmaPerCycle, fmaLatency;
  /// Bytes of a core's first data cache, the smallest among CPUs that have the set.
  unsigned firstCacheBytes;
  /// Whether it has instructions that multiply pairs of bf16 and add them to f32.
  bool multipliesBf16 = false;
};

/// All of them, best first within an architecture.
llvm::ArrayRef<CpuTarget> knownCpuTargets();
/// The target of that name, or null.
const CpuTarget *findCpuTarget(llvm::StringRef name);
/// The table, for people.
std::string describeCpuTargets();

} // namespace ejk

#endif // EJK_LOWERING_TARGET_CPUTARGET_H
