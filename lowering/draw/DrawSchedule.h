//===- DrawSchedule.h - plans as pictures -------------------------*- C++ -*-===//
#ifndef EJK_LOWERING_DRAW_DRAWSCHEDULE_H
#define EJK_LOWERING_DRAW_DRAWSCHEDULE_H

#include "mlir/IR/BuiltinOps.h"

namespace ejk {

/// The planned programs of `module` as one SVG, each that differs from those before it: two chunks
/// in the steady state, over time in cycles. Rows are groups of warps, the units of a
/// multiprocessor, the stages of rings, and the map of shared memory. Each rectangle says its op
/// and its cycles. Fails with an error where nothing is planned. Folds ops of `module`.
llvm::FailureOr<std::string> drawSchedules(mlir::ModuleOp module);

} // namespace ejk

#endif // EJK_LOWERING_DRAW_DRAWSCHEDULE_H
