//===- UnusedRows.h - rows after the last offset ----------------*- C++ -*-===//
//
// Rows of a packed batch after the last entry of cu_seqlens belong to no
// sequence. Kernels compute nothing for them. Where a caller asks for it, a
// launch ends with zeros there, in each output that has a row for each step.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_API_UNUSEDROWS_H
#define EJK_RUNTIME_API_UNUSEDROWS_H

#include "CallPlan.h"

namespace ejk {

/// Whether an entry takes offsets.
bool takesOffsets(const Entry &entry);

/// Refuses an entry whose outputs' rows cannot be told: with offsets of two kinds of rows, or a
/// number of rows that is part of the program.
ejk_error *checkUnusedRows(const Entry &entry);

/// Writes the zeros, where the offsets and the outputs are in host memory.
void zeroUnusedRows(const Entry &entry, const CallArguments &arguments, const Symbols &symbols);

/// Loads the kernel that writes them on a GPU, whose context is current.
Error loadUnusedRows(ejk_executable &executable);

/// Enqueues that kernel after the call's own.
ejk_error *enqueueUnusedRows(const Entry &entry, const CallArguments &arguments,
                             const Symbols &symbols, void *stream);

} // namespace ejk

#endif // EJK_RUNTIME_API_UNUSEDROWS_H
