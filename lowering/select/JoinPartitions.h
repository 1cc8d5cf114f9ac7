//===- JoinPartitions.h - two halves of a program as partitions ---*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_JOINPARTITIONS_H
#define EJK_LOWERING_SELECT_JOINPARTITIONS_H

#include "lowering/target/CostModel.h"
#include "passes/program/SplitByState.h"

namespace ejk {

/// Joins the laid-out halves `parts` of `whole` as two partitions of one program, which is
/// returned: the front puts computed tiles into rings of `stages` stages, from which the state
/// takes them. Changes the halves. Fails without a diagnostic; `why` then says what stands against
/// it.
llvm::FailureOr<tile::ProgramOp> joinPartitions(tile::ProgramOp whole, const ProgramsByState &parts,
                                                cost::PartitionRegisters registers, unsigned stages,
                                                llvm::StringRef &why);

} // namespace ejk

#endif // EJK_LOWERING_SELECT_JOINPARTITIONS_H
