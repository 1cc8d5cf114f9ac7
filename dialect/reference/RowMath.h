//===- RowMath.h - sums of rows, in the processor's widest vectors *- C++ -*-===//
//
// Where the interpreter spends its time: matmuls, and a step's reads and writes of its state. Each
// sum is rounded to f32 or kept in f64, and is made in the order that is written here, by
// multiplications and additions apart; so its bits are the same on every processor.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_REFERENCE_ROWMATH_H
#define EJK_DIALECT_REFERENCE_ROWMATH_H

#include "dialect/reference/Tensor.h"

namespace ejk::reference {

/// Sums of one precision. The result may be a row that is read; other rows do not overlap it.
struct RowMath {
  /// to[j] += factors[l] from[l, j], with l from 0 to `count`, and rows of `from` `pitch` apart.
  void (*addRows)(double *to, size_t n, const double *factors, size_t count, const double *from,
                  ptrdiff_t pitch);
  /// out[j] = row[j] + factor from[j].
  void (*addScaled)(double *out, const double *row, double factor, const double *from, size_t n);
  /// out[j] = factor row[j].
  void (*scale)(double *out, double factor, const double *row, size_t n);
  /// Σ a[j] b[j], in eight sums, of every eighth product each, which are then added in order.
  double (*dot)(const double *a, const double *b, size_t n);
  /// Each element as the type has it, to nearest, ties to even.
  void (*rowToF32)(double *row, size_t n);
  void (*rowToBF16)(double *row, size_t n);
  void (*rowToF16)(double *row, size_t n);
};

double toBF16(double x);
double toF16(double x);

const RowMath &rowMath(Precision precision);

} // namespace ejk::reference

#endif // EJK_DIALECT_REFERENCE_ROWMATH_H
