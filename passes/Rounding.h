//===- Rounding.h - where passes agree on what is rounded ---------*- C++ -*-===//
#ifndef EJK_PASSES_ROUNDING_H
#define EJK_PASSES_ROUNDING_H

#include <cstdint>

namespace ejk {

/// The most channels that are few. Over many channels and steps the errors of as many roundings
/// average out. Over few they do not, and a gate's gradient sums terms of a whole sequence, which
/// may nearly cancel. So states of few channels are saved in f32, and matmuls take operands in two
/// terms.
constexpr int64_t kFewChannels = 32;

/// The most channels along the other axis of a state with few along one. A gate that is a number
/// per head has a gradient of few numbers, each a sum over both axes: in bf16 one or two numbers of
/// ten are past the tolerance. What keeps such a sum exact has room in a thread block up to 128
/// channels; beside gates of channels, which take registers too, up to 64. A gradient of channels
/// has so many numbers that errors average out.
constexpr int64_t mostBesideFew(bool hasGatesOfHeads, bool hasGatesOfChannels) {
  return !hasGatesOfHeads ? kFewChannels : hasGatesOfChannels ? 64 : 128;
}

/// The default of `two-term-states`: the most channels of a state that a loop carries and that
/// matmuls read in two terms, where a sum is made of what they read and every gate is a number per
/// head. The rounding of the adjoint state that dk reads is two thirds of the error of such a gate's
/// gradient. Beyond 64 channels the second term spills registers on sm_90a, so more are for those
/// who ask.
constexpr int64_t kTwoTermStates = 64;

} // namespace ejk

#endif // EJK_PASSES_ROUNDING_H
