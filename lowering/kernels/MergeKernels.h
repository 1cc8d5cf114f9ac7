//===- MergeKernels.h - two kernels in one launch ------------------*- C++ -*-===//
#ifndef EJK_LOWERING_KERNELS_MERGEKERNELS_H
#define EJK_LOWERING_KERNELS_MERGEKERNELS_H

#include "lowering/kernels/KernelBuilder.h"
#include <optional>

namespace ejk {

/// A kernel whose blocks do what those of `first` do, and then what those of `second` do, in the
/// place of both. Where each block has work in one of them only, the two run side by side.
/// Arguments that are the same are passed once. It has the name of `second`. Nothing, and nothing
/// is changed, where blocks or grids differ.
std::optional<Kernel> mergeKernels(Kernel first, Kernel second);

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_MERGEKERNELS_H
