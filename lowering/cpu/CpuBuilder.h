//===- CpuBuilder.h - short spellings for a CPU's kernels ---------*- C++ -*-===//
//
// Vectors on a CPU are as wide as a register block, and LLVM cuts them into registers.
// Addresses are multiples of an element's size, no more: a row of any number of channels
// may start anywhere.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_CPU_CPUBUILDER_H
#define EJK_LOWERING_CPU_CPUBUILDER_H

#include "lowering/kernels/KernelBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace ejk {

class CpuBuilder : public KernelBuilder {
public:
  using KernelBuilder::KernelBuilder;

  mlir::LLVM::LLVMPointerType pointer() { return mlir::LLVM::LLVMPointerType::get(getContext()); }

  static unsigned elementBytes(Type type) {
    return mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
  }
  /// Loads a scalar or a vector; lanes that `mask` leaves out are zero. A null mask is full.
  Value loadLanes(Type type, Value address, Value mask = {}) {
    if (!mask)
      return make<mlir::LLVM::LoadOp>(type, address, elementBytes(type));
    Type stored = asStored(type);
    Value loaded = make<mlir::LLVM::MaskedLoadOp>(stored, address, mask, zero(stored),
                                                  getI32IntegerAttr(elementBytes(type)));
    return stored == type ? loaded : make<mlir::arith::BitcastOp>(type, loaded).getResult();
  }
  void storeLanes(Value value, Value address, Value mask = {}) {
    Type type = value.getType();
    if (!mask) {
      make<mlir::LLVM::StoreOp>(value, address, elementBytes(type));
      return;
    }
    Type stored = asStored(type);
    if (stored != type)
      value = make<mlir::arith::BitcastOp>(stored, value);
    make<mlir::LLVM::MaskedStoreOp>(value, address, mask, getI32IntegerAttr(elementBytes(type)));
  }
  /// What masked loads and stores take `type` as: some lanes of a 16-bit float LLVM would pass
  /// through f32, and call a library to round them back.
  Type asStored(Type type) {
    auto vector = mlir::cast<mlir::VectorType>(type);
    bool isNarrow = vector.getElementType().isF16() || vector.getElementType().isBF16();
    return isNarrow ? vector.clone(getI16Type()) : type;
  }
  /// A mask of the first `count` of `width` lanes.
  Value firstLanes(unsigned width, Value count) {
    auto type = mlir::VectorType::get({int64_t(width)}, getI32Type());
    auto lanes = llvm::to_vector(llvm::seq<int32_t>(0, width));
    Value lane = make<mlir::arith::ConstantOp>(
        mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int32_t>(lanes)));
    return make<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::slt, lane,
                                     splat(narrow(count), width));
  }
  /// `scalar` in `width` lanes, or itself where there is one.
  Value splat(Value scalar, unsigned width) {
    if (width == 1 || mlir::isa<mlir::VectorType>(scalar.getType()))
      return scalar;
    return make<mlir::vector::BroadcastOp>(withCount(scalar.getType(), width), scalar);
  }
  Value number(double value, unsigned width) { return splat(f32(value), width); }
  /// Turns a square of `rows`, as many as each has lanes, a power of two: halves of pairs of
  /// rows change places, then quarters, and so on.
  void transpose(llvm::MutableArrayRef<Value> rows) {
    unsigned side = rows.size();
    for (unsigned distance = side / 2; distance > 0; distance /= 2) {
      llvm::SmallVector<int64_t> low, high;
      for (unsigned lane = 0; lane < side; ++lane) {
        bool isUpper = lane & distance;
        low.push_back(isUpper ? side + lane - distance : lane);
        high.push_back(isUpper ? side + lane : lane + distance);
      }
      for (unsigned i = 0; i < side; ++i)
        if (!(i & distance)) {
          Value a = rows[i], c = rows[i + distance];
          rows[i] = make<mlir::vector::ShuffleOp>(a, c, low);
          rows[i + distance] = make<mlir::vector::ShuffleOp>(a, c, high);
        }
    }
  }
  /// The sum, or the maximum, of a vector's lanes: halves of it, in an order that is always the
  /// same.
  Value sumLanes(Value vector, bool isMax = false) {
    auto type = mlir::dyn_cast<mlir::VectorType>(vector.getType());
    for (int64_t width = type ? type.getNumElements() : 1; width > 1; width /= 2) {
      auto low = llvm::to_vector(llvm::seq<int64_t>(0, width / 2));
      auto high = llvm::to_vector(llvm::seq<int64_t>(width / 2, width));
      Value a = make<mlir::vector::ShuffleOp>(vector, vector, low);
      Value c = make<mlir::vector::ShuffleOp>(vector, vector, high);
      vector = isMax ? make<mlir::arith::MaximumFOp>(a, c).getResult() : addF(a, c);
    }
    return type ? make<mlir::vector::ExtractOp>(vector, 0).getResult() : vector;
  }
  Value mulF(Value a, Value c) { return make<mlir::arith::MulFOp>(a, c); }
  Value addF(Value a, Value c) { return make<mlir::arith::AddFOp>(a, c); }
  Value fma(Value a, Value c, Value sum) { return make<mlir::math::FmaOp>(a, c, sum); }
  /// In f32, as everything is summed.
  Value widen(Value value) {
    unsigned bits = mlir::getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
    if (bits >= 32)
      return value;
    auto vector = mlir::dyn_cast<mlir::VectorType>(value.getType());
    return make<mlir::arith::ExtFOp>(
        withCount(getF32Type(), vector ? vector.getNumElements() : 1), value);
  }
  Value roundTo(Type element, Value value) {
    if (mlir::getElementTypeOrSelf(value.getType()) == element)
      return value;
    auto vector = mlir::dyn_cast<mlir::VectorType>(value.getType());
    return make<mlir::arith::TruncFOp>(withCount(element, vector ? vector.getNumElements() : 1),
                                       value);
  }

  /// Rows that follow one another in memory: the first one, and how many.
  struct RowRange {
    Value first, length;
  };
  /// Those of `sequence`: `totalSteps` rows, or those between two offsets of the tensor
  /// `cuSeqlens`, which is at `offsets`. Offsets are the caller's; clamped, no value of them can
  /// reach outside.
  RowRange rowsOf(Value sequence, Value totalSteps, Value cuSeqlens, Value offsets) {
    if (!cuSeqlens)
      return {mul(sequence, totalSteps), totalSteps};
    Type offsetType = mlir::getElementTypeOrSelf(cuSeqlens);
    auto load = [&](Value index) -> Value {
      Value offset = loadLanes(offsetType, at(offsets, offsetType, index));
      if (offsetType.isInteger(32))
        offset = make<mlir::arith::ExtSIOp>(getI64Type(), offset);
      return min(max(offset, i64(0)), totalSteps);
    };
    Value first = load(sequence);
    return {first, max(sub(load(add(sequence, 1)), first), i64(0))};
  }
};

/// Makes a kernel's function and leaves the builder at its start. It takes the launch's
/// arguments, 64 bits each, and a range of the grid's items: (arguments, first item, end).
inline mlir::LLVM::LLVMFuncOp makeCpuFunction(CpuBuilder &b, llvm::StringRef name) {
  auto type = mlir::LLVM::LLVMFunctionType::get(
      mlir::LLVM::LLVMVoidType::get(b.getContext()),
      {b.pointer(), b.getI64Type(), b.getI64Type()});
  auto function = b.make<mlir::LLVM::LLVMFuncOp>(name, type);
  function->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  b.setInsertionPointToStart(function.addEntryBlock(b));
  return function;
}

/// The launch's argument number `index`.
inline mlir::Value cpuArgument(CpuBuilder &b, mlir::LLVM::LLVMFuncOp function, unsigned index,
                               mlir::Type type) {
  mlir::Value address = b.at(function.getArgument(0), b.getI64Type(), b.i64(index));
  return b.make<mlir::LLVM::LoadOp>(type, address);
}

} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUBUILDER_H
