//===- Slots.h - offsets of sequences and their states in pools --*- C++ -*-===//
#ifndef EJK_TOOLS_EJKRUN_SLOTS_H
#define EJK_TOOLS_EJKRUN_SLOTS_H

#include "dialect/check/Check.h"
#include "io/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>

namespace ejk {

/// The tensor whose dimension 1 is T when `argument` holds packed sequences' offsets; null for any
/// other argument.
mlir::Value packedBy(mlir::Value argument);
/// The pool whose states `argument` has the indices of; null for any other argument.
mlir::Value pooledBy(mlir::Value argument);
/// The indices of drafted rows' slots, of whose rows `argument` says how many are accepted; null for
/// any other argument.
mlir::Value acceptedOf(mlir::Value argument);

/// Offsets from 0 to `total` that never decrease, with an empty sequence among several.
std::vector<double> drawOffsets(int64_t entries, int64_t total, check::Random &random);

/// The slots of one pool that its indices name, and the sequence that each is of.
using Taken = std::map<int64_t, int64_t>;
/// `count` indices below `states` for `sequences` of them, each named once at most. A sequence may
/// name what it has in `taken`, where another tensor's indices of the pool are, and no slot of another
/// sequence: the order of reads and writes of two sequences is not defined. One of eight has no state,
/// and so have those for which no slot is left: their index is negative.
std::vector<double> drawIndices(int64_t count, int64_t sequences, int64_t states, Taken &taken,
                                check::Random &random);

/// Sets what `output`, a result of `function`, has of sequences without a state in a pool to zero:
/// a kernel writes nothing of them, so that it is undefined.
void zeroSkipped(mlir::func::FuncOp function, const std::vector<HostTensor> &inputs,
                 HostTensor &output);

} // namespace ejk

#endif // EJK_TOOLS_EJKRUN_SLOTS_H
