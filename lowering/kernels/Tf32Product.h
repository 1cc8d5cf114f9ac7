//===- Tf32Product.h - products of f32 on tensor cores ------------*- C++ -*-===//
//
// A product of two f32 is made of two tf32 terms of each, which have 21 of its bits, without that of both
// second terms.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_TF32PRODUCT_H
#define EJK_LOWERING_KERNELS_TF32PRODUCT_H

#include "lowering/kernels/KernelBuilder.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include <array>

namespace ejk {

/// Two tf32 terms of an f32 number: as words, the first one first.
inline std::array<mlir::Value, 2> termsInTf32(KernelBuilder &b, mlir::Value number) {
  auto cut = [&](mlir::Value x) -> mlir::Value {
    return b.make<mlir::arith::AndIOp>(b.make<mlir::arith::BitcastOp>(b.getI32Type(), x),
                                       b.i32(~0x1fff));
  };
  mlir::Value first = cut(number);
  mlir::Value rest = b.make<mlir::arith::SubFOp>(
      number, b.make<mlir::arith::BitcastOp>(b.getF32Type(), first));
  return {first, cut(rest)};
}

/// What `mma.m16n8k8` takes of one 8×8 block of each operand: lane l has the elements
///
///   left    (l / 4 + 8 h, l mod 4 + 4 p)    rows that a block of 8 does not have are 0
///   right   (l mod 4 + 4 p, l / 4)
///   sums    (l / 4 + 8 h, 2 (l mod 4) + p)
struct Tf32Product {
  using Left = std::array<std::array<std::array<mlir::Value, 2>, 2>, 2>; // by h, p, term
  using Right = std::array<std::array<mlir::Value, 2>, 2>;               // by p, term
  using Sums = std::array<mlir::Value, 4>;                               // by h, p

  KernelBuilder &b;

  /// sums += left · right
  void add(Sums &sums, const Left &left, const Right &right) const {
    addRests(sums, left, right);
    addFirsts(sums, left, right);
  }
  /// The two parts of that: products with a second term, and of the first terms.
  void addRests(Sums &sums, const Left &left, const Right &right) const;
  void addFirsts(Sums &sums, const Left &left, const Right &right) const;

private:
  void multiply(Sums &sums, const Left &left, unsigned ofLeft, const Right &right,
                unsigned ofRight) const;
};

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_TF32PRODUCT_H
