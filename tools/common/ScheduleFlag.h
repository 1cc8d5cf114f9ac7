//===- ScheduleFlag.h - which kernels are made, on the command line -------===//
#ifndef EJK_TOOLS_COMMON_SCHEDULEFLAG_H
#define EJK_TOOLS_COMMON_SCHEDULEFLAG_H

#include "lowering/Schedule.h"
#include "passes/F32Matmuls.h"
#include "passes/Rounding.h"
#include "tools/common/Choice.h"

namespace ejk {
/// --schedule, --fuse, --save-states, --warp-specialize, --partition-warps, --round-computed-operands,
/// --round-exponentials, --two-term-states, --two-terms and --f32-matmuls, of tools that compile.
class ScheduleFlag {
public:
  explicit ScheduleFlag(llvm::cl::OptionCategory &category)
      : schedule(
            "schedule", llvm::cl::cat(category), llvm::cl::init(Schedule::automatic),
            llvm::cl::desc("How recurrences are computed"),
            llvm::cl::values(clEnumValN(Schedule::step, "step", "step by step"),
                             clEnumValN(Schedule::chunk, "chunk",
                                        "chunk by chunk on tensor cores, in 16-bit products, where "
                                        "that is possible; remarks say where it is not"),
                             clEnumValN(Schedule::split, "split",
                                        "the same over segments of each sequence, which are "
                                        "scanned side by side: for few long sequences"),
                             clEnumValN(Schedule::automatic, "auto",
                                        "each way, of which a launch takes the best for its "
                                        "sizes and device (the default)"))),
        fuseWalks("fuse", llvm::cl::cat(category), llvm::cl::init(true),
                  llvm::cl::desc("Compute all of a derivative's gradients in one kernel, from "
                                 "saved states, where that fits (the default); --fuse=false takes "
                                 "two")),
        saveStatesFlag("save-states", llvm::cl::cat(category), llvm::cl::init(true),
                       llvm::cl::desc("For --vjp: where one kernel computes all gradients, have a "
                                      "function F_fwd save the states that F_vjp would otherwise "
                                      "compute again (the default)")),
        warpSpecializeFlag(
            "warp-specialize", llvm::cl::cat(category),
            llvm::cl::desc("Chunk by chunk, have other warps copy rows than compute, "
                           "from sm_90 on")),
        partitionWarpsFlag(
            "partition-warps", llvm::cl::cat(category), llvm::cl::init(true),
            llvm::cl::desc("Chunk by chunk, compute what does not depend on the state in warps "
                           "of their own, on sm_90a (the default)")),
        roundComputedFlag(
            "round-computed-operands", llvm::cl::cat(category), llvm::cl::init(true),
            llvm::cl::desc("Chunk by chunk, round keys, values, queries and cotangents that are "
                           "computed in f32 from 16-bit rows to 16 bits, an error of 1.1e-3 of "
                           "their norm (the default); with --round-computed-operands=false such "
                           "recurrences are computed step by step")),
        roundExponentialsFlag(
            "round-exponentials", llvm::cl::cat(category), llvm::cl::init(true),
            llvm::cl::desc(
                "Chunk by chunk, keep exponentials of a derivative's gates in bf16 while "
                "a branch computes, which makes dq's error 3.0e-3 of its norm (the "
                "default); with --round-exponentials=false it is 2.5e-3, and kernels "
                "spill more registers")),
        twoTermStatesFlag(
            "two-term-states", llvm::cl::cat(category), llvm::cl::init(kTwoTermStates),
            llvm::cl::value_desc("channels"),
            llvm::cl::desc(
                "Chunk by chunk, have the gradient of a gate that is a number per head read the "
                "adjoint of states of up to so many channels in two bf16 terms (64). 100 steps "
                "of 64x64 channels: its error is 9.4e-4 of its norm, and 2.7e-3 with "
                "--two-term-states=32; with 128, kernels spill registers")),
        twoTermsFlag(
            "two-terms", llvm::cl::cat(category), llvm::cl::init(kDefaultTwoTerms),
            llvm::cl::desc("Chunk by chunk, which derivatives compute gates' gradients, and delta "
                           "rules' all gradients, from operands in two bf16 terms and from states "
                           "in f32. A gate's number per head then has an error of 1e-6 of the "
                           "terms that it is the sum of, instead of up to 9e-5; one kernel "
                           "becomes two, which spill registers"),
            llvm::cl::values(
                clEnumValN(TwoTerms::fewChannels, "few-channels",
                           "those with 32 channels or fewer along an axis"),
                clEnumValN(TwoTerms::fewHeads, "few-heads",
                           "those, and launches of fewer than 8 heads and 1024 rows, or for delta "
                           "rules of fewer than 8 heads (the default)"),
                clEnumValN(TwoTerms::always, "always", "all with such gradients"))),
        byGatesFlag("by-gates", llvm::cl::cat(category), llvm::cl::init(kDefaultByGates),
                    llvm::cl::desc(
                        "Chunk by chunk, for which launches kernels for strong gates per channel "
                        "stand beside those for weak ones. The gates of a head's first chunk "
                        "decide on the device which of the two computes it; that takes two "
                        "launches more"),
                    llvm::cl::values(
                        clEnumValN(ByGates::never, "never",
                                   "none: strong gates go in chunks of 16 rows, or step by step"),
                        clEnumValN(ByGates::manyRows, "many-rows",
                                   "those of 524,288 rows of all heads together, or 131,072 with "
                                   "corrections, and those over segments (the default)"),
                        clEnumValN(ByGates::always, "always", "all"))),
        f32MatmulsFlag(
            "f32-matmuls", llvm::cl::cat(category), llvm::cl::init(F32Matmuls::none),
            llvm::cl::desc("How recurrences of f32 rows are computed"),
            llvm::cl::values(
                clEnumValN(F32Matmuls::none, "none", "step by step (the default)"),
                clEnumValN(F32Matmuls::bf16x3, "bf16x3",
                           "chunk by chunk where that is possible: tensor cores multiply two bf16 "
                           "terms of each operand, in three matmuls; results within 7e-6 of their "
                           "norm"),
                clEnumValN(F32Matmuls::bf16x6, "bf16x6",
                           "the same with three terms, in six matmuls; results within 1e-6"))) {}

  Schedule get() const { return schedule; }
  bool fuse() const { return fuseWalks; }
  /// Where nothing was said, scans that walk step by step have none to save.
  bool saveStates() const {
    return saveStatesFlag && (saveStatesFlag.getNumOccurrences() || get() != Schedule::step);
  }
  /// Whether any of them was given, other than steps one by one, which is how the interpreter goes,
  /// too.
  bool given() const {
    int count = (schedule.getNumOccurrences() && schedule != Schedule::step) +
                twoTermStatesFlag.getNumOccurrences() + twoTermsFlag.getNumOccurrences() +
                byGatesFlag.getNumOccurrences() + f32MatmulsFlag.getNumOccurrences();
    for (const auto *flag : {&fuseWalks, &saveStatesFlag, &warpSpecializeFlag, &partitionWarpsFlag,
                             &roundComputedFlag, &roundExponentialsFlag})
      count += flag->getNumOccurrences();
    return count;
  }
  bool wasToldToSave() const { return saveStatesFlag && saveStatesFlag.getNumOccurrences(); }
  bool warpSpecialize() const { return warpSpecializeFlag; }
  bool partitionWarps() const { return partitionWarpsFlag; }
  bool roundComputed() const { return roundComputedFlag; }
  bool roundExponentials() const { return roundExponentialsFlag; }
  int64_t twoTermStates() const { return twoTermStatesFlag; }
  TwoTerms twoTerms() const { return twoTermsFlag; }
  ByGates byGates() const { return byGatesFlag; }
  F32Matmuls f32Matmuls() const { return f32MatmulsFlag; }

private:
  Choice<Schedule> schedule;
  llvm::cl::opt<bool> fuseWalks, saveStatesFlag, warpSpecializeFlag, partitionWarpsFlag, roundComputedFlag,
      roundExponentialsFlag;
  llvm::cl::opt<int64_t> twoTermStatesFlag;
  Choice<TwoTerms> twoTermsFlag;
  Choice<ByGates> byGatesFlag;
  Choice<F32Matmuls> f32MatmulsFlag;
};
} // namespace ejk

#endif // EJK_TOOLS_COMMON_SCHEDULEFLAG_H
