//===- Segments.cpp - the segment that a thread block works on ------------===//
#include "lowering/kernels/Segments.h"

using namespace mlir;
using namespace ejk;

KernelSegment ejk::locateSegment(KernelBuilder &b, Value rows, Value number, Value totalSteps,
                                 Value sequences,
                                 llvm::function_ref<Value(Value)> packedOffset) {
  if (!sequences) {
    // One for sequences without rows, too.
    Value each = b.max(b.narrow(b.div(b.add(totalSteps, b.sub(rows, 1)), rows)), b.i32(1));
    Value start = b.mul(b.wide(b.rem(number, each)), rows);
    return {b.div(number, each), start, rows};
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
