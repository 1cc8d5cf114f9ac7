//===- SavePolicy.h - what a derivative saves of the forward pass -*- C++ -*-===//
#ifndef EJK_PASSES_SAVEPOLICY_H
#define EJK_PASSES_SAVEPOLICY_H

#include <cstdint>

namespace ejk {

/// Where a gate's gradient, a sum over the rest of the sequence, starts from.
enum class GateGradients {
  /// The sequence's end. Errors grow with the sequence.
  suffix,
  /// The end of each chunk: the walk forward saves the state there.
  checkpoint,
  /// No gradient, but the sum of the absolute values of the terms that a gate's gradient
  /// is the sum of, from the sequence's end: what its error is measured against.
  terms
};
struct SavePolicy {
  GateGradients gateGradients = GateGradients::checkpoint;
  /// Rows of a chunk; 0 for 64 where a sequence is f16 or bf16, and 32 where all are
  /// f32 and errors smaller, or 16 where a gate depends on a parameter, whose gradient
  /// sums them up.
  int64_t checkpointEvery = 0;
};

} // namespace ejk

#endif // EJK_PASSES_SAVEPOLICY_H
