//===- Rounding.h - where passes agree on what is rounded ---------*- C++ -*-===//
#ifndef EJK_PASSES_ROUNDING_H
#define EJK_PASSES_ROUNDING_H

#include <cstdint>

namespace ejk {

/// The most channels that are few: of a recurrence that corrects its state along either axis, of
/// others as `mostBesideFew` has it. Over many channels and steps the errors of as many roundings
/// average out. Over few they do not, and a gate's gradient sums terms of a whole sequence, which
/// may nearly cancel. So states of few channels are saved in f32, and matmuls take operands in two
/// terms.
constexpr int64_t kFewChannels = 32;

/// The most channels along the other axis of a state with few along one. A gate that is a number
/// per head has a gradient of few numbers, each a sum over both axes: in bf16 one or two numbers of
/// ten are past the tolerance. What keeps such a sum exact has room in a thread block up to 128
/// channels; beside gates of channels, which take registers too, up to 64. A gradient of channels
/// has so many numbers that errors average out, from `kFewHeads` on.
constexpr int64_t mostBesideFew(bool hasGatesOfHeads, bool hasGatesOfChannels) {
  return !hasGatesOfHeads ? kFewChannels : hasGatesOfChannels ? 64 : 128;
}

/// The default of `two-term-states`: the most channels of a state that a loop carries and that
/// matmuls read in two terms, where a sum is made of what they read and every gate is a number per
/// head. The rounding of the adjoint state that dk reads is two thirds of the error of such a gate's
/// gradient. Beyond 64 channels the second term spills registers on sm_90a, so more are for those
/// who ask.
constexpr int64_t kTwoTermStates = 64;

/// Fewer heads than these are few for a gradient with a number per head. Such a number is a sum
/// over both axes of a state, and in bf16 its error is some 2e-3 of its usual size: past 5e-3 where
/// terms cancel to two fifths of it. That happens to one head of six, and to the norm of eight in
/// one of five hundred (docs/accuracy.md). A gate of a few channels has as many numbers per head.
constexpr int64_t kFewHeads = 8;

/// From so many rows on the error of one head is within 1e-5 of its terms, too: it falls with the
/// root of their number, and is 1e-5 to 2e-5 at 100 rows and 5e-6 to 9e-6 at 400 (128x128).
constexpr int64_t kRowsOfManyTerms = 1024;

} // namespace ejk

#endif // EJK_PASSES_ROUNDING_H
