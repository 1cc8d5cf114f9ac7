//===- ProgramLaunches.cpp - launches of kernels --------------------------===//
#include "lowering/host/ProgramLaunches.h"
#include "lowering/host/PrepareTensors.h"
#include "lowering/kernels/RowStrides.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace ejk;

void ProgramLaunches::findAlternatives() {
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    std::optional<Alternative> all;
    for (OpOperand &use : op.getUses()) {
      Operation *user = use.getOwner();
      if (isa<tensor::DimOp>(user))
        continue;
      Alternative one = alternatives.lookup(user);
      auto choose = dyn_cast<tile::ChooseOp>(user);
      if (choose && use.get() != choose.getRows())
        one = {choose.getRows(), use.get() == choose.getSingle()};
      if (all && !(*all == one))
        one = {};
      all = one;
    }
    if (all && all->rows)
      alternatives[&op] = *all;
  }
}

FailureOr<Value> ProgramLaunches::isAskedFor(Operation *op, const Alternative &alternative) {
  FailureOr<Value> size = hostSize(op, alternative.rows, 1);
  if (failed(size))
    return failure();
  auto predicate = alternative.single ? arith::CmpIPredicate::eq : arith::CmpIPredicate::ne;
  return Value(arith::CmpIOp::create(b, op->getLoc(), predicate, *size, index(1)));
}

FailureOr<Value> ProgramLaunches::tensorMap(Operation *op, const KernelOperand &operand,
                                            Value buffer) {
  Location loc = op->getLoc();
  auto type =
      cast<RankedTensorType>(operand.tensor.getType()); // of which the buffer may hold a view
  const KernelOperand::TmaTile &tmaTile = *operand.tmaTile;
  auto times = [&](Value x, Value y) -> Value { return arith::MulIOp::create(b, loc, x, y); };
  int64_t columnsOfBlock = blockColumns(type.getElementType());
  int64_t perBlock = tmaTile.byHead ? type.getShape().back() : columnsOfBlock;
  Value matrices = index(1), rows, blocks = index(1);
  for (int64_t d = 0, rank = type.getRank(); d < rank; ++d) {
    FailureOr<Value> size =
        d + 1 == rank ? index(type.getDimSize(d) / perBlock) : hostSize(op, operand.tensor, d);
    if (failed(size))
      return failure();
    if (d == tmaTile.rowDim)
      rows = *size;
    else
      (d < tmaTile.rowDim ? matrices : blocks) =
          times(d < tmaTile.rowDim ? matrices : blocks, *size);
  }
  FailureOr<Value> width = hasRowStride(operand.tensor) ? hostRowStride(op, operand.tensor)
                                                        : times(blocks, index(perBlock));
  if (failed(width))
    return failure();
  int64_t dynamic = ShapedType::kDynamic;
  Attribute columns = b.getIndexAttr(perBlock), one = b.getIndexAttr(1);
  auto inBlocks =
      MemRefType::get({dynamic, dynamic, dynamic, perBlock}, type.getElementType(),
                      StridedLayoutAttr::get(b.getContext(), 0, {dynamic, perBlock, dynamic, 1}));
  Value whole = memref::ReinterpretCastOp::create(
      b, loc, inBlocks, buffer, OpFoldResult(b.getIndexAttr(0)),
      ArrayRef<OpFoldResult>{matrices, blocks, rows, columns},
      ArrayRef<OpFoldResult>{times(rows, *width), columns, *width, one});
  Value unranked = memref::CastOp::create(
      b, loc, UnrankedMemRefType::get(type.getElementType(), Attribute()), whole);
  int64_t shape[] = {1, tmaTile.blocks, tmaTile.rows, columnsOfBlock};
  auto tile =
      MemRefType::get(shape, type.getElementType(), AffineMap(), b.getI64IntegerAttr(kSharedSpace));
  auto mapType = nvgpu::TensorMapDescriptorType::get(
      b.getContext(), tile, nvgpu::TensorMapSwizzleKind::SWIZZLE_128B,
      nvgpu::TensorMapL2PromoKind::L2PROMO_256B, nvgpu::TensorMapOOBKind::OOB_ZERO,
      nvgpu::TensorMapInterleaveKind::INTERLEAVE_NONE);
  Value map = nvgpu::TmaCreateDescriptorOp::create(
      b, loc, mapType, unranked,
      llvm::map_to_vector(shape, [&](int64_t size) { return index(size); }));
  return UnrealizedConversionCastOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), map)
      .getResult(0);
}

LogicalResult ProgramLaunches::launch(Operation *op, const Kernel &kernel, Value condition,
                                      Operation *other) {
  Location loc = op->getLoc();
  if (auto it = alternatives.find(op); !condition && it != alternatives.end()) {
    FailureOr<Value> asked = isAskedFor(op, it->second);
    if (failed(asked))
      return failure();
    condition = *asked;
  }
  SmallVector<Value> args;
  for (const KernelOperand &operand : kernel.operands) {
    using Number = KernelOperand::Number;
    bool isNull = isNullStart(op, operand.tensor) || isNullStart(other, operand.tensor);
    if (!operand.dim && operand.number == Number::none && isNull) {
      args.push_back(LLVM::ZeroOp::create(
          b, loc, LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace)));
      continue;
    }
    FailureOr<Value> value =
        operand.number == Number::rowsOfSegments   ? hostRowsOfSegments(op)
        : operand.number == Number::segmentsOfEach ? hostSegmentsOfEach(op)
        : operand.number == Number::firstSegment   ? hostFirstSegment(op)
        : operand.number == Number::slotStride     ? hostSlotStride(op, operand.tensor)
        : operand.number == Number::rowStride      ? hostRowStride(op, operand.tensor)
        : operand.dim                              ? hostSize(op, operand.tensor, *operand.dim)
                                                   : bufferOf(op, operand.tensor);
    if (failed(value))
      return failure();
    if (operand.tmaTile) {
      FailureOr<Value> map = tensorMap(op, operand, *value);
      if (failed(map))
        return failure();
      args.push_back(*map);
      continue;
    }
    if (operand.dim || operand.number != Number::none) {
      args.push_back(arith::IndexCastOp::create(b, loc, b.getI64Type(), *value));
      continue;
    }
    Value address = memref::ExtractAlignedPointerAsIndexOp::create(b, loc, *value);
    address = arith::IndexCastOp::create(b, loc, b.getI64Type(), address);
    args.push_back(LLVM::IntToPtrOp::create(
        b, loc, LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace), address));
  }
  Value grid = index(1);
  auto times = [&](Value factor) { grid = arith::MulIOp::create(b, loc, grid, factor); };
  for (const KernelOperand &operand : kernel.gridSizes) {
    FailureOr<Value> size = hostSize(op, operand.tensor, *operand.dim);
    if (failed(size))
      return failure();
    times(*size);
    if (&operand == kernel.gridSizes.begin() && kernel.headsOfBlock != 1)
      grid = arith::CeilDivUIOp::create(b, loc, grid, index(kernel.headsOfBlock));
  }
  if (kernel.segmented) {
    FailureOr<Value> count = hostSegments(op);
    if (failed(count))
      return failure();
    times(*count);
  }
  if (kernel.sequencesFrom) {
    FailureOr<Value> entries = hostSize(op, kernel.sequencesFrom, 0);
    if (failed(entries))
      return failure();
    times(arith::SubIOp::create(b, loc, *entries, index(1)));
  }
  if (kernel.gridDivisor != 1)
    grid = arith::CeilDivUIOp::create(b, loc, grid, index(kernel.gridDivisor));
  if (kernel.gridFactor != 1)
    times(index(kernel.gridFactor));
  Value one = index(1), threads = index(kernel.threads);
  Value shared;
  if (kernel.sharedBytes)
    shared = arith::ConstantIntOp::create(b, loc, kernel.sharedBytes, 32);
  FunctionOpInterface function = kernel.function;
  auto symbol =
      SymbolRefAttr::get(kernels.getNameAttr(), {FlatSymbolRefAttr::get(function.getNameAttr())});
  OpBuilder::InsertionGuard guard(b);
  if (condition)
    b.setInsertionPointToStart(scf::IfOp::create(b, loc, condition).thenBlock());
  gpu::LaunchFuncOp::create(b, loc, symbol, gpu::KernelDim3{grid, one, one},
                            gpu::KernelDim3{threads, one, one}, shared, args);
  return success();
}
