//===- Tf32Product.cpp - products of f32 on tensor cores ------------------===//
#include "lowering/kernels/Tf32Product.h"

using namespace mlir;
using namespace ejk;

void Tf32Product::multiply(Sums &sums, const Left &left, unsigned ofLeft, const Right &right,
                           unsigned ofRight) const {
  Type f32 = b.getF32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  Value lhs[] = {left[0][0][ofLeft], left[1][0][ofLeft], left[0][1][ofLeft], left[1][1][ofLeft]};
  Value rhs[] = {right[0][ofRight], right[1][ofRight]};
  Value result = b.make<NVVM::MmaOp>(
      type, ValueRange(lhs), ValueRange(rhs), ValueRange(sums), ArrayRef<int64_t>{16, 8, 8},
      std::nullopt, std::nullopt,
      std::array<NVVM::MMATypes, 2>{NVVM::MMATypes::tf32, NVVM::MMATypes::tf32},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row, NVVM::MMALayout::col});
  for (unsigned i = 0; i < 4; ++i)
    sums[i] = b.make<LLVM::ExtractValueOp>(result, i);
}

void Tf32Product::addRests(Sums &sums, const Left &left, const Right &right) const {
  multiply(sums, left, 1, right, 0);
  multiply(sums, left, 0, right, 1);
}

void Tf32Product::addFirsts(Sums &sums, const Left &left, const Right &right) const {
  multiply(sums, left, 0, right, 0);
}
