//===- CostModel.h - what decisions are made from -----------------*- C++ -*-===//
//
// Every number by which lowering tunes a kernel stands here, or in StepCosts.h for kernels without
// chunks, with its unit and its source, and so does every rule that turns numbers into a decision.
// Lowering finds out what a program needs and asks this page. Limits of a GPU are in its row of the
// table (Target.h), those of a CPU in CpuTarget.h, and how far an exponent may go is in
// passes/NumericRange.h. Passes before lowering know no target; the one number that they tune by is
// kExactPathRows in passes/chunk/Chunk.cpp.
//
// `ejk-opt --ejk-print-cost-model` and `ejk-compile --print-cost-model` print each decision with
// the figures that it was made from. A figure marked H200 was measured on one, with the packages of
// docs/performance.md; it serves all GPUs until another is measured.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_TARGET_COSTMODEL_H
#define EJK_LOWERING_TARGET_COSTMODEL_H

#include "lowering/target/StepCosts.h"
#include "lowering/target/Target.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Remarks.h"

namespace ejk::cost {

//===----------------------------------------------------------------------===//
// Printing decisions
//===----------------------------------------------------------------------===//

/// The category of the remarks that say what was decided.
constexpr llvm::StringLiteral kCategory = "ejk-cost-model";

/// Has `context` print decisions as remarks.
llvm::LogicalResult printDecisions(mlir::MLIRContext &context);

/// A decision at `loc`, of function `function`. It is printed when the object is destroyed, and
/// only where such remarks are wanted.
class Decision {
public:
  Decision(mlir::Location loc, llvm::StringRef function, llvm::StringRef name,
           const llvm::Twine &chosen);
  /// A figure that it was made from, with its unit.
  Decision &from(llvm::StringRef figure, int64_t value);

private:
  mlir::remark::detail::InFlightRemark remark;
};

//===----------------------------------------------------------------------===//
// Step by step, chunk by chunk, or segments side by side
//===----------------------------------------------------------------------===//

/// Rows from which on chunks are faster than steps. H200: a step takes 0.37 us (gk,
/// B=4,T=2048,H=16: 0.756 ms) and a chunk of 64 rows 2.3 us (gk, B=1,T=8192,H=96: 0.295 ms). The
/// loads before the first chunk and the stores after the last one take some 2.3 us more. One chunk
/// takes 4.6 us in all, as 12 steps do. In a derivative a step takes 1.43 us and a chunk 7.4 us. The
/// number is the next one that fills a matmul's tile, which has 16 rows.
constexpr int64_t kFewestRowsForChunks = 16;

/// The same on a CPU, where a chunk of 32 rows costs what some 20 steps do (Zen 4, 8 heads of 128²:
/// 0.11 ms, and 5.6 us a step), and rows that it lacks are computed as well.
constexpr int64_t kFewestRowsForChunksOnCpu = 64;

/// Rows from which on segments of a sequence side by side may be faster than its chunks one after
/// the other. H200 (gk, 1024 rows, 8 heads): 42.8 us by chunks, 27.3 in 4 segments, 21.6 in 16. Of
/// 512 rows they take 23.3, 19.8 and 17.2, less for narrower states: too little is left to gain.
constexpr int64_t kFewestRowsToSplit = 1024;

/// Of a scan without K×V states, whose rows need nothing of each other: the segments that a long
/// sequence has at least, and the rows of one. A warp has a segment of a head, and 16 of 256 rows for
/// each of 64 heads are 8 warps a multiprocessor. Longer ones leave few sums of segments to add up.
constexpr int64_t kRowSegments = 16, kMostRowsOfRowSegment = 256;
/// The bytes of a chunk's rows up to which threads copy what matmuls alone read. H200, forward at
/// 4,4096 with gk: 72 KiB a chunk, of 4 heads of 256×512 or 16 of 256×256, take 0.27 and 0.60 ms by
/// threads and 0.25 and 0.56 by TMA.
constexpr int64_t kMostBytesCopiedByThreads = 64 * 1024;
/// With so many stages of f32 rows, threads copy them so far ahead that they wait for none. H200,
/// KDA with a bound, three stages of 32 rows: 1.199 ms, 1.230 by TMA; with one stage of 64 rows
/// 0.960, 0.920.
constexpr int64_t kStagesCopiedByThreads = 3;

/// The slices of a state from which on a kernel of its own scales the rows that they have in
/// common, and the channels from which on it multiplies them: what each slice computes again costs
/// more than what the kernel writes and all slices load. H200, forward at 4,4096 with gk: 4 heads
/// of 256×512 in 8 slices take 0.54 ms -> 0.22, 16 heads of 256×256 in 4 slices 0.68 -> 0.47. With
/// products of 256 channels apart these take 0.28 and 0.50.
constexpr int64_t kFewestSlicesOfFront = 4, kFewestChannelsOfFrontProduct = 512;
/// The registers that tiles may take beside a front, or of two heads: the state, and as many again
/// in 16 bits, which are stored as they are rounded. Mamba-2's derivative of two heads has 190, and
/// spills none. H200, 4,4096, 4 heads of 512×512: 8 slices of 192 registers spill 56 bytes and take
/// 0.56 ms, 16 take 1.1.
constexpr int64_t kMostRegistersOfStates = 200;
/// The segments of a sequence where a device takes all of them at once, at least; their rows at
/// most, and those of a packed one. A segment costs the reading and writing of its state four
/// times, as much as 256 rows of keys, values, queries and outputs, and one step of the scan that
/// combines the states. H200 (g, 4096 rows): one head takes 52.9 us in 4 segments and 22.9 in 16, 4
/// heads 53.6 and 24.6; gk 71 and 28 us.
constexpr int64_t kFineSegments = 16;
constexpr int64_t kMostRowsOfFineSegment = 1024;
constexpr int64_t kRowsOfFinePackedSegment = 256;

/// Elements of the states that one thread block has: 64 KiB of f32 in the registers of eight warps.
/// Wider states are divided into slices. passes/chunk has the same default.
constexpr int64_t kStateElementsPerBlock = 128 * 128;

/// The heads of one thread block, where they add up gradients of rows that they share, in launches
/// of more heads than multiprocessors. H200, derivative, a gate per head, bf16, 8 groups, one head
/// a block and two, ms. States of 128x64: 4,4096, 128 heads 1.80 and 1.27; 1,8192, 208 heads 1.74
/// and 1.24; 2,4096, 112 heads, one group 1.10 and 0.87; 1,8192, 128 heads, of which each has a
/// multiprocessor of its own, 0.91 and 1.20. Of 64x128: 4,4096, 64 heads 0.85 and 0.60.
constexpr int64_t kHeadsPerBlock = 2;
/// Whether such heads share a block, if a loop carries so many elements for each. Two states of
/// 64x64 leave a block four warps, which take 1.08 of the time of two blocks (4,4096, 64 heads,
/// 0.594 and 0.640 ms).
bool jamsHeads(int64_t carried);

/// Wider slices of states that are cut into slices, from the widest on. Each slice loads the rows
/// of all channels that it does not share, so the fewest slices move the fewest bytes; the widest
/// state takes half of a block's registers.
constexpr int64_t kWideStateElements[] = {2 * kStateElementsPerBlock,
                                          3 * kStateElementsPerBlock / 2};
/// The rows of the shortest chunk that is taken for fewer slices. A chunk's barriers and latencies
/// cost the same for any length, and in 16 rows they outweigh its copies (an estimate; on an H200 a
/// chunk of 64 rows of a state of 128x128 takes as long as its copies).
constexpr int64_t kFewestRowsForWideSlices = 32;

/// How many times the rows of a segment cost, in passes over them. A split computes each segment
/// twice, once for its state alone. H200, gk: with 4 segments (B=2,T=16384,H=16) the split takes
/// 1.75 x the floor and the whole sequence 3.95 x, so one segment takes 0.99 x and the split 1.8
/// segments; with 16 (B=1,T=65536,H=8) it is 1.77 x and 13.5 x, 2.1 segments. With a third pass as
/// margin, a split is taken where it is faster by a quarter or more.
constexpr int64_t kSegmentPasses = 3;

/// The same where steps correct the state: each segment is scanned for its state from zero, for its
/// transition, and from its start. H200, a gate per head: 32 heads of 8192 rows in 4 segments take
/// 0.73 of the time by chunks, which is 2.9 segments, 8 heads of 32768 rows in 16 take 3.1, and 64
/// heads of 16384 rows in 8, of 4 rounds, 2.9 a round. So there is no margin: what is taken is
/// faster by a quarter where a sequence has 4 segments.
constexpr int64_t kCorrectedSegmentPasses = 3;
/// The most rows of such a segment. A chunk takes 5.9 us there (H200, g), and its states' combination
/// a fourth of that, so that shorter segments fill a device better with few heads: 8 heads of 32768
/// rows have 128 segments.
constexpr int64_t kMostRowsOfCorrectedSegment = 2048;
/// Such segments that a sequence has at least where a device takes all of them at once, but not kFineSegments:
/// of 9 to 16 heads.
constexpr int64_t kMiddleSegments = 8;

/// The rows from which on two halves of a sequence are taken where a device takes those of all
/// sequences and heads at once: one half is scanned for its end first. H200, 16384 rows, 64 heads, a
/// delta rule with a gate per head: that takes 0.42 of 1.05 ms, and 0.50 of 4.66 of the gradients;
/// the scans then take half of their time. Of 2048 rows its forward takes 0.136 -> 0.139 ms, without
/// corrections 0.061 -> 0.067, and their gradients 0.178 -> 0.129; of 4096 none is slower. A delta
/// rule's gradients have halves where their last scan has two segments (kRowsToRestart).
constexpr int64_t kFewestRowsForHalves = 4096, kFewestRowsForHalvesOfDerivative = 2048;

/// The rows after which a scan restarts that goes through states which an earlier one has
/// corrected, from rows of 16 bits: their errors add up in the state. H200, a gate per head of 0
/// nats: dk is off by 5.3e-3 of its norm after 2048 rows, and by 1.2e-2 and 2.3e-2 after 16384 and
/// 65536. The states that are saved are a fiftieth of the rows.
constexpr int64_t kRowsToRestart = 2048;

/// What a gate may be at least, in nats a step, where a step's function or a bound that is given says that
/// it may be this strong: then rows and transitions of segments are left out where gates forget them
/// (`ejk-split-over-time{forget}`). Models bound gates by -5. Of a weaker bound all rows would mostly stay,
/// and the transitions of the last ones would be made for nothing.
constexpr double kForgettingGate = -2;

//===----------------------------------------------------------------------===//
// The length of a chunk
//===----------------------------------------------------------------------===//

/// The lengths that are tried, in rows. A longer chunk reads and writes its state less often. The
/// first is taken whose program fits into shared memory, whose range guard ordinary gates pass, and
/// that divides the distance of saved states; a shorter one where it cuts a wide state into fewer
/// slices. A matmul of wgmma has 64 rows, and one of mma.sync 16.
constexpr int64_t kChunkLengths[] = {64, 32, 16};

/// The same on a CPU, where a matmul may have any number of rows. Matmuls between rows of one
/// chunk, a fifth of all multiply-adds with 64 rows, take half as many a row with 32.
/// Zen 4 (bf16, T = 1024, H = 8, K = V = 128): 4.21 ms in chunks of 64, 3.95 in chunks of 32.
constexpr int64_t kChunkLengthsOnCpu[] = {32, 16};

/// The rows of the chunks that take gates which leave the fast path of a longer one. 8 rows from the middle
/// on take 8 nats a row; models train with up to 5. With gates of both axes they take 4: H200, −5σ(x), 4,4096,64:
/// all gradients 23.8 ms step by step, 25.8 with such chunks.
constexpr int64_t kChunkRowsOfStrongGates = 16;
/// The gates of a row that such models train with. Programs for them have blocks of as many rows as
/// sum up to what fits a block's range.
constexpr double kStrongNatsPerRow = 5;
/// The share of a guard's range that the gates of a head's first chunk may take where the head is
/// computed by programs for weak gates. Fewer heads than the device's multiprocessors run side by
/// side, so that one head that leaves the range in every other chunk delays all. A model of the
/// heads of 4,4096,64 on 132 multiprocessors, with gates of softplus(N(0, 1) + b) at
/// initialisation: KDA's forward takes 2.14 ms with a share of 1, 1.21 with 3/4 and 1.85 with 5/8,
/// where all heads take 2.32 by programs for weak gates; -log(1 + e^-x), x of N(0, 1), stays with
/// these up to 5/8.
constexpr double kShareOfWeakGates = 0.75;
/// The most registers of a thread that the tiles of a program may take whose blocks share a launch
/// with another's. A thread has 255. Where tiles take more, ptxas has all matmuls of the kernel
/// wait for one another (C7512), those of the other program, too. H200, 4,4096,64, a gate per value
/// channel (272 registers), weak gates: 0.414 ms apart, 0.541 in one launch.
constexpr int64_t kMostRegistersOfSharedLaunch = 255;
/// The fewest rows of all heads together for which programs are chosen by gates, and those where a
/// recurrence corrects its state. The kernel that looks at the gates takes 4 to 8 µs of the 130 to
/// 250 that so many take (H200, 128×128 channels: 8,1024,32 by GLA 0.132 and 0.140 ms, 8,1024,16 by
/// KDA 0.129 and 0.133).
constexpr int64_t kFewestRowsByGates = 1 << 19, kFewestRowsByGatesOfCorrected = 1 << 17;
/// Whether chunks of so many rows take gates of 5 nats a row, if half a chunk may come to `nats`.
bool takesStrongGates(double nats, int64_t rows);

/// What gates per channel may come to, in nats per row over half a chunk, before the chunk leaves
/// the fast path. Those of logsigmoid(x) with normal x come to 0.8, so 2 is rarely exceeded.
constexpr double kNatsPerRow = 2;

/// Whether chunks of `rows` rows whose range guard has the bound `nats` take ordinary gates on the
/// fast path.
bool takesOrdinaryGates(double nats, int64_t rows);

//===----------------------------------------------------------------------===//
// Warps and the order of work
//===----------------------------------------------------------------------===//

/// The elements of the largest matrix for which four warps suffice: each of their 128 threads then
/// holds 32 elements of it, and four or five such matrices fit into its registers.
constexpr int64_t kElementsOfFourWarps = 64 * 64;
/// The same with `wgmma`, whose operands are in shared memory (fitFewWarps). Two warpgroups read each an
/// operand that one reads once. H200, Mamba-2 with 128 heads of 128x64 (4,4096): 248 KB of shared memory read
/// and written a chunk and 0.406 ms with eight warps, 152 KB and 0.350 ms with four; 0.281 ms with four in two
/// blocks of a multiprocessor.
constexpr int64_t kElementsOfWarpgroup = 128 * 64;
/// The same where a thread holds more such matrices: with `mma.sync`, which does not add up in
/// place what it loads, and in a block of so many matmuls that registers are short. Found by what
/// ptxas spills for derivatives with a gate per key channel: none at 32 channels with four warps,
/// 44 bytes at 64 channels. A program of f32 matmuls is such a one as well, because the two sums of
/// each and the terms of its operands take as many registers as two or three more matrices: with
/// four warps for 64×64, kernels of 64×64 states spilled 200 to 900 bytes (sm_80 and sm_90a).
constexpr int64_t kElementsOfFourBusyWarps = 32 * 64;
/// The warps of a small block and of a large one.
constexpr unsigned kFewWarps = 4, kManyWarps = 8;
/// The warps of a program whose largest matrix has so many elements.
unsigned warpsFor(int64_t elements, bool hasWgmma, bool isBusy);

/// The registers that a thread of a GPU has at most (CUDA programming guide, "Compute
/// Capabilities").
constexpr int64_t kThreadRegisters = 255;
/// The most registers of live tiles with which the programs of a derivative that share saved states
/// have chunks of 64 rows; with more, shorter chunks are faster. H100, delta rules with states of
/// 128x128, 64 value and 32 key heads, B=4, T=4096: with a gate per key channel, whose two programs
/// have 258 and 332, 13.5 ms for chunks of 64 rows (they spill 580 and 1,836 bytes) and 6.9 for 32.
/// With a gate per head both programs have less, and one kernel for both, which has 296 and spills
/// 260 bytes, takes 2.9 ms with as many key heads. Other GPUs were not measured.
constexpr int64_t kTileRegistersOfDerivative = 320;
/// Whether four warps that multiply with `wgmma` are faster than eight for a program whose tiles
/// take up to `ofTiles` of a thread's registers at one time (registersOfLiveTiles). Eight warps
/// spill less, and meet at more barriers. H100, delta rules with states of 64x64, eight warps by
/// four: the derivatives whose fused kernel has 344 and 352 registers of tiles 0.72 and 0.56 times
/// as long; forwards with 162, which spill 64 bytes, 1.30, and that save states 1.10. Between 162
/// and 344 nothing was measured.
/// A program with a larger tile than kElementsOfFourWarps (`isWide`) has less beside it, and nothing to spare
/// for branches, packed sequences and derivatives (`hasOthers`). With 128x64 and 64x128 forwards take up to 196
/// and spill none; of packed sequences they spill 36 to 48 bytes, and derivatives, with 168 to 250, 12 to 412.
bool fitFewWarps(int64_t ofTiles, bool isWide, bool hasOthers);

/// Whether a program whose largest matrix has so many elements is faster in tf32. H200, forward,
/// ms: a delta rule with a gate per head, states of 128x128, 0.542 -> 0.522 at 4,4096,64 heads,
/// where it saves states 0.764 -> 0.694; with a gate per key channel 1.005 -> 0.962 and 1.070
/// -> 1.092. RWKV-7 of examples, states of 64x64, which spills 348 bytes and in tf32 780, 1.363
/// -> 1.677. A decision by shapes alone: what is rounded must not depend on the registers that a
/// program happens to have left.
bool tf32Pays(int64_t elements);

/// The warps that compute what does not depend on the state, where they are warps of their own.
constexpr unsigned kFrontWarps = 4;
/// The registers of a thread of each side.
struct PartitionRegisters {
  int64_t front, state;
};
/// The registers of both sides, if their tiles take so many of them at one time
/// (registersOfLiveTiles); nothing if one would lack some. H200, a delta rule with a gate per head,
/// B=4,T=4096,H=64, whose tiles take 76 and 160: 0.526 ms with 120 and 192, of which it spills 48
/// bytes, 0.518 with 104 and 200, of which it spills 4. With operands in bf16 terms, whose tiles
/// took 90 and 176: 0.64, 0.61, 0.58 and 0.71 with 104, 112, 120 and 128 for a thread of the front
/// and the rest for one of the state's; 0.68 without such warps. The derivative's first pass, whose
/// tiles take 106 and 144, at 1,8192,16->32 heads: 114 us with 152 and 176, 131 without such warps.
/// The forward that saves states has 74 and 176: with 120 and 192 it spills 148 bytes and takes
/// 0.907 ms, 0.694 without such warps.
std::optional<PartitionRegisters> partitionRegisters(int64_t ofFront, int64_t ofState);
/// Whether they are faster than blocks of four warps, of which a multiprocessor runs two, for a program
/// whose largest tile has so many elements. H200, a delta rule with states of 64x64, 4,4096,64: 0.582 ms,
/// and 0.424 in two blocks; 1,8192,32, where there is no second block, 0.381 and 0.407.
bool partitionsPay(int64_t elements);

/// Whether the state's warps copy rows into a stage at the end of the iteration that reads it last,
/// not in the next one beside matmuls: the front, which is a chunk ahead, then has them earlier,
/// and the warps wait for one another once more. H200, a delta rule with a gate per head, 4,4096,64
/// 0.527 -> 0.497 ms, 8,2048,16->32 heads 0.270 -> 0.256; scans that store no rows, of segments for
/// their states, 91 -> 95 and 80 -> 85 us (1,8192,16->32). At the start of the next iteration
/// instead: 0.510, 0.261, 90 and 82.
bool refillsAtEnd(bool storesRows);

/// A program, as the estimate of its registers sees it.
struct ProgramShape {
  /// Whether warpgroups multiply with `wgmma`, or single warps with `mma.sync`.
  bool hasWgmma = false;
  /// Whether it has two paths behind a range guard.
  bool hasBranch = false;
  /// The tensors that it takes and makes.
  int64_t tensors = 0;
};
/// With one stage, rows whose tiles are read no more once 1 / kSoonFreeMatmuls of a loop's matmuls are
/// issued are copied again then, apart from the other rows. H200, a delta rule with a gate per head, B=4, T=4096,
/// H=64: its derivative takes 2.29 ms with this and fewer reloads of spilled addresses, 2.50 with
/// neither. Other parts of a loop were not tried.
constexpr unsigned kSoonFreeMatmuls = 2;
/// The most registers of live tiles with which rows that are read before a branch alone are copied
/// again there: the second ring takes registers. H200, KDA, 4,4096,64: the derivative's first
/// program, which has 166, 0.810 -> 0.718 ms; its last one (188) 2.75 -> 2.84, the forward that
/// saves states (194) 0.973 -> 0.987; for strong gates the first (264) 1.02 -> 1.40. GLA's forward
/// for strong gates (208) 0.851 -> 0.841, that saves states (240) 0.965 -> 1.387.
constexpr int64_t kRegistersBesideSoonFree = 176;
/// Whether a thread has registers for a program whose tiles take up to `ofTiles` of them at one
/// time (registersOfLiveTiles). The rest holds addresses, six registers for each tensor; what is
/// live across a branch, whose operands are pipelined with `wgmma`; and with `mma.sync`, which has
/// its operands in registers, those. Found by what ptxas spills for the sizes of
/// docs/head-sizes.md: with `wgmma` and no branch nothing up to 209, 844 bytes at 226; with a
/// branch 144 bytes at 166. With `mma.sync` and no branch 56 bytes at 130.
bool fitsRegisters(int64_t ofTiles, const ProgramShape &shape);

/// What one multiprocessor does in a cycle: bf16 multiplications on tensor cores, elementwise f32
/// ops, exponentials, and bytes of shared memory. Of Hopper: 989.4 TFLOPS of dense bf16 on 132
/// multiprocessors at 1.83 GHz (H100 white paper); 128 FP32 lanes, 16 results of the special
/// function unit, 32 banks of 4 bytes (CUDA programming guide, "Arithmetic Instructions", "Shared
/// Memory"). The order of ops depends on their ratios, which other GPUs share within a factor of
/// two.
constexpr int64_t kMultipliesPerCycle = 2048, kOpsPerCycle = 128, kExpsPerCycle = 16,
                  kBytesPerCycle = 128;
/// Latencies in cycles: from a matmul's end to its result, of a load from shared memory, of a
/// barrier among a block's warps, and of issuing an op. Estimates: the schedules that they give
/// were measured on an H200 (docs/experiments.md), they themselves were not.
constexpr int64_t kMatmulLatency = 40, kSharedLatency = 30, kBarrierLatency = 60, kIssue = 4;
/// The same of rows in memory, for drawings alone: what a multiprocessor of an H200 gets of its 4.8
/// TB/s (its data sheet), and from a copy's issue to its arrival, an estimate.
constexpr int64_t kGlobalBytesPerCycle = 20, kGlobalLatency = 600;
/// The cost of a barrier among the conversions between which an orientation is chosen, in bytes of
/// shared memory traffic that take as long: 64 cycles of kBytesPerCycle.
constexpr int64_t kBarrierBytes = 64 * kBytesPerCycle;

/// A block of ops, as the budget of registers sees it.
struct BlockShape {
  bool isBranch = false;
  /// Matmuls, and whether single warps issue them (mma.sync) with all operands in registers.
  int64_t matmuls = 0;
  bool byWarps = false;
  /// Whether it has so many matmuls that registers are short.
  bool hasManyMatmuls = false;
};
/// The registers of a thread that live fragments may take before another matmul is delayed. A block
/// has what its matmuls leave: each needs registers for the addresses of its operands and uses. A
/// branch has less, because values from before it are live. Found by what ptxas spills for the
/// derivatives of docs/performance.md (docs/experiments.md).
int64_t fragmentRegisters(const BlockShape &block);
/// As how many matmuls of a block one in tf32 counts: those in terms that it replaces. Of a delta
/// rule's forward, 128x128, a gate per head, ptxas then spills 4 bytes; where each counts as one it
/// spills 92.
constexpr unsigned kMatmulsOfTf32 = 3;
/// The same where a matmul is the last use of an operand in as many registers as its result takes, and so
/// needs both only while it runs. ptxas spills 24 bytes for the derivative with a gate per head at 192x192
/// with 224 and none with 176; a delta rule's two reads of its state at 128x128 need 160.
constexpr int64_t kFragmentsOfPairedReads = 176;
/// Where more registers of fragments than the first are live at once in a block, the second is the
/// number from which on, of ops that can run as early, the one goes first that leaves fewer. At
/// 128x128 ptxas then spills 40 bytes for a delta rule's fused derivative where it spilled 248;
/// with 0, 60 and 140 it spills 68, 68 and 112. For a block of 144 registers the other order takes
/// 2 % longer.
constexpr int64_t kFragmentsOfThread = 200, kFragmentsOfFullBlock = 100;

/// Of how many exponentials one is computed as a polynomial by FMAs. The special function unit
/// alone would take kOpsPerCycle / kExpsPerCycle = 8 FMA slots for each, e^x and e^-x as
/// polynomials together 12, beside the other work of the FMA pipes. H200: gk at 96 heads 0.308 ms
/// with none, 0.295 ms with one in 3 (docs/experiments.md).
constexpr int64_t kPolynomialOneIn = 3;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// A way to overlap copies, matmuls and stores of consecutive chunks.
struct StagePlan {
  /// Chunks whose rows are in shared memory at a time; 0 for none copied ahead.
  unsigned stages;
  /// The next chunk's matmuls, or all operands of the next chunk's branch, are computed an
  /// iteration early.
  bool pipelinesMatmuls = false, pipelinesBranch = false;
  /// Stores are issued in the next iteration, from a double buffer.
  bool defersStores = false;
  /// Whether f32 matrices have stages, too.
  bool stagesF32 = true;
};
/// The stages that most plans have at most.
constexpr unsigned kMostStages = 3;
/// The plans in the order in which they are tried: the first that fits into shared memory is taken.
/// They go from the most overlap to the least, as they did in experiments on an H200
/// (docs/experiments.md). Before all of them come those of two stages or more that leave room for as many
/// blocks as registers do (sharedBytesOfBlock).
llvm::ArrayRef<StagePlan> stagePlans();
/// The stages with which a plan that leaves room for another block is better than one with more overlap.
/// H200, 4,4096,64, two blocks by one: with two stages 0.70 to 0.82 times as long (forwards with states of
/// 128x64; gates of both axes and derivatives with a gate per head at 64x64), and 0.98 to 1.39 where there is no
/// second block; with one stage 0.94, and 1.43.
constexpr unsigned kStagesOfSecondBlock = 2;
/// The shared memory that a block of so many warps takes at most before it costs blocks of a
/// multiprocessor: four warps that multiply with `wgmma` have registers for two of them.
unsigned sharedBytesOfBlock(const Target &target, unsigned warps, bool hasWgmma);
/// A plan in words, for decisions: "3 stages, matmuls pipelined".
std::string describe(const StagePlan &plan);

/// Up to how many tiles that are spilled to shared memory it is tried which of them may stay in
/// registers. Each trial emits a kernel, and there are as many as the square of the number.
constexpr unsigned kMostSpillsTried = 8;

/// After a thread has computed so many elements, a bulk store has read its source, so waiting for
/// it costs nothing. Blocks of many matmuls issue their stores together, so they wait later. H200:
/// gk's derivative 1.092 ms, 1.008 with waits that come later (docs/experiments.md).
unsigned elementsBeforeBulkStoreIsRead(bool hasManyMatmuls);

} // namespace ejk::cost

#endif // EJK_LOWERING_TARGET_COSTMODEL_H
