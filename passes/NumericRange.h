//===- NumericRange.h - how far an exponent may go ----------------*- C++ -*-===//
//
// Decays are exponentials of sums of gates, in nats: e^x. This page says how large |x| may be in
// each type, and is the only one that does. A number here is derived from the type alone, so it is
// the same on every target.
//
//   type   least normal         least subnormal       largest
//   f32    2^-126  = e^-87.3    2^-149 = e^-103.3     2^128 = e^88.7
//   bf16   2^-126  = e^-87.3    2^-133 = e^-92.2      2^128 = e^88.7
//   f16    2^-14   = e^-9.7     2^-24  = e^-16.6      2^16  = e^11.1
//   f64    2^-1022 = e^-708.4   2^-1074 = e^-744.4    2^1024 = e^709.8
//
// f32 and bf16 have the same exponents, so an exponential that is normal in f32 stays so when it is
// rounded to bf16. Matmuls of f16 sequences take scaled rows in bf16, but for one case of gates per
// head (passes/chunk/ChunkedState.h, "Types").
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_NUMERICRANGE_H
#define EJK_PASSES_NUMERICRANGE_H

namespace ejk::range {

constexpr double kLn2 = 0.69314718055994531;

/// The largest whole |x| for which e^x and e^-x are both normal in f32 and in bf16. The least
/// normal number, 2^-126, is nearer to 1 than the largest.
constexpr double kNormalNats = 87;
static_assert(kNormalNats <= 126 * kLn2 && kNormalNats + 1 > 126 * kLn2);

/// The same for an exponent that is the sum of two computed in f32: one nat for the rounding of the
/// sum and of log2 e, with which it is multiplied.
constexpr double kSumNats = kNormalNats - 1;

/// The largest |x| for which e^x times a row's element is normal, if the element lies between e^-7
/// and e^7, which is 9e-4 to 1.1e3.
constexpr double kScaledRowNats = kNormalNats - 7;

/// The bound of a chunk's range guard. An operand scaled by up to e^±64 leaves 23 nats, 10 orders
/// of magnitude on either side, for the elements of the vectors and the sums of a matmul.
constexpr double kGuardNats = 64;
static_assert(kNormalNats - kGuardNats == 23);

/// The bound for each of two axes whose scales multiply one another in the state.
constexpr double kGuardNatsOfTwoAxes = kGuardNats / 2;

/// How much lower the bound is for the sums of gates at a chunk's ends than for those of its rows.
/// Two scans that must decide alike compute these ends to the same bits. A row at an end, which one
/// of them has, is the same sum in another order, and may differ from it by rounding.
constexpr double kGuardOfEnds = 1 + 0x1p-12;

/// The range of a block of rows that are anchored before its first. `sum` is what a channel's gates
/// may sum up to in the block, with the opposite sign. `offset` is added to the exponents of later
/// rows of a pair, and subtracted from those of earlier ones. Exponents of later rows are sums of
/// gates, which are at most 0 where no gate is positive, so the scales of rows lie between
/// e^-offset and e^(sum - offset) where the pair is not masked.
struct BlockRange {
  double sum, offset;
};

/// Both ends lie within the guard's bounds. What is left of 64 is for rounding.
constexpr BlockRange kBlock = {124, 60};
static_assert(kBlock.offset < kGuardNats && kBlock.sum - kBlock.offset <= kGuardNats);

/// The same for keys of a state that steps correct, and for vectors that it is read with. Such a
/// rule is stable only where a key's squared norm times its rate is at most 2. So keys are not
/// large: e^84 leaves room for 1e2. Elements below 1e-5, which e^-76 makes subnormal, are off by
/// less than 5e-8. 32 rows take gates of -5, the bound that models train with.
constexpr BlockRange kBlockOfKeys = {160, 76};
static_assert(kBlockOfKeys.offset <= kNormalNats - 11 &&
              kBlockOfKeys.sum - kBlockOfKeys.offset < kNormalNats - 2);

/// A gate whose exponential is zero in f32: half of the least subnormal, 2^-150, is e^-103.97.
constexpr double kZeroGate = -104;
static_assert(-kZeroGate > 150 * kLn2 && -kZeroGate - 1 < 150 * kLn2);

/// A gate whose exponential is zero in f64, too: 2^-1075 is e^-745.1. Matmuls in f32 take it, so
/// that the interpreter, which computes in f64, finds the zeros that kernels find. The sum of 128
/// such gates is above -2^17, so multiples of 2^-7 of it have 24 bits and are exact in f32.
constexpr double kZeroGateOfF64 = -760;
static_assert(-kZeroGateOfF64 > 1075 * kLn2 && -128 * kZeroGateOfF64 < 131072);

} // namespace ejk::range

#endif // EJK_PASSES_NUMERICRANGE_H
