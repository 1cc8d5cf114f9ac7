//===- CpuTileExponential.cpp - exponentials of a block program's tiles ---===//
//
// Gates per channel scale queries by e^G and keys by e^-G. One exponential serves both: the other
// is its reciprocal, one instruction with a relative error of 2^-14.
//
#include "lowering/cpu/CpuTileEmitter.h"

using namespace mlir;
using namespace ejk;

/// 2^f for |f| ≤ 1/2 as a polynomial: relative error 2.7e-6, the least of its degree. What a chunk
/// scales by it enters a matmul in bf16, rounded at 2e-3.
static constexpr double kPowerOfTwo[] = {0.9999992847442627, 0.6931217908859253, 0.240247443318367,
                                         0.05591786280274391, 0.009570102207362652};

/// e^x or 2^x of a register, n being x·log2(e) or x as an integer, f what is left. One instruction
/// (vscalefps) multiplies by 2^n, with the right zeros, denormals and infinities. A NaN stays one,
/// since a comparison with it is false.
Value CpuTileEmitter::exponential(Value x, bool ofTwo) {
  auto bound = [&](arith::CmpFPredicate predicate, double limit) {
    Value most = b.number(limit, kLanes);
    x = b.make<arith::SelectOp>(b.make<arith::CmpFOp>(predicate, x, most), most, x);
  };
  bound(arith::CmpFPredicate::OLT, ofTwo ? -160 : -110);
  bound(arith::CmpFPredicate::OGT, ofTwo ? 140 : 100);
  Value log2e = b.number(ofTwo ? 1 : 1.4426950408889634, kLanes);
  Value n = b.make<LLVM::RoundEvenOp>(x.getType(), b.mulF(x, log2e));
  Value f = b.fma(x, log2e, b.make<arith::NegFOp>(n));
  Value power = b.number(kPowerOfTwo[4], kLanes);
  for (int i = 3; i >= 0; --i)
    power = b.fma(power, f, b.number(kPowerOfTwo[i], kLanes));
  auto integer = [&](Type type, int64_t value) -> Value {
    return b.make<arith::ConstantOp>(b.getIntegerAttr(type, value));
  };
  Value allLanes = integer(b.getI16Type(), -1), currentRounding = integer(b.getI32Type(), 4);
  return b
      .make<LLVM::CallIntrinsicOp>(x.getType(),
                                   b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                   ValueRange{power, n, power, allLanes, currentRounding})
      .getResult(0);
}

Value CpuTileEmitter::reciprocal(Value x) {
  Value allLanes = b.make<arith::ConstantOp>(b.getI16IntegerAttr(-1));
  return b
      .make<LLVM::CallIntrinsicOp>(x.getType(), b.getStringAttr("llvm.x86.avx512.rcp14.ps.512"),
                                   ValueRange{x, b.zero(x.getType()), allLanes})
      .getResult(0);
}

/// Whether `op` is the exponential of a matrix of which the negative's is computed next to it.
bool CpuTileEmitter::hasInverse(Operation *op) {
  auto exp = dyn_cast<math::ExpOp>(op);
  if (!exp || rank(exp.getResult()) != 2)
    return false;
  return llvm::any_of(exp.getOperand().getUsers(), [&](Operation *negative) {
    return isa<arith::NegFOp>(negative) &&
           llvm::any_of(negative->getUsers(), [&](Operation *user) {
             return isa<math::ExpOp>(user) && user->getBlock() == op->getBlock() &&
                    op->isBeforeInBlock(user);
           });
  });
}

/// The exponential in memory whose reciprocal `op` is; null where there is none.
Value CpuTileEmitter::inverseInMemory(Operation *op) const {
  auto exp = dyn_cast<math::ExpOp>(op);
  auto negative = exp ? exp.getOperand().getDefiningOp<arith::NegFOp>() : arith::NegFOp();
  if (!negative || rank(exp.getResult()) != 2)
    return {};
  for (Operation *user : negative.getOperand().getUsers())
    if (isa<math::ExpOp>(user) && buffers.lookup(user->getResult(0)))
      return user->getResult(0);
  return {};
}
