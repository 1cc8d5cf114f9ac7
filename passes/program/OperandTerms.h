//===- OperandTerms.h - matmul operands in two terms --------------*- C++ -*-===//
//
// An f32 matrix x enters a matmul of 16-bit operands in two terms where one is too coarse: x1, its
// rounding, and x2, the rounding of x - x1.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_PROGRAM_OPERANDTERMS_H
#define EJK_PASSES_PROGRAM_OPERANDTERMS_H

#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace ejk {

/// Which matmuls of a program `ejk-split-operands` takes operands of in two terms.
enum class Matmuls { none, ofCarriedStates, ofSums, all };
/// By the channels of rows, of which there are some, and of states in memory.
Matmuls matmulsToSplit(tile::ProgramOp program, int64_t twoTermStates);

/// Whether `op` computes the second term of x, what rounding dropped, to be rounded itself: x less
/// the widened rounding of x. In other computations such a difference is an error that must cancel
/// another one.
bool isRest(mlir::Operation *op, mlir::arith::ExtFOp wide, mlir::arith::TruncFOp round);
/// The first of two terms of which `operand` is the second; null if it is none.
mlir::Value firstTermOf(mlir::Value operand);

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_OPERANDTERMS_H
