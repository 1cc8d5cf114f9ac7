//===- Segments.cpp - the segment that a thread block works on ------------===//
#include "lowering/kernels/Segments.h"

using namespace mlir;
using namespace ejk;

KernelSegment ejk::locateSegment(KernelBuilder &b, const SegmentSizes &sizes, Value number,
                                 Value sequences, llvm::function_ref<Value(Value)> packedOffset) {
  Value rows = sizes.rows;
  if (!sequences) {
    // The remainder in 64 bits, whose branch keeps ptxas from computing it again in the loop over
    // chunks: else a derivative's kernels spill up to 72 bytes more.
    Value place = b.add(b.rem(b.wide(number), sizes.ofEach), sizes.first);
    return {b.div(number, b.narrow(sizes.ofEach)), b.mul(place, rows), rows};
  }
  // The last sequence n whose first segment, ⌊first row/rows⌋ + n, is not after this one: those
  // numbers grow with n.
  auto firstSegment = [&](Value n) {
    return b.add(b.div(packedOffset(b.wide(n)), rows), b.wide(n));
  };
  Value own = b.wide(number);
  auto search = b.make<scf::WhileOp>(
      TypeRange{b.getI32Type(), b.getI32Type()}, ValueRange{b.i32(0), b.narrow(sequences)},
      [&](OpBuilder &, Location, ValueRange args) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(args.front().getParentBlock());
        b.make<scf::ConditionOp>(b.less(b.add(args[0], 1), args[1]), args);
      },
      [&](OpBuilder &, Location, ValueRange args) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(args.front().getParentBlock());
        Value middle = b.div(b.add(args[0], args[1]), 2);
        Value isAfter = b.less(own, firstSegment(middle));
        b.make<scf::YieldOp>(
            ValueRange{b.make<arith::SelectOp>(isAfter, args[0], middle).getResult(),
                       b.make<arith::SelectOp>(isAfter, middle, args[1]).getResult()});
      });
  Value sequence = search.getResult(0);
  // The offsets are the caller's; no value of them can give a place before the sequence.
  Value place = b.max(b.sub(own, firstSegment(sequence)), b.i64(0));
  return {sequence, b.mul(place, rows), rows};
}

Value ejk::keptRows(KernelBuilder &b, int64_t count, Value length, Value remembered, Value state,
                    llvm::function_ref<Value(Value)> uniform) {
  Value kept = b.min(b.i64(count), length);
  if (!remembered)
    return kept;
  Value number = b.loadIf(b.isNotNull(remembered), b.getF32Type(),
                          [&] { return b.at(remembered, b.getF32Type(), state); });
  Value leavesOut = b.make<arith::CmpFOp>(arith::CmpFPredicate::OLT, number, b.f32(1));
  if (uniform)
    leavesOut = b.equal(uniform(b.make<arith::ExtUIOp>(b.getI32Type(), leavesOut)), 1);
  return b.make<arith::SelectOp>(leavesOut, kept, length);
}
