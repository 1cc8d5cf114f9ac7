//===- CpuImage.h - machine code as one flat block ----------------*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_CPUIMAGE_H
#define EJK_LOWERING_CPU_CPUIMAGE_H

#include "mlir/IR/Location.h"
#include "mlir/Support/LLVM.h"
#include <string>
#include <vector>

namespace ejk {

/// Code and constants that run wherever they are mapped, from an address that is a multiple of
/// `kCpuImageAlignment` on.
struct CpuImage {
  std::string bytes;
  /// Where each kernel starts.
  std::vector<std::pair<std::string, uint64_t>> kernels;
};

/// A page, as instructions of aarch64 count them.
constexpr uint64_t kCpuImageAlignment = 4096;

/// Lays out a relocatable ELF object's code and constants, and resolves all of its relocations.
/// Fails, with an error at `loc`, where the object needs anything from elsewhere.
llvm::FailureOr<CpuImage> layOutCpuImage(mlir::Location loc, llvm::StringRef object);

} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUIMAGE_H
