//===- CpuTileExponential.cpp - exponentials of a block program's tiles ---===//
//
// Gates per channel scale queries by e^G and keys by e^-G. One exponential serves both: the other
// is its reciprocal, one instruction with a relative error of 2^-14.
//
#include "lowering/cpu/CpuTileEmitter.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;

/// 2^f for 0 ≤ f < 1 as a polynomial: relative error 2.7e-6, the least of its degree. What a chunk
/// scales by it enters a matmul in bf16, rounded at 2e-3.
static constexpr double kPowerOfTwo[] = {1.0000026410183174, 0.6930038101793521, 0.2414427452368818,
                                         0.05201146328466054, 0.013534168334948957};

/// e^x or 2^x of a register, as 2^f · 2^⌊y⌋ with y = x·log2(e) or x, and f = y − ⌊y⌋. One
/// instruction gives f, which is zero where y is infinite (vreduceps); another multiplies by 2^⌊y⌋,
/// with the right zeros, denormals and infinities (vscalefps). A NaN stays one.
Value CpuTileEmitter::exponential(Value x, bool ofTwo) {
  auto integer = [&](Type type, int64_t value) -> Value {
    return b.make<arith::ConstantOp>(b.getIntegerAttr(type, value));
  };
  auto call = [&](StringRef name, ValueRange operands) {
    return b.make<LLVM::CallIntrinsicOp>(x.getType(), b.getStringAttr(name), operands).getResult(0);
  };
  Value allLanes = integer(b.getI16Type(), -1), currentRounding = integer(b.getI32Type(), 4);
  Value y = ofTwo ? x : b.mulF(x, b.number(1.4426950408889634, kLanes));
  Value lessFloor = integer(b.getI32Type(), 9); // no bits of a fraction stay; no exceptions
  Value f = call("llvm.x86.avx512.mask.reduce.ps.512",
                 {y, lessFloor, y, allLanes, currentRounding});
  Value power = b.number(kPowerOfTwo[4], kLanes);
  for (int i = 3; i >= 0; --i)
    power = b.fma(power, f, b.number(kPowerOfTwo[i], kLanes));
  return call("llvm.x86.avx512.mask.scalef.ps.512", {power, y, power, allLanes, currentRounding});
}

Value CpuTileEmitter::reciprocal(Value x) {
  Value allLanes = b.make<arith::ConstantOp>(b.getI16IntegerAttr(-1));
  return b
      .make<LLVM::CallIntrinsicOp>(x.getType(), b.getStringAttr("llvm.x86.avx512.rcp14.ps.512"),
                                   ValueRange{x, b.zero(x.getType()), allLanes})
      .getResult(0);
}

/// The exponential that is the reciprocal of `op`, one of a matrix before it in its block; null
/// where there is none.
Operation *CpuTileEmitter::inverseOf(Operation *op) {
  auto exp = dyn_cast<math::ExpOp>(op);
  if (!exp || rank(exp.getResult()) != 2)
    return nullptr;
  for (Operation *negative : exp.getOperand().getUsers())
    if (isa<arith::NegFOp>(negative))
      for (Operation *user : negative->getUsers())
        if (isa<math::ExpOp>(user) && user->getBlock() == op->getBlock() &&
            op->isBeforeInBlock(user))
          return user;
  return nullptr;
}

/// The exponential in memory or registers whose reciprocal `op` is; null where there is none.
Value CpuTileEmitter::inverseAtHand(Operation *op) const {
  auto exp = dyn_cast<math::ExpOp>(op);
  auto negative = exp ? exp.getOperand().getDefiningOp<arith::NegFOp>() : arith::NegFOp();
  if (!negative || rank(exp.getResult()) != 2)
    return {};
  for (Operation *user : negative.getOperand().getUsers())
    if (isa<math::ExpOp>(user) && (user == atHand.first || buffers.lookup(user->getResult(0))))
      return user->getResult(0);
  return {};
}

/// Whether a tile's elements can be computed from what is in memory by now.
bool CpuTileEmitter::isReady(Value tile) const {
  Operation *op = tile.getDefiningOp();
  if (buffers.lookup(tile) || matchPattern(tile, m_Constant()))
    return true;
  return op && OpTrait::hasElementwiseMappableTraits(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isTile(operand) && isReady(operand); });
}

/// Rows scaled by the exponential `exp`, and rows scaled by its reciprocal, as a matmul takes them:
/// computed side by side, while the exponential is in registers. False where anything else uses it.
bool CpuTileEmitter::scaleRows(Operation *exp) {
  auto rowsScaledBy = [](Operation *factor) -> Value {
    Operation *product = factor->hasOneUse() ? *factor->user_begin() : nullptr;
    if (!isa_and_nonnull<arith::MulFOp>(product) || !product->hasOneUse())
      return {};
    auto round = dyn_cast<arith::TruncFOp>(*product->user_begin());
    return round && elementOf(round.getOut()).isBF16() ? round.getOut() : Value();
  };
  Value scaled = rowsScaledBy(exp), other = rowsScaledBy(inverseOf(exp));
  if (!scaled || !other || !isReady(scaled) || !isReady(other))
    return false;
  Value buffer = allocateFor(scaled), otherBuffer = allocateFor(other);
  int64_t columns = dim(scaled, 1), width = std::min<int64_t>(columns, 4 * kLanes);
  while (columns % width)
    width -= 2 * kLanes;
  b.loop(b.i64(0), b.i64(dim(scaled, 0)), 2, {}, [&](Value row, ValueRange) {
    b.loop(b.i64(0), b.i64(columns), width, {}, [&](Value column, ValueRange) {
      Area at{row, column, 2, width / kLanes};
      atHand = {exp, evaluate(exp->getResult(0), at)};
      for (auto [tile, target] : {std::pair(scaled, buffer), std::pair(other, otherBuffer)}) {
        Block block = evaluateToStore(tile, at);
        for (int64_t r = 0; r < at.rows; ++r)
          storeRow(at, block, r, [&, target = target](Value channel) {
            return b.at(target, b.getBF16Type(),
                        b.add(b.mul(b.add(at.row, r), columns), channel));
          });
      }
      atHand = {};
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
  buffers[scaled] = buffer;
  buffers[other] = otherBuffer;
  return true;
}
