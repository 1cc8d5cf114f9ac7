//===- ProgramSizes.cpp - sizes of tensors, computed by the host ----------===//
#include "lowering/host/ProgramSizes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace ejk;

DimExpr ProgramSizes::sizeOf(Value tensor, unsigned dim) {
  if (auto it = copied.find(tensor); it != copied.end())
    tensor = it->second;
  return shapes.dim(tensor, dim);
}

void ProgramSizes::noteSizes(Value tensor, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  for (int64_t d = 0; d < type.getRank(); ++d) {
    DimExpr size = sizeOf(tensor, d);
    if (size.kind == DimExpr::Kind::constant || size.kind == DimExpr::Kind::slots ||
        size.kind == DimExpr::Kind::operation || symbols.contains(size.symbol))
      continue;
    Value value = memref::DimOp::create(b, function.getLoc(), buffer, d);
    if (size.kind == DimExpr::Kind::symbolPlusOne)
      value = arith::SubIOp::create(b, function.getLoc(), value, index(1));
    symbols[size.symbol] = value;
  }
}

Value ProgramSizes::index(int64_t v) {
  return arith::ConstantIndexOp::create(b, function.getLoc(), v);
}

FailureOr<Value> ProgramSizes::hostSize(Operation *op, Value tensor, unsigned dim) {
  FailureOr<Value> size = hostSize(sizeOf(tensor, dim));
  if (failed(size))
    op->emitError() << "the size " << sizeOf(tensor, dim).str() << " (dimension " << dim << " of "
                    << tensor.getType() << ") is not the size of any of the function's arguments";
  return size;
}

FailureOr<Value> ProgramSizes::hostSize(const DimExpr &size) {
  Location loc = function.getLoc();
  if (size.kind == DimExpr::Kind::slots) {
    SmallVector<Value> factors;
    for (const DimExpr &factor : size.factors) {
      FailureOr<Value> value = hostSize(factor);
      if (failed(value))
        return failure();
      factors.push_back(*value);
    }
    Value rows = arith::MulIOp::create(b, loc, factors[0], factors[1]);
    Value chunks = arith::DivUIOp::create(b, loc, rows, index(size.value));
    return Value(arith::AddIOp::create(b, loc, chunks, factors[2]));
  }
  if (size.kind == DimExpr::Kind::constant)
    return index(size.value);
  if (size.kind == DimExpr::Kind::operation) {
    FailureOr<Value> lhs = hostSize(size.factors[0]), rhs = hostSize(size.factors[1]);
    if (failed(lhs) || failed(rhs))
      return failure();
    switch (DimExpr::Operator(size.value)) {
    case DimExpr::Operator::add:
      return Value(arith::AddIOp::create(b, loc, *lhs, *rhs));
    case DimExpr::Operator::multiply:
      return Value(arith::MulIOp::create(b, loc, *lhs, *rhs));
    case DimExpr::Operator::floorDivide:
      return Value(arith::DivUIOp::create(b, loc, *lhs, *rhs));
    case DimExpr::Operator::ceilDivide:
      return Value(arith::CeilDivUIOp::create(b, loc, *lhs, *rhs));
    case DimExpr::Operator::minimum:
      return Value(arith::MinSIOp::create(b, loc, *lhs, *rhs));
    case DimExpr::Operator::maximum:
      return Value(arith::MaxSIOp::create(b, loc, *lhs, *rhs));
    }
  }
  auto it = symbols.find(size.symbol);
  if (it == symbols.end())
    return failure();
  if (size.kind == DimExpr::Kind::symbolPlusOne)
    return Value(arith::AddIOp::create(b, function.getLoc(), it->second, index(1)));
  return it->second;
}

/// What `get` gives of a scan or a block program.
template <typename Get> static auto ofScanOrProgram(Operation *op, Get get) {
  if (auto scan = dyn_cast<ScanOp>(op))
    return get(scan);
  return get(cast<tile::ProgramOp>(op));
}

static SegmentsAttr segmentsOf(Operation *op) {
  return ofScanOrProgram(op, [](auto scan) { return *scan.getSegments(); });
}

static Value firstSequence(Operation *op) {
  return ofScanOrProgram(op, [](auto scan) { return scan.getSequences().front(); });
}

FailureOr<Value> ProgramSizes::hostRowsOfSegments(Operation *op) {
  return hostSize(DimExpr::rowsOfSegments(segmentsOf(op), sizeOf(firstSequence(op), 1)));
}

FailureOr<Value> ProgramSizes::hostSegmentsOfEach(Operation *op) {
  return hostSize(DimExpr::segmentsOfEach(segmentsOf(op), sizeOf(firstSequence(op), 1)));
}

FailureOr<Value> ProgramSizes::hostFirstSegment(Operation *op) {
  return hostSize(DimExpr::number(segmentsOf(op).getOnly().value_or(0)));
}

FailureOr<Value> ProgramSizes::hostSegments(Operation *op) {
  return ofScanOrProgram(op, [&](auto scan) {
    Value first = scan.getSequences().front(), cu = scan.getCuSeqlens();
    return hostSize(DimExpr::countSegments(*scan.getSegments(), sizeOf(first, 0), sizeOf(first, 1),
                                           sequencesOf(scan), bool(cu)));
  });
}
