//===- Schedule.h - how recurrences become kernels ----------------*- C++ -*-===//
#ifndef EJK_LOWERING_SCHEDULE_H
#define EJK_LOWERING_SCHEDULE_H

namespace ejk {
/// Step by step; chunk by chunk, where there is such a form; or of the two what the
/// number of rows asks for.
enum class Schedule { step, chunk, automatic };
} // namespace ejk

#endif // EJK_LOWERING_SCHEDULE_H
