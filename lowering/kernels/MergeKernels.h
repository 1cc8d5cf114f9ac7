//===- MergeKernels.h - two kernels in one launch ------------------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_MERGEKERNELS_H
#define EJK_LOWERING_KERNELS_MERGEKERNELS_H

#include "lowering/kernels/KernelBuilder.h"
#include <optional>

namespace ejk {

/// A kernel in the place of both, whose blocks do the work of `first`, or, where they skip it, that
/// of `second`, which skips all other blocks: so the two run side by side. Arguments that are the
/// same are passed once. It has the name of `second`. Nothing, and nothing is changed, where blocks
/// or grids differ, or `first` skips nothing.
std::optional<Kernel> mergeKernels(Kernel first, Kernel second);

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_MERGEKERNELS_H
