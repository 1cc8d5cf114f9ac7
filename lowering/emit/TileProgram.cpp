//===- TileProgram.cpp - dispatch over ops, elementwise ops, indices -------===//
//
// Emits the ops of a block one by one. Elementwise ops become one scalar op per element.
// Indices are i32 where they provably fit, because an i64 takes two registers.
//
//===----------------------------------------------------------------------===//
#include "lowering/layout/SpilledToShared.h"
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/TileMemory.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "passes/program/RegisterPressure.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

Placed &TileEmitter::placed(Value value) {
  auto it = tiles.find(value);
  assert(it != tiles.end() && "a tile is made before it is used");
  assert(!it->second.group && "the plan waits for a matmul before its result is used");
  return it->second;
}

/// An index of the program as i64.
Value TileEmitter::wideIndex(Value index) {
  Value value = scalar(index);
  return value.getType().isInteger(64) ? value
                                       : b.make<arith::ExtSIOp>(b.getI64Type(), value).getResult();
}

/// The same as i32; the caller knows that it fits.
Value TileEmitter::narrowIndex(Value index) { return b.narrow(scalar(index)); }

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void TileEmitter::emitBlock(Block &block) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break; // a partition's block has none
    b.loc = op.getLoc();
    emit(&op);
  }
}

void TileEmitter::emit(Operation *op) {
  if (summedInParts.contains(op))
    return;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LoadOp o) { emitLoad(o); })
      .Case([&](PrefetchOp o) { emitPrefetch(o); })
      .Case([&](StoreOp o) { emitStore(o); })
      .Case([&](MakeRingOp o) { emitMakeRing(o); })
      .Case([&](AcquireOp o) { emitAcquire(o); })
      .Case([&](FillOp o) { emitFill(o); })
      .Case([&](PutOp o) { emitPut(o); })
      .Case([&](TakeOp o) { emitTake(o); })
      .Case([&](ReleaseOp o) { emitRelease(o); })
      .Case([&](WarpSpecializeOp o) { emitWarpSpecialize(o); })
      .Case([&](SlotRowsOp o) { emitSlotRows(o); })
      .Case([&](LoadSlotOp o) { emitLoadSlot(o); })
      .Case([&](StoreSlotOp o) { emitStoreSlot(o); })
      .Case([&](ConvertOp o) { emitConvert(o); })
      .Case([&](DotOp o) { emitDot(o); })
      .Case([&](CumsumOp o) { emitCumsum(o); })
      .Case([&](AddCumsumOp o) { emitAddCumsum(o); })
      .Case([&](SplitTermOp o) { emitSplitTerm(o); })
      .Case([&](TriangleOp o) { emitTriangle(o); })
      .Case([&](InvertDiagonalOp o) { emitInvertDiagonal(o); })
      .Case([&](MergeInversesOp o) { emitMergeInverses(o); })
      .Case([&](MaskOp o) { emitMask(o); })
      .Case([&](WindowOp o) { emitWindow(o); })
      .Case([&](BroadcastOp o) { emitBroadcast(o); })
      .Case<tile::SumOp, PartialSumOp>([&](Operation *o) { emitSum(o); })
      .Case([&](AddPartsOp o) { emitAddParts(o); })
      .Case<BarrierOp, FenceOp, WaitMatmulsOp, WaitCopiesOp, WaitStoresOp>([&](Operation *o) {
        Operation *next = o;
        while (
            isa_and_nonnull<FenceOp, WaitStoresOp>(next)) // a partition's block has no terminator
          next = next->getNextNode();
        if (!isa_and_nonnull<RangeGuardOp>(next)) // otherwise issued with the guard
          emitOrdering(o);
      })
      .Case([&](AwaitTurnOp o) { emitAwaitTurn(o); })
      .Case([&](PassTurnOp o) { emitPassTurn(o); })
      .Case([&](RangeGuardOp o) { emitRangeGuard(o); })
      .Case([&](vector::ExtractOp o) { emitExtract(o); })
      .Case([&](vector::InsertOp o) { emitInsert(o); })
      .Case([&](scf::ForOp o) { emitFor(o); })
      .Case<GuardedOp, scf::IfOp>([&](Operation *o) { emitBranch(Branch::of(o)); })
      .Default([&](Operation *o) { emitElementwise(o); });
}

void TileEmitter::findLongBlocks() {
  program.walk([&](Block *block) { isLong |= hasManyMatmuls(*block); });
  bool isPartitioned = !program.getBlock().getOps<WarpSpecializeOp>().empty();
  locatesInLoops =
      isLong && (isPartitioned || !fitsRegisters(program, registersOfLiveTiles(program)));
}

void TileEmitter::emitOrdering(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](BarrierOp) { barrier(); })
      .Case([&](FenceOp) { fenceForMatmuls(); })
      .Case([&](WaitMatmulsOp o) { waitForMatmuls(o.getPending()); })
      .Case([&](WaitCopiesOp o) { waitForCopies(o.getPending()); })
      .Case([&](WaitStoresOp o) { waitForBulkStores(o.getPending()); });
}

/// Rounds to 16 bits in pairs, because one instruction converts two elements.
SmallVector<Value> TileEmitter::roundPairs(ArrayRef<Value> elements, Type to) {
  SmallVector<Value> result;
  for (unsigned i = 0; i < elements.size(); i += 2) {
    Value pair = b.pack(elements.slice(i, 2));
    result.append(b.unpack(b.make<arith::TruncFOp>(VectorType::get({2}, to), pair)));
  }
  return result;
}

/// Widens bf16 pairs: bf16 is the upper half of an f32, so one shift and one mask convert a word.
SmallVector<Value> TileEmitter::widenPairs(ArrayRef<Value> elements) {
  SmallVector<Value> result;
  for (unsigned i = 0; i < elements.size(); i += 2) {
    Value word = b.make<LLVM::BitcastOp>(b.getI32Type(), b.pack(elements.slice(i, 2)));
    for (Value bits : {Value(b.make<arith::ShLIOp>(word, b.i32(16))),
                       Value(b.make<arith::AndIOp>(word, b.i32(int32_t(0xFFFF0000))))})
      result.push_back(b.make<arith::BitcastOp>(b.getF32Type(), bits));
  }
  return result;
}

/// The reciprocal of a constant divisor. A division takes a dozen instructions and a call for
/// special values; the multiplication differs by one unit in the last place.
static std::optional<double> inverseOfDivisor(Operation *op) {
  APFloat divisor(0.0);
  if (!isa<arith::DivFOp>(op) || !matchPattern(op->getOperand(1), m_ConstantFloat(&divisor)))
    return std::nullopt;
  double inverse = 1 / divisor.convertToDouble();
  if (!std::isnormal(float(inverse)))
    return std::nullopt;
  return inverse;
}

/// Whether `op` is a multiplication on the exact path with users other than additions. Contracting
/// it into an FMA would save no multiplication, and would keep its operands live: a state that is
/// scaled in place would be copied before the branch.
static bool keepsMultiplication(Operation *op) {
  return isa<arith::MulFOp>(op) && isOnExactPath(op) &&
         !llvm::all_of(op->getUsers(), llvm::IsaPred<arith::AddFOp, arith::SubFOp>);
}

/// `count` elements of the result of `op`. An operand of one element stands for all elements.
SmallVector<Value> TileEmitter::elementwise(Operation *op, ArrayRef<ArrayRef<Value>> operands,
                                            unsigned count) {
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  if (isa<arith::ExtFOp>(op) && type.isF32() && operands[0].size() % 2 == 0 &&
      operands[0].front().getType().isBF16())
    return widenPairs(operands[0]);
  if (isa<math::ExpOp, math::Exp2Op>(op) && type.isF32())
    return exponentials(op, operands[0], count);
  if (isa<RoundToTf32Op>(op))
    return llvm::map_to_vector(operands[0], [&](Value element) -> Value {
      Value bits =
          b.make<NVVM::ConvertFloatToTF32Op>(b.getI32Type(), element, NVVM::FPRoundingMode::RN);
      return b.make<arith::BitcastOp>(type, bits);
    });
  SmallVector<Value> elements;
  std::optional<double> inverse = type.isF32() ? inverseOfDivisor(op) : std::nullopt;
  for (unsigned i = 0; i < count; ++i) {
    auto element = [&](ArrayRef<Value> all) { return all.size() == 1 ? all[0] : all[i]; };
    if (inverse) {
      elements.push_back(b.make<arith::MulFOp>(element(operands[0]), b.f32(*inverse)));
      continue;
    }
    if (isa<vector::BroadcastOp>(op)) {
      elements.push_back(element(operands[0]));
      continue;
    }
    IRMapping mapping;
    for (auto [operand, all] : llvm::zip(op->getOperands(), operands))
      mapping.map(operand, element(all));
    Operation *clone = b.clone(*op, mapping);
    clone->removeAttr(kLayoutsAttr);
    if (isa<arith::MulFOp, arith::AddFOp, arith::SubFOp>(clone) && !keepsMultiplication(op))
      cast<arith::ArithFastMathInterface>(clone)->setAttr(
          "fastmath",
          arith::FastMathFlagsAttr::get(b.getContext(), arith::FastMathFlags::contract));
    clone->getResult(0).setType(type);
    elements.push_back(clone->getResult(0));
  }
  return elements;
}

/// An index is i32 if it is a counter, a number of chunks, or a sum or difference of those, and i64
/// otherwise. Indices often live throughout a loop, where each register counts.
Value TileEmitter::emitIndex(Operation *op) {
  Value result = op->getResult(0);
  APInt number;
  // Sums of counters and constants this small cannot overflow 32 bits.
  constexpr unsigned kSmallBits = 20;
  if (matchPattern(op, m_ConstantInt(&number)))
    return number.isSignedIntN(kSmallBits) ? b.i32(number.getSExtValue())
                                           : b.i64(number.getSExtValue());
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
    Value from = op->getOperand(0);
    if (!from.getType().isIndex())
      return b.resize(scalar(from), b.getI64Type(), isa<arith::IndexCastOp>(op));
    return b.resize(wideIndex(from), result.getType(), isa<arith::IndexCastOp>(op));
  }
  bool staysNarrow = isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op) &&
                     llvm::all_of(op->getOperands(), [&](Value operand) {
                       return scalar(operand).getType().isInteger(32);
                     });
  // The number of remaining rows matters only if it is below a chunk's length, so it is clamped to
  // i32. A branch then keeps one register live instead of two.
  auto isBound = [&](Operation *user) {
    return isa<WindowOp>(user) || (isa<arith::MinSIOp>(user) &&
                                   matchPattern(user->getOperand(1), m_ConstantInt(&number)) &&
                                   number.isSignedIntN(kSmallBits));
  };
  if (isa<arith::SubIOp>(op) && op->getOperand(0) == program.getLength() && !staysNarrow &&
      llvm::all_of(op->getUsers(), isBound) && op->isUsedOutsideOfBlock(op->getBlock())) {
    Value left = b.sub(wideIndex(op->getOperand(0)), wideIndex(op->getOperand(1)));
    constexpr int64_t most = int64_t(1) << 30;
    return b.narrow(b.min(b.max(left, b.i64(-most)), b.i64(most)));
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand,
                operand.getType().isIndex() && !staysNarrow ? wideIndex(operand) : scalar(operand));
  Operation *clone = b.clone(*op, mapping);
  if (!result.getType().isIndex())
    return clone->getResult(0);
  clone->getResult(0).setType(staysNarrow ? b.getI32Type() : b.getI64Type());
  // A sequence has fewer than 2^31 chunks, because a chunk has at least 16 rows.
  constexpr int64_t kFewestRows = 16;
  bool isCount = isa<arith::CeilDivUIOp>(op) && op->getOperand(0) == program.getLength() &&
                 matchPattern(op->getOperand(1), m_ConstantInt(&number)) && number.sge(kFewestRows);
  return isCount ? b.narrow(clone->getResult(0)) : clone->getResult(0);
}

static bool isOfIndices(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), [](Type type) { return type.isIndex(); }) ||
         op->getResult(0).getType().isIndex();
}

void TileEmitter::emitElementwise(Operation *op) {
  Value result = op->getResult(0);
  if (isOfIndices(op))
    return scalars.map(result, emitIndex(op));
  Type type = getElementTypeOrSelf(result.getType());
  LayoutAttr layout = isTile(result) ? layoutOf(result) : LayoutAttr();
  SmallVector<ArrayRef<Value>> operands;
  SmallVector<Value> single(op->getNumOperands());
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isTile(operand))
      single[i] = scalar(operand);
    operands.push_back(isTile(operand) ? ArrayRef<Value>(placed(operand).elements) : single[i]);
  }
  SmallVector<Value> elements;
  DenseElementsAttr constant;
  unsigned count = layout ? elementsOfThread(result.getType(), layout) : 1;
  if (isTile(result) && matchPattern(op, m_Constant(&constant))) {
    elements.push_back(
        b.make<arith::ConstantOp>(cast<TypedAttr>(constant.getSplatValue<Attribute>())));
  } else if (isa<arith::TruncFOp>(op) && operands[0].size() % 2 == 0 && operands[0].size() > 1) {
    elements = roundPairs(operands[0], type);
  } else {
    elements = elementwise(op, operands, count);
  }
  // Round here, before the next matmuls overwrite the accumulators of the previous iteration.
  if (isa<arith::TruncFOp, RoundToTf32Op>(op) && operands[0].size() > 1 && warpgroups &&
      isTile(result) && isFragments(layout) && isa<scf::ForOp>(op->getParentOp()))
    elements = materializeHere(elements);
  if (!layout) {
    scalars.map(result, elements.front());
    return;
  }
  Placed tile;
  tile.layout = layout;
  tile.type = result.getType();
  tile.elements = elements;
  tiles[result] = tile;
}
