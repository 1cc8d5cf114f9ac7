//===- StepCosts.h - numbers of kernels without chunks ------------*- C++ -*-===//
//
// The part of the cost model (CostModel.h) for rows without a state, for scans step by step, on
// GPUs and CPUs, and for loops over elements between recurrences.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_TARGET_STEPCOSTS_H
#define EJK_LOWERING_TARGET_STEPCOSTS_H

#include <cstdint>

namespace ejk::cost {

//===----------------------------------------------------------------------===//
// Rows without a state
//===----------------------------------------------------------------------===//

/// The fewest channels of rows that lanes divide. Threads that have a row each would load single
/// elements.
constexpr int64_t kFewestChannelsOfRow = 8;

/// The heads of a block where rows are numbers: those of one sector of memory, 32 bytes. H200,
/// 1,16384,64, two gates in, two rates out: 10 µs; with a head a block 51.
constexpr unsigned kHeadsOfRowLanes = 8;

/// The warps of a block, and the rows that a lane computes at a time: enough to have as many loads
/// outstanding as memory needs, and of a short convolution few that are loaded twice. But no more
/// elements than fit registers. H200, B=4,T=4096,H=64, 128 channels, over the floor: a gated RMS
/// norm 1.37, 1.15 and 1.06 with 1, 2 and 4 rows; a convolution of four rows and SiLU 1.62, 1.39
/// and 1.48 with 2, 4 and 8, and 1.51 with 8 warps.
constexpr unsigned kWarpsOfRows = 4, kRowsAtOnce = 4, kElementsOfRows = 96;

/// Registers of a thread: seven blocks of a multiprocessor, or with sums four. The same convolution
/// 1.49, 1.39 and 1.63 with 64, 72 and 128; its derivative, which sums, 3.00 and 2.97 with 80 and
/// 128, and with a norm behind it 4.20 and 3.83.
constexpr unsigned kRegistersOfRows = 72, kRegistersOfRowSums = 128;

//===----------------------------------------------------------------------===//
// Step by step
//===----------------------------------------------------------------------===//

/// Budgets of a step kernel: registers of a thread for the next chunk's rows, floats of a block's
/// shared memory for both stages (40 KB of the 48 that need no opting in), and state elements times
/// unrolled steps of a thread. They leave room for two blocks or more on each multiprocessor.
constexpr unsigned kPrefetchRegisters = 26, kStageFloats = 10 * 1024, kUnrolledElements = 256;

/// Rows and columns of a state that a thread has; and how many rows where warps are many: so many,
/// of these large tiles, on four multiprocessors. Registers let one run eight of them, or sixteen
/// of small tiles. H200, ms, small and large tiles: GDN of 128×128, 64 sequences of 4 rows and 32
/// heads (62 warps a multiprocessor) 0.135, 0.086; 4 sequences (3.9) 0.0142, 0.0117. GLA of f32
/// rows of 128×128, 1,024 rows, 144 heads (4.4) 1.05, 0.80, 96 heads (2.9) 0.514, 0.529. States of
/// 64×64, of one such warp, which then loads all rows, 448 heads of 1,024 rows (3.4) 0.469, 0.652:
/// they have small tiles alone.
constexpr unsigned kRowsOfStepTile = 8, kColumnsOfStepTile = 4, kRowsOfLargeStepTile = 32;
constexpr int64_t kWarpsOfLargeStepTiles = 15;

/// Addresses at which a block's rows start, of two registers each, that stay in registers over a
/// loop. Where there are more, the loop adds offsets to the kernel's arguments. From the registers
/// that ptxas counted.
constexpr unsigned kFewPlaces = 3;

//===----------------------------------------------------------------------===//
// Loops over elements, between recurrences
//===----------------------------------------------------------------------===//

/// Threads of a block: 8 blocks fill a multiprocessor's 2048. Not measured against other numbers.
constexpr unsigned kElementThreads = 256;

/// The most ops of a thread, in PTX instructions roughly, and what an op of `math` counts as. A
/// thread computes neighbours as copies of the loop's body, so long bodies get fewer of them. An
/// estimate. With 4 neighbours a rounding from f32 to bf16 has 21 instructions, and 61 for one
/// element without.
constexpr unsigned kOpsOfElementThread = 128, kOpsOfMath = 16;

//===----------------------------------------------------------------------===//
// Step by step on a CPU
//===----------------------------------------------------------------------===//

/// Bytes of stack that the tiles of one call's blocks may take. Threads of other libraries, on
/// which a kernel may run, have megabytes of it.
constexpr uint64_t kTileBytesOnCpu = 128 * 1024;

/// Steps of a chunk, at most, whose rows are laid out for the loops over channels at once; fewer if
/// they exceed the first cache.
constexpr unsigned kMostStepsOnCpu = 64;

/// Steps of one pass over the rows of a linear state: 2.25 vector operations a row and step in
/// place of 3. More steps would save less than their dot products cost.
constexpr unsigned kTimeBlockOnCpu = 4;

/// Rows of a state between two requests for lines that come next, so that the multiply-adds hide
/// them. Zen 5 (f32, T = 1024, H = 8, K = V = 128, gk): 3.02 ms, and 3.80 with all requests at
/// once.
constexpr int64_t kRowsPerRequestOnCpu = 8;

} // namespace ejk::cost

#endif // EJK_LOWERING_TARGET_STEPCOSTS_H
