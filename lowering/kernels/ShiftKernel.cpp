//===- ShiftKernel.cpp - the kernels of shift and last_rows ---------------===//
//
// Each thread copies elements of the result, four at once where a row's number of channels allows
// that. With packed sequences it finds the sequence of its row by bisection.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/ShiftKernel.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/kernels/RowStrides.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

RowCopies::RowCopies(Operation *op) : isShift(isa<ShiftOp>(op)) {
  auto take = [&](auto own) {
    rows = own.getRows();
    halo = own.getHalo();
    cuSeqlens = own.getCuSeqlens();
    result = own.getResult();
    zeros = own.getZeros();
  };
  if (auto shift = dyn_cast<ShiftOp>(op)) {
    take(shift);
    by = shift.getBy();
  } else {
    auto last = cast<LastRowsOp>(op);
    take(last);
    reverse = last.getReverse();
    beyond = last.getBeyond();
    resultRows = tensorType(result).getDimSize(1);
  }
  haloRows = halo ? tensorType(halo).getDimSize(1) : 0;
}

SmallVector<KernelOperand> RowCopies::operands() const {
  SmallVector<KernelOperand> all;
  for (Value tensor : {zeros ? Value() : rows, halo, cuSeqlens, result})
    if (tensor)
      all.push_back({tensor, std::nullopt});
  all.push_back({cuSeqlens ? cuSeqlens : rows, 0});
  for (unsigned dim = 1, rank = tensorType(rows).getRank(); dim < rank; ++dim)
    all.push_back({rows, dim});
  if (hasRowStride(rows))
    all.push_back({rows, std::nullopt, std::nullopt, KernelOperand::Number::rowStride});
  return all;
}

unsigned RowCopies::elementsOfLoad() const {
  RankedTensorType type = tensorType(result);
  return type.getRank() == 4 && type.getDimSize(3) % kElementsOfLoad == 0 ? kElementsOfLoad : 1;
}

Type RowCopies::element() const { return tensorType(result).getElementType(); }

RowCopies::Arguments RowCopies::take(KernelBuilder &b,
                                     llvm::function_ref<Value(bool isPointer)> next) const {
  Arguments given;
  given.rows = zeros ? Value() : next(true);
  given.halo = halo ? next(true) : Value();
  given.offsets = cuSeqlens ? next(true) : Value();
  given.result = next(true);
  given.sequences = cuSeqlens ? b.sub(next(false), 1) : next(false);
  given.steps = next(false);
  given.rowSize = next(false);
  if (tensorType(rows).getRank() == 4)
    given.rowSize = b.mul(given.rowSize, next(false));
  given.rowStride = hasRowStride(rows) ? next(false) : given.rowSize;
  return given;
}

Value RowCopies::count(KernelBuilder &b, const Arguments &given) const {
  if (!isShift)
    return b.mul(given.sequences, resultRows);
  return cuSeqlens ? given.steps : b.mul(given.sequences, given.steps);
}

RowCopies::Source RowCopies::find(KernelBuilder &b, const Arguments &given, Value number) const {
  Value sequence, first, length, exists;
  auto offset = [&](Value index) -> Value {
    Type type = tensorType(cuSeqlens).getElementType();
    Value loaded = b.load(type, b.at(given.offsets, type, index));
    if (type.isInteger(32))
      loaded = b.make<arith::ExtSIOp>(b.getI64Type(), loaded);
    return b.min(b.max(loaded, b.i64(0)), given.steps);
  };
  if (!isShift) {
    sequence = b.div(number, resultRows);
  } else if (!cuSeqlens) {
    sequence = b.div(number, given.steps);
  } else {
    // The last sequence that starts at the row or before it; empty ones come before it.
    auto bisect = b.make<scf::WhileOp>(
        TypeRange{b.getI64Type(), b.getI64Type()}, ValueRange{b.i64(0), given.sequences},
        [&](OpBuilder &, Location, ValueRange bounds) {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToEnd(bounds.front().getParentBlock());
          b.make<scf::ConditionOp>(b.less(b.add(bounds[0], 1), bounds[1]), bounds);
        },
        [&](OpBuilder &, Location, ValueRange bounds) {
          OpBuilder::InsertionGuard guard(b);
          b.setInsertionPointToEnd(bounds.front().getParentBlock());
          Value middle = b.div(b.add(bounds[0], bounds[1]), 2);
          Value isAfter = b.less(number, offset(middle));
          Value low = b.make<arith::SelectOp>(isAfter, bounds[0], middle);
          Value high = b.make<arith::SelectOp>(isAfter, middle, bounds[1]);
          b.make<scf::YieldOp>(ValueRange{low, high});
        });
    sequence = bisect.getResult(0);
  }
  if (cuSeqlens) {
    first = offset(sequence);
    // Without sequences there is one offset, and no row exists.
    Value next = b.min(b.add(sequence, 1), given.sequences);
    length = b.max(b.sub(offset(next), first), b.i64(0));
  } else {
    first = b.mul(sequence, given.steps);
    length = given.steps;
  }
  Value position;
  if (isShift) {
    position = b.sub(number, first);
    if (cuSeqlens)
      exists = b.less(position, length);
    position = b.sub(position, by);
  } else {
    position = b.rem(number, resultRows);
    position = reverse ? b.sub(position, beyond)
                       : b.add(b.add(position, b.sub(length, resultRows)), beyond);
  }
  // Unsigned, so that rows before the first are not less.
  auto isBelow = [&](Value row, Value end) -> Value {
    return b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, row, end);
  };
  auto rowAt = [&](Value pointer, Value row, Value stride) {
    return b.at(pointer, element(), b.mul(row, stride));
  };
  Value inside = isBelow(position, length);
  Source source;
  if (!zeros)
    source = {rowAt(given.rows, b.add(first, position), given.rowStride), inside};
  if (halo) {
    Value isBefore = b.less(position, 0);
    Value inHalo = b.make<arith::SelectOp>(isBefore, b.add(position, haloRows),
                                           b.sub(position, length));
    Value isInHalo = isBelow(inHalo, b.i64(haloRows));
    Value address =
        rowAt(given.halo, b.add(b.mul(sequence, haloRows), inHalo), given.rowSize);
    if (zeros) {
      Value outside = b.make<arith::XOrIOp>(inside, b.make<arith::ConstantOp>(b.getBoolAttr(true)));
      source = {address, b.both(isInHalo, outside)};
    } else {
      source.address = b.make<arith::SelectOp>(inside, source.address, address);
      source.exists = b.make<arith::OrIOp>(inside, isInHalo);
    }
  } else if (zeros) {
    source = {given.result, b.make<arith::ConstantOp>(b.getBoolAttr(false))};
  }
  source.exists = b.both(source.exists, exists);
  return source;
}

Kernel ejk::emitShiftKernel(Operation *op, gpu::GPUModuleOp module, StringRef name) {
  KernelBuilder b(OpBuilder(op->getContext()), op->getLoc());
  b.setInsertionPointToEnd(module.getBody());
  RowCopies copies(op);
  unsigned elements = copies.elementsOfLoad();
  Kernel kernel;
  kernel.operands = copies.operands();
  gpu::GPUFuncOp function = makeElementKernel(b, kernel, name);
  unsigned next = 0;
  RowCopies::Arguments given =
      copies.take(b, [&](bool) { return Value(function.getArgument(next++)); });
  Value thread = b.add(b.mul(b.wide(b.blockId()), cost::kElementThreads), b.wide(b.threadId()));
  Value element = b.mul(thread, elements);
  Value total = b.mul(copies.count(b, given), given.rowSize);
  b.onlyIf(b.less(element, total), [&] {
    Value row = b.div(element, given.rowSize), inRow = b.rem(element, given.rowSize);
    RowCopies::Source source = copies.find(b, given, row);
    Value copied =
        b.loadIf(source.exists, KernelBuilder::withCount(copies.element(), elements),
                 [&] { return b.at(source.address, copies.element(), inRow); });
    b.store(copied, b.at(given.result, copies.element(), element));
  });
  b.make<gpu::ReturnOp>();
  kernel.gridDivisor = cost::kElementThreads * elements;
  for (int64_t dim = 0, rank = tensorType(copies.result).getRank(); dim < rank; ++dim)
    kernel.gridSizes.push_back({copies.result, unsigned(dim)});
  return kernel;
}
