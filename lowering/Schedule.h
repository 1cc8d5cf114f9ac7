//===- Schedule.h - how recurrences become kernels ----------------*- C++ -*-===//
#ifndef EJK_LOWERING_SCHEDULE_H
#define EJK_LOWERING_SCHEDULE_H

namespace ejk {
/// Step by step; chunk by chunk, where there is such a form; chunk by chunk in segments of each
/// sequence that are scanned side by side; or of the first two what the number of rows asks for.
enum class Schedule { step, chunk, split, automatic };
/// For which derivatives all matmuls that a gate's gradient is made of, and of a recurrence that
/// corrects its state all matmuls, take operands in two bf16 terms, and states are saved in f32
/// (passes/Rounding.h): those with few channels alone; also those of few heads; or all.
enum class TwoTerms { fewChannels, fewHeads, always };
constexpr TwoTerms kDefaultTwoTerms = TwoTerms::fewHeads;
/// For which launches by chunks the device chooses, for each head, between programs for weak and
/// for strong gates per channel (lowering/select/StrongGates.h).
enum class ByGates { never, manyRows, always };
constexpr ByGates kDefaultByGates = ByGates::manyRows;
} // namespace ejk

#endif // EJK_LOWERING_SCHEDULE_H
