//===- ProgramsOfCpu.h - block programs for a CPU -----------------*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_PROGRAMSOFCPU_H
#define EJK_LOWERING_SELECT_PROGRAMSOFCPU_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"

namespace ejk {

/// Whether a block program of `scan` may have a kernel on a CPU: sequences are not packed, are not
/// divided into segments, and save no states.
bool mayRunOnCpu(ScanOp scan);
/// Whether a CPU's kernels have code for `program`: matmuls of bf16, whose tiles are blocks of
/// registers, and what is elementwise or a sum between them.
bool runsOnCpu(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_PROGRAMSOFCPU_H
