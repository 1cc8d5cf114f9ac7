//===- StoreOperandsEarly.h - matmul operands in shared memory ----*- C++ -*-===//
#ifndef EJK_LOWERING_PIPELINE_STOREOPERANDSEARLY_H
#define EJK_LOWERING_PIPELINE_STOREOPERANDSEARLY_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// When matmul operands that are made of a matmul's result are stored to shared memory, which holds
/// them from then on instead of registers: as soon as they can be computed, before the next matmul, or
/// before the matmul that takes them.
enum class StoreOperands { early, late, atUse };

/// Moves these stores, in blocks of many `wgmma`. Returns the number of matmuls' results that are then
/// in registers for a shorter time.
unsigned storeOperandsEarly(tile::ProgramOp program, StoreOperands when);

} // namespace ejk

#endif // EJK_LOWERING_PIPELINE_STOREOPERANDSEARLY_H
