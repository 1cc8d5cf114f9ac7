//===- RowStrides.h - inputs whose rows lie apart -----------------*- C++ -*-===//
//
// A model's projection gives queries, keys, values and gates side by side in one row. Each is then a
// view whose rows are further apart than they are long. Kernels that read rows take that distance, the
// row stride, so that no one copies such a view.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_ROWSTRIDES_H
#define EJK_LOWERING_KERNELS_ROWSTRIDES_H

#include "mlir/IR/Value.h"

namespace ejk {

/// The dimension of a tensor that counts the rows of a sequence; a row is what the later ones count.
constexpr unsigned kRowDim = 1;

/// The tensor whose rows those of `tensor` are, with their heads and channels in other dimensions.
mlir::Value rowsOf(mlir::Value tensor);

/// Whether the caller decides how far the rows of `tensor` are apart: they are those of a
/// function's argument that is read by rows alone, or for its sizes.
bool hasRowStride(mlir::Value tensor);

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_ROWSTRIDES_H
