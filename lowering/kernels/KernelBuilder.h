//===- KernelBuilder.h - shorthands for emitting a kernel ---------*- C++ -*-===//
//
// Kernels are emitted as upstream gpu, scf, arith, math and llvm ops. This class wraps the builders
// that address and tile computations use most. Integers are i32 (within a block) or i64 (global
// offsets); a literal takes the type of the other operand.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_KERNELBUILDER_H
#define EJK_LOWERING_KERNELS_KERNELBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace ejk {

/// The address spaces of global and shared memory on NVIDIA GPUs.
constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;
constexpr unsigned kWarpSize = 32;
/// Size and alignment of a tensor map.
constexpr unsigned kMapBytes = 128, kMapAlignment = 64;

inline mlir::RankedTensorType tensorType(mlir::Value v) {
  return llvm::cast<mlir::RankedTensorType>(v.getType());
}

class KernelBuilder : public mlir::OpBuilder {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;

  KernelBuilder(mlir::OpBuilder builder, mlir::Location loc) : OpBuilder(builder), loc(loc) {}

  mlir::Location loc;

  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(*this, loc, std::forward<Args>(args)...);
  }

  // Constants.
  Value i32(int64_t v) { return integer(getI32Type(), v); }
  Value i64(int64_t v) { return integer(getI64Type(), v); }
  Value like(Value model, int64_t v) { return integer(model.getType(), v); }
  Value integer(Type type, int64_t v) {
    return make<mlir::arith::ConstantOp>(getIntegerAttr(type, v));
  }
  Value f32(double v) { return make<mlir::arith::ConstantOp>(getF32FloatAttr(v)); }
  Value zero(Type type) { return make<mlir::arith::ConstantOp>(getZeroAttr(type)); }

  // Integers.
  Value add(Value a, Value b) { return make<mlir::arith::AddIOp>(a, b); }
  Value add(Value a, int64_t b) { return b ? add(a, like(a, b)) : a; }
  Value sub(Value a, Value b) { return make<mlir::arith::SubIOp>(a, b); }
  Value sub(Value a, int64_t b) { return b ? sub(a, like(a, b)) : a; }
  Value mul(Value a, Value b) { return make<mlir::arith::MulIOp>(a, b); }
  Value mul(Value a, int64_t b) { return b == 1 ? a : mul(a, like(a, b)); }
  Value div(Value a, Value b) { return make<mlir::arith::DivUIOp>(a, b); }
  Value div(Value a, int64_t b) { return b == 1 ? a : div(a, like(a, b)); }
  Value rem(Value a, Value b) { return make<mlir::arith::RemUIOp>(a, b); }
  Value rem(Value a, int64_t b) { return rem(a, like(a, b)); }
  Value min(Value a, Value b) { return make<mlir::arith::MinSIOp>(a, b); }
  Value max(Value a, Value b) { return make<mlir::arith::MaxSIOp>(a, b); }
  Value less(Value a, Value b) {
    return make<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::slt, a, b);
  }
  Value less(Value a, int64_t b) { return less(a, like(a, b)); }
  Value equal(Value a, int64_t b) {
    return make<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::eq, a, like(a, b));
  }
  /// Conjunction. Null means true.
  Value both(Value a, Value b) {
    return !a ? b : !b ? a : make<mlir::arith::AndIOp>(a, b).getResult();
  }
  Value wide(Value a) {
    return a.getType().isInteger(64) ? a : make<mlir::arith::ExtUIOp>(getI64Type(), a).getResult();
  }
  Value narrow(Value a) {
    return a.getType().isInteger(32) ? a : make<mlir::arith::TruncIOp>(getI32Type(), a).getResult();
  }
  /// `a` as an integer of `type`.
  Value resize(Value a, Type type, bool isSigned) {
    unsigned from = a.getType().getIntOrFloatBitWidth(), to = type.getIntOrFloatBitWidth();
    if (from == to)
      return a;
    if (from > to)
      return make<mlir::arith::TruncIOp>(type, a);
    return isSigned ? make<mlir::arith::ExtSIOp>(type, a).getResult()
                    : make<mlir::arith::ExtUIOp>(type, a).getResult();
  }

  /// `a`, an i32, such that LLVM knows nothing of it: what is computed from it stays in its loop, and takes
  /// no register around it. Of GPUs alone.
  Value opaque(Value a) {
    return make<mlir::LLVM::InlineAsmOp>(mlir::TypeRange(getI32Type()), mlir::ValueRange(a),
                                         "mov.b32 $0, $1;", "=r,r", /*has_side_effects=*/true,
                                         /*is_align_stack=*/false, mlir::LLVM::TailCallKind::None,
                                         mlir::LLVM::AsmDialectAttr(), mlir::ArrayAttr())
        .getRes();
  }

  // The block and its threads, as i32.
  Value threadId() {
    return make<mlir::arith::IndexCastOp>(getI32Type(),
                                          make<mlir::gpu::ThreadIdOp>(mlir::gpu::Dimension::x));
  }
  Value blockId() {
    return make<mlir::arith::IndexCastOp>(getI32Type(),
                                          make<mlir::gpu::BlockIdOp>(mlir::gpu::Dimension::x));
  }

  // Memory.
  mlir::LLVM::LLVMPointerType globalPtr() {
    return mlir::LLVM::LLVMPointerType::get(getContext(), kGlobalSpace);
  }
  /// base + offset elements of `element`.
  Value at(Value base, Type element, Value offset) {
    return make<mlir::LLVM::GEPOp>(base.getType(), element, base,
                                   mlir::ArrayRef<mlir::LLVM::GEPArg>{offset});
  }
  Value at(Value base, Type element, int64_t offset) {
    return offset ? at(base, element, i32(offset)) : base;
  }
  /// Loads a value of `type`, scalar or vector. It must be aligned to its size, or to 16 bytes if
  /// it is larger.
  Value load(Type type, Value address) {
    return make<mlir::LLVM::LoadOp>(type, address, alignmentOf(type));
  }
  void store(Value value, Value address) {
    make<mlir::LLVM::StoreOp>(value, address, alignmentOf(value.getType()));
  }
  /// Loads if `valid`, otherwise returns zero. Null means true.
  Value loadIf(Value valid, Type type, llvm::function_ref<Value()> address) {
    if (!valid)
      return load(type, address());
    auto branch = make<mlir::scf::IfOp>(type, valid, /*withElseRegion=*/true);
    InsertionGuard guard(*this);
    setInsertionPointToStart(branch.thenBlock());
    make<mlir::scf::YieldOp>(load(type, address()));
    setInsertionPointToStart(branch.elseBlock());
    make<mlir::scf::YieldOp>(zero(type));
    return branch.getResult(0);
  }
  Value isNotNull(Value pointer) {
    auto null = make<mlir::LLVM::ZeroOp>(pointer.getType());
    return make<mlir::LLVM::ICmpOp>(mlir::LLVM::ICmpPredicate::ne, pointer, null);
  }
  /// Emits `body` under the condition `valid`. Null means true.
  void onlyIf(Value valid, llvm::function_ref<void()> body) {
    if (!valid)
      return body();
    auto branch = make<mlir::scf::IfOp>(mlir::TypeRange(), valid, /*withElseRegion=*/false);
    InsertionGuard guard(*this);
    setInsertionPointToStart(branch.thenBlock());
    body();
  }
  /// for (i = from; i < to; i += step) carried = body(i, carried); returns the last carried.
  llvm::SmallVector<Value>
  loop(Value from, Value to, int64_t step, mlir::ValueRange carried,
       llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)> body) {
    auto op = make<mlir::scf::ForOp>(
        from, to, like(from, step), carried,
        [&](mlir::OpBuilder &, mlir::Location, Value i, mlir::ValueRange args) {
          InsertionGuard guard(*this);
          setInsertionPointToStart(i.getParentBlock());
          make<mlir::scf::YieldOp>(body(i, args));
        });
    return llvm::SmallVector<Value>(op.getResults());
  }

  Value extract(Value vector, int64_t i) {
    return make<mlir::LLVM::ExtractElementOp>(vector, i32(i));
  }
  /// A vector of `elements`, or the one element itself.
  Value pack(mlir::ValueRange elements) {
    if (elements.size() == 1)
      return elements.front();
    auto type = mlir::VectorType::get({int64_t(elements.size())}, elements.front().getType());
    Value vector = make<mlir::LLVM::PoisonOp>(type);
    for (auto [i, element] : llvm::enumerate(elements))
      vector = make<mlir::LLVM::InsertElementOp>(vector, element, i32(i));
    return vector;
  }
  /// The elements of `value`, a vector or a scalar.
  llvm::SmallVector<Value> unpack(Value value) {
    auto type = mlir::dyn_cast<mlir::VectorType>(value.getType());
    if (!type)
      return {value};
    llvm::SmallVector<Value> elements;
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      elements.push_back(extract(value, i));
    return elements;
  }

  static unsigned bytesOf(Type type) {
    auto vector = mlir::dyn_cast<mlir::VectorType>(type);
    unsigned count = vector ? vector.getNumElements() : 1;
    return count * mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
  }
  static unsigned alignmentOf(Type type) { return std::min(16u, bytesOf(type)); }
  /// `type`'s elements, `count` of them: a scalar for one, else a vector.
  static Type withCount(Type type, int64_t count) {
    Type element = mlir::getElementTypeOrSelf(type);
    return count == 1 ? element : mlir::VectorType::get({count}, element);
  }
};

/// An argument of a kernel: the memory of a tensor, the size of a dimension, a tensor map, a number
/// that places the segments of the op that the kernel computes, or the stride between rows or slots
/// of a pool.
struct KernelOperand {
  mlir::Value tensor;
  std::optional<unsigned> dim = {};
  /// What a tensor map copies at once. Dimension `rowDim` of the tensor counts rows; the dimensions
  /// after it form one row. A copy has `rows` rows and `blocks` blocks of 128 bytes, of any heads.
  /// With `byHead` it has one block of one head, which may go beyond the head's last column.
  struct TmaTile {
    unsigned rowDim;
    int64_t rows, blocks;
    bool byHead = false;
  };
  std::optional<TmaTile> tmaTile = {};
  /// Numbers that are no sizes of tensors.
  enum class Number : unsigned char {
    none,
    rowsOfSegments,
    segmentsOfEach,
    firstSegment,
    slotStride,
    rowStride
  };
  Number number = Number::none;
};

/// A kernel and its launch parameters.
struct Kernel {
  mlir::FunctionOpInterface function;
  /// In the order of the launch's arguments. GPU functions take ptr<1> for tensors, i64 for sizes,
  /// and a ptr to 128 bytes passed by value for tensor maps.
  llvm::SmallVector<KernelOperand> operands;
  /// Of a GPU's block; on a CPU, how many successive items of the grid share some work.
  unsigned threads = 0;
  /// Dynamic shared memory of a block, in bytes.
  unsigned sharedBytes = 0;
  /// The grid has ceil(∏ `gridSizes` / gridDivisor) · gridFactor blocks. With `sequencesFrom`, it
  /// is also multiplied by the number of packed sequences.
  llvm::SmallVector<KernelOperand> gridSizes;
  mlir::Value sequencesFrom;
  /// Also times the number of segments.
  bool segmented = false;
  int64_t gridDivisor = 1, gridFactor = 1;
  /// The first of `gridSizes` is divided by it and rounded up.
  int64_t headsOfBlock = 1;
};

} // namespace ejk

#endif // EJK_LOWERING_KERNELS_KERNELBUILDER_H
