//===- TileDot.cpp - products, and running sums as products ----------------===//
//
// A product's operands lie in shared memory, its result in fragments. One
// `mma.sync.m16n8k16` multiplies a 16×16 block A by a 16×8 block B; `ldmatrix`
// brings A whole, or two Bs side by side, 16×16 numbers at a time. Lane l gives
// it the address of one row of 8 numbers: of the 16×16 block that starts at
// (r, c) in memory, the row that starts at
//
//   by halves of the block's rows first:     (r + l mod 16,             c + 8 (l / 16))
//   by halves of its columns first:          (r + l mod 8 + 8 (l / 16), c + 8 (l / 8 mod 2))
//
// The four registers it returns are then, in order,
//
//   A      halves of rows first, as stored    A's a0 a1 a2 a3
//   Aᵀ     halves of columns first, .trans    A's a0 a1 a2 a3
//   B      halves of rows first, .trans       b0 b1 of the left B, b0 b1 of the right
//   Bᵀ     halves of columns first, as stored b0 b1 of the left B, b0 b1 of the right
//
//===----------------------------------------------------------------------===//
#include "lowering/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// A product's operand as a lane reads it, once beforeRead was called for it. Across is along the
/// result's rows (of a left operand) or columns (of a right one); along is the other way.
struct TileEmitter::Operand {
  Value address; // of the first block's row that this lane names
  unsigned pitch;
  bool rowsAcross; // the memory's rows run across
  bool transposes; // ldmatrix's .trans
};

TileEmitter::Operand TileEmitter::operandOf(const Placed &tile, bool isLhs, bool transposed,
                                            Value part) {
  bool rowsAcross = isLhs != transposed;
  bool columnsFirst = transposed;
  Value half = b.div(lane, 16), row, column;
  if (columnsFirst) {
    row = b.add(b.rem(lane, 8), b.mul(half, 8));
    column = b.mul(b.rem(b.div(lane, 8), 2), 8);
  } else {
    row = b.rem(lane, 16);
    column = b.mul(half, 8);
  }
  (rowsAcross ? row : column) = b.add(rowsAcross ? row : column, part);
  Value offset = b.add(b.mul(row, tile.pitch), b.mul(column, 2));
  return {b.at(tile.address, b.getI8Type(), offset), tile.pitch, rowsAcross, isLhs == transposed};
}

SmallVector<Value> TileEmitter::loadBlock(const Operand &operand, int64_t across, int64_t along) {
  int64_t row = operand.rowsAcross ? across : along, column = operand.rowsAcross ? along : across;
  Value address = b.at(operand.address, b.getI8Type(), row * operand.pitch + column * 2);
  Type word = b.getI32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {word, word, word, word});
  Value loaded = b.make<NVVM::LdMatrixOp>(
      type, address, 4, operand.transposes ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
  SmallVector<Value> words;
  for (int64_t i = 0; i < 4; ++i)
    words.push_back(b.make<LLVM::ExtractValueOp>(loaded, i));
  return words;
}

/// acc's accumulators (m, 2·pair) and (m, 2·pair + 1) += lhs · rhs.
void TileEmitter::multiply(SmallVector<Value> &acc, const Fragments &f, unsigned m, unsigned pair,
                           ArrayRef<Value> lhs, ArrayRef<Value> rhs, Type element) {
  Type f32 = b.getF32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  auto kind = element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  auto words = [&](ArrayRef<Value> of) {
    return llvm::map_to_vector(of, [&](Value word) -> Value {
      if (element.isBF16())
        return word;
      return b.make<LLVM::BitcastOp>(VectorType::get({2}, element), word);
    });
  };
  for (unsigned side : {0, 1}) {
    MutableArrayRef<Value> sums =
        MutableArrayRef<Value>(acc).slice(f.index(m, 2 * pair + side, 0), 4);
    Value result = b.make<NVVM::MmaOp>(
        type, words(lhs), words(rhs.slice(2 * side, 2)), sums, ArrayRef<int64_t>{16, 8, 16},
        std::nullopt, std::nullopt, std::array<NVVM::MMATypes, 2>{kind, kind},
        std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row, NVVM::MMALayout::col});
    for (unsigned i = 0; i < 4; ++i)
      sums[i] = b.make<LLVM::ExtractValueOp>(result, i);
  }
}

void TileEmitter::emitDot(DotOp op) {
  Placed result;
  result.type = op.getType();
  result.layout = layoutOf(op.getResult());
  Fragments f = Fragments::of(result.type, result.layout);
  const Placed &acc = placed(op.getAcc());
  for (unsigned i = 0; i < f.size(); ++i)
    result.elements.push_back(element(acc, i));
  auto lhsType = cast<VectorType>(op.getLhs().getType());
  int64_t length = lhsType.getDimSize(op.getLhsTransposed() ? 0 : 1);
  beforeRead({placed(op.getLhs()).range, placed(op.getRhs()).range});
  Operand lhs = operandOf(placed(op.getLhs()), true, op.getLhsTransposed(), partRow(f));
  Operand rhs = operandOf(placed(op.getRhs()), false, op.getRhsTransposed(), partColumn(f));
  for (int64_t along = 0; along < length; along += 16) {
    SmallVector<SmallVector<Value>> blocks;
    for (unsigned m = 0; m < f.rowTiles(); ++m)
      blocks.push_back(loadBlock(lhs, 16 * m, along));
    for (unsigned pair = 0; pair < f.columnTiles() / 2; ++pair) {
      SmallVector<Value> columns = loadBlock(rhs, 16 * pair, along);
      for (unsigned m = 0; m < f.rowTiles(); ++m)
        multiply(result.elements, f, m, pair, blocks[m], columns, lhsType.getElementType());
    }
  }
  tiles[op.getResult()] = result;
}

//===----------------------------------------------------------------------===//
// Running sums
//===----------------------------------------------------------------------===//

/// The matrix of ones on one side of the diagonal and zeros on the other, as
/// left operand: the words of the 16×16 blocks on the diagonal, and all ones.
struct TileEmitter::Triangle {
  SmallVector<Value> diagonal;
  Value ones;
  bool upper;
};

TileEmitter::Triangle TileEmitter::triangleOf(CumsumOp op, Type type) {
  uint32_t one = type.isBF16() ? 0x3F80 : 0x3C00;
  bool upper = op.getReverse(), strict = op.getExclusive();
  Value ones = b.i32(int32_t(one << 16 | one)), none = b.i32(0);
  // Of row g the numbers in columns 2t and 2t + 1.
  auto predicate = upper ? (strict ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::sge)
                         : (strict ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle);
  Value corner = none;
  for (unsigned i : {0, 1}) {
    Value kept = b.make<arith::CmpIOp>(predicate, b.add(b.mul(member, 2), i), group);
    Value word = b.make<arith::SelectOp>(kept, b.i32(int32_t(one << (16 * i))), none);
    corner = b.make<arith::OrIOp>(corner, word);
  }
  // a1: rows 8 to 15, columns 0 to 7; a2: the other way round.
  return {{corner, upper ? none : ones, upper ? ones : none, corner}, ones, upper};
}

/// result += triangle · piece, of a piece in shared memory.
void TileEmitter::addSums(Placed &result, const Placed &piece, const Triangle &triangle) {
  Fragments f = Fragments::of(result.type, result.layout);
  Type element = getElementTypeOrSelf(piece.type);
  beforeRead(piece.range);
  Operand rhs = operandOf(piece, /*isLhs=*/false, /*transposed=*/false, partColumn(f));
  Value before = triangle.upper ? b.i32(0) : triangle.ones;
  Value behind = triangle.upper ? triangle.ones : b.i32(0);
  for (int64_t along = 0; along < f.rows; along += 16) {
    SmallVector<SmallVector<Value>> blocks;
    for (unsigned m = 0; m < f.rowTiles(); ++m) {
      Value row = b.add(partRow(f), 16 * m);
      Value onDiagonal = b.equal(row, along), isBefore = b.less(b.i32(along), row);
      Value off = b.make<arith::SelectOp>(isBefore, before, behind);
      blocks.push_back(llvm::map_to_vector(triangle.diagonal, [&](Value word) -> Value {
        return b.make<arith::SelectOp>(onDiagonal, word, off);
      }));
    }
    for (unsigned pair = 0; pair < f.columnTiles() / 2; ++pair) {
      SmallVector<Value> columns = loadBlock(rhs, 16 * pair, along);
      for (unsigned m = 0; m < f.rowTiles(); ++m)
        multiply(result.elements, f, m, pair, blocks[m], columns, element);
    }
  }
}

/// Of an f32 three roundings to bf16, each of what the one before left over, are
/// summed up one after another; of a number that was widened, the one it was.
void TileEmitter::emitCumsum(CumsumOp op) {
  if (placed(op.getTile()).layout.getKind() == LayoutKind::lanes) {
    tiles[op.getResult()] = cumsumOfLanes(op);
    return;
  }
  Placed rest = placed(op.getTile()), result = rest;
  std::fill(result.elements.begin(), result.elements.end(), b.f32(0.0));
  SmallVector<Placed> pieces;
  auto write = [&](const Placed &rounded, Type element) {
    pieces.push_back(newShared(VectorType::get(cast<VectorType>(rest.type).getShape(), element)));
    writeFragments(rounded, pieces.back());
  };
  auto sumPieces = [&](Type element) {
    for (const Placed &piece : pieces) {
      addSums(result, piece, triangleOf(op, element));
      memory.release(piece.range);
    }
    pieces.clear();
  };
  if (auto widened = op.getTile().getDefiningOp<arith::ExtFOp>()) {
    Type element = getElementTypeOrSelf(widened.getIn().getType());
    auto convert = widened.getIn().getDefiningOp<ConvertOp>();
    auto loaded = convert ? tiles.find(convert.getTile()) : tiles.end();
    if (loaded != tiles.end() && loaded->second.layout.getKind() == LayoutKind::shared)
      addSums(result, loaded->second, triangleOf(op, element));
    else
      write(placed(widened.getIn()), element);
    sumPieces(element);
  } else {
    Type bf16 = b.getBF16Type();
    for (unsigned i = 0; i < 3; ++i) {
      Placed rounded = rest;
      for (auto [left, narrow] : llvm::zip(rest.elements, rounded.elements)) {
        narrow = b.make<arith::TruncFOp>(bf16, left);
        left = b.make<arith::SubFOp>(left, b.make<arith::ExtFOp>(b.getF32Type(), narrow));
      }
      write(rounded, bf16);
      if (budget.sparing)
        sumPieces(bf16);
    }
    sumPieces(bf16);
  }
  tiles[op.getResult()] = result;
}
