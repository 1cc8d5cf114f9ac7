//===- Target.h - the table of GPU architectures ------------------*- C++ -*-===//
//
// One row per architecture that kernels can be compiled for. Nothing else in the compiler parses
// an architecture's name or knows a limit of a GPU. To add a GPU, add its row to Target.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_TARGET_TARGET_H
#define EJK_LOWERING_TARGET_TARGET_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include <string>

namespace ejk {

/// The shared memory that a block may have without opting in, in bytes: 48 KB on every
/// architecture (CUDA programming guide, "Compute Capabilities").
constexpr unsigned kStaticSharedBytes = 48 * 1024;

/// The shared memory that the system takes of each block's, in bytes, from sm_80 on (same source).
constexpr unsigned kReservedSharedBytes = 1024;

/// The 32-bit registers of a block, which are as many as a multiprocessor has: 64 K on every
/// architecture from sm_80 on (same source).
constexpr unsigned kRegistersPerBlock = 64 * 1024;
/// The most registers that compiled kernels give to a thread; the hardware's limit is 255, and
/// `setmaxnreg` takes multiples of 8.
constexpr unsigned kMostRegisters = 248;
/// The most registers that each of a block's `threads` can have, a multiple of 8.
unsigned registersOf(unsigned threads);

/// An architecture: its name, the PTX that it needs, its limits, and the instructions that not
/// every architecture has.
struct Target {
  /// As ptxas and `.target` name it: "sm_90a".
  llvm::StringLiteral name;
  /// Ten times the major compute capability, plus the minor one.
  unsigned capability;
  /// Ten times the major version of the PTX ISA that kernels are written in, plus the minor one.
  unsigned ptxVersion;
  /// Shared memory in bytes: what a block may opt in to, and what a multiprocessor has.
  unsigned sharedBytesPerBlock, sharedBytesPerMultiprocessor;
  unsigned threadsPerMultiprocessor;
  /// Whether four warps multiply tiles from shared memory with `wgmma`.
  bool hasWgmma;
  /// Whether the device copies tiles by itself (`cp.async.bulk`, TMA) and signals an mbarrier.
  bool hasBulkCopies;
  /// Whether blocks can form clusters that see each other's shared memory.
  bool hasClusters;
  /// Whether warps of one block can have different numbers of registers (`setmaxnreg`).
  bool hasSetMaxRegisters;

  /// Whether kernels run on other architectures, too: those with a letter in their name do not.
  bool isPortable() const { return llvm::isDigit(name.back()); }
};

/// All rows, from the oldest architecture to the newest.
llvm::ArrayRef<Target> knownTargets();

/// The row of `name`, or null.
const Target *findTarget(llvm::StringRef name);

/// The row of `name`; null after an error at `loc` that lists the names in the table.
const Target *findTarget(llvm::StringRef name, mlir::Location loc);

/// The row to compile for when kernels run on a device of this compute capability alone. A device
/// that is not in the table takes the newest portable row that it can run. Null where there is
/// none, which means that the device is too old.
const Target *findTargetOfDevice(unsigned major, unsigned minor);

/// What is wrong with the name `name`, which is not in the table: a sentence with all names.
std::string describeUnknownTarget(llvm::StringRef name);

/// The table as Markdown, for `--list-archs` and the documentation.
std::string describeTargets();

} // namespace ejk

#endif // EJK_LOWERING_TARGET_TARGET_H
