//===- F32Matmuls.h - whether f32 operands go to tensor cores -----*- C++ -*-===//
#ifndef EJK_PASSES_F32MATMULS_H
#define EJK_PASSES_F32MATMULS_H

namespace ejk {

/// How recurrences of f32 rows are computed, which matmuls of 16-bit operands would round. `none`:
/// they go step by step. Otherwise they may go chunk by chunk, with matmuls of f32 operands that
/// tensor cores compute as products of bf16 terms (`tile.dot`): three of two terms (`bf16x3`), or
/// six of three terms (`bf16x6`).
enum class F32Matmuls { none, bf16x3, bf16x6 };

} // namespace ejk

#endif // EJK_PASSES_F32MATMULS_H
