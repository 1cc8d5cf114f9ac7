//===- TileDot.cpp - products, and running sums as products ----------------===//
//
// A product's factors lie in shared memory, the left one perhaps in fragments, as
// its result does. One
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
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/DotOperands.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// A factor in shared memory as a lane reads it, once beforeRead was called for it. Across is
/// along the result's rows (of a left factor) or columns (of a right one); along is the other way.
struct TileEmitter::Operand {
  Value address; // of the first block's row that this lane names
  unsigned pitch;
  std::optional<PanelPlace> panels; // that row, instead, where it lies in panels
  bool rowsAcross;                  // the memory's rows run across
  bool transposes;                  // ldmatrix's .trans
};

/// `partSize`: of the parts across that warps have, one of which begins at `part`.
TileEmitter::Operand TileEmitter::operandOf(const Placed &tile, bool isLeft, bool rowsAcross,
                                            Value part, int64_t partSize) {
  bool columnsFirst = isLeft != rowsAcross;
  Value half = b.div(lane, 16), row, column;
  if (columnsFirst) {
    row = b.add(b.rem(lane, 8), b.mul(half, 8));
    column = b.mul(b.rem(b.div(lane, 8), 2), 8);
  } else {
    row = b.rem(lane, 16);
    column = b.mul(half, 8);
  }
  (rowsAcross ? row : column) = b.add(rowsAcross ? row : column, part);
  Operand operand{{}, tile.pitch, std::nullopt, rowsAcross, /*transposes=*/!rowsAcross};
  if (isPanels(tile.layout))
    operand.panels =
        panelPlace(tile, row, b.div(column, 8), !rowsAcross && !llvm::isPowerOf2_64(partSize));
  else
    operand.address =
        b.at(tile.address, b.getI8Type(), b.add(b.mul(row, tile.pitch), b.mul(column, 2)));
  return operand;
}

SmallVector<Value> TileEmitter::loadBlock(const Operand &operand, int64_t across, int64_t along) {
  int64_t row = operand.rowsAcross ? across : along, column = operand.rowsAcross ? along : across;
  Value address = operand.panels
                      ? operand.panels->at(b, row, column / 8)
                      : b.at(operand.address, b.getI8Type(), row * operand.pitch + column * 2);
  Value loaded = loadMatrices(address, operand.transposes);
  SmallVector<Value> words;
  for (int64_t i = 0; i < 4; ++i)
    words.push_back(b.make<LLVM::ExtractValueOp>(loaded, i));
  return words;
}

/// The four words of the 16×16 block of accumulators (m, 2·block) and (m, 2·block + 1) of a tile
/// of 16-bit numbers: those of a left factor, and of four matrices of `stmatrix`.
SmallVector<Value> TileEmitter::wordsOf(const Placed &tile, unsigned m, unsigned block) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  SmallVector<Value> words;
  for (unsigned n : {2 * block, 2 * block + 1})
    for (unsigned half : {0, 1}) {
      ValueRange pair = ValueRange(tile.elements).slice(f.index(m, n, 2 * half), 2);
      words.push_back(b.make<LLVM::BitcastOp>(b.getI32Type(), b.pack(pair)));
    }
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

TileEmitter::Factors TileEmitter::factorsOf(DotOp op, const Fragments &f) {
  VectorType lhsType = op.getLhs().getType();
  int64_t length = lhsType.getDimSize(op.getLhsTransposed() ? 0 : 1);
  if (f.transposed)
    return {op.getRhs(), op.getLhs(), !op.getRhsTransposed(), !op.getLhsTransposed(), length};
  return {op.getLhs(), op.getRhs(), op.getLhsTransposed(), op.getRhsTransposed(), length};
}

void TileEmitter::emitDot(DotOp op) {
  Placed result;
  result.type = op.getType();
  result.layout = layoutOf(op.getResult());
  Fragments f = Fragments::of(result.type, result.layout);
  Factors factors = factorsOf(op, f);
  if (isForWarpgroups(op, factors))
    return emitWarpgroupDot(op, factors);
  const Placed &acc = placed(op.getAcc());
  for (unsigned i = 0; i < f.size(); ++i)
    result.elements.push_back(element(acc, i));
  Placed left = placed(factors.left), right = placed(factors.right);
  bool inRegisters = isFragments(left.layout);
  beforeRead(inRegisters ? SmallVector<SharedMemory::Range>{right.range}
                         : SmallVector<SharedMemory::Range>{right.range, left.range});
  Operand lhs, rhs = operandOf(right, false, factors.rowsAcross(right, false), partColumn(f),
                               f.partColumns());
  if (!inRegisters)
    lhs = operandOf(left, true, factors.rowsAcross(left, true), partRow(f), 16);
  for (int64_t along = 0; along < factors.length; along += 16) {
    SmallVector<SmallVector<Value>> blocks;
    for (unsigned m = 0; m < f.rowTiles(); ++m)
      blocks.push_back(inRegisters ? wordsOf(left, m, along / 16)
                                   : loadBlock(lhs, f.rowOffset(2 * m), along));
    for (unsigned pair = 0; pair < f.columnTiles() / 2; ++pair) {
      SmallVector<Value> columns = loadBlock(rhs, 16 * pair, along);
      for (unsigned m = 0; m < f.rowTiles(); ++m)
        multiply(result.elements, f, m, pair, blocks[m], columns, getElementTypeOrSelf(right.type));
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
  uint32_t one; // the bits of 1
  /// Less a row, which has what this says of a column and its number.
  std::optional<int64_t> from;
  arith::CmpIPredicate inRow;
};

TileEmitter::Triangle TileEmitter::triangleOf(CumsumOp op, Type type) {
  uint32_t one = type.isBF16() ? 0x3F80 : 0x3C00;
  bool upper = op.getReverse(), strict = op.getExclusive();
  Value ones = b.i32(int32_t(one << 16 | one)), none = b.i32(0);
  // Of row g the numbers in columns 2t and 2t + 1.
  auto predicate = sideOfDiagonal(upper, strict);
  Value corner = none;
  for (unsigned i : {0, 1}) {
    Value kept = b.make<arith::CmpIOp>(predicate, b.add(b.mul(member, 2), i), group);
    Value word = b.make<arith::SelectOp>(kept, b.i32(int32_t(one << (16 * i))), none);
    corner = b.make<arith::OrIOp>(corner, word);
  }
  // a1: rows 8 to 15, columns 0 to 7; a2: the other way round.
  return {{corner, upper ? none : ones, upper ? ones : none, corner},
          ones,
          upper,
          one,
          op.getFrom(),
          predicate};
}

/// Of two ones or zeros of 16 bits each, less one where `mask` has bits.
static Value lessOne(KernelBuilder &b, Value word, Value mask, uint32_t one) {
  uint32_t lowest = one & -one, pair = one << 16 | one;
  Value isZero = b.make<arith::XOrIOp>(word, b.i32(int32_t(pair)));
  // A one's lowest bit, moved to the sign.
  Value sign = b.make<arith::MulIOp>(
      b.make<arith::AndIOp>(isZero, b.i32(int32_t(lowest << 16 | lowest))), b.i32(0x8000 / lowest));
  Value less = b.make<arith::OrIOp>(isZero, sign);
  Value kept = b.make<arith::AndIOp>(word, b.make<arith::XOrIOp>(mask, b.i32(-1)));
  return b.make<arith::OrIOp>(kept, b.make<arith::AndIOp>(less, mask));
}

/// The words of the triangle's 16×16 block beside accumulators m, from column `along` on.
SmallVector<Value> TileEmitter::wordsOf(const Triangle &triangle, const Fragments &f, unsigned m,
                                        int64_t along) {
  Value before = triangle.upper ? b.i32(0) : triangle.ones;
  Value behind = triangle.upper ? triangle.ones : b.i32(0);
  Value row = b.add(partRow(f), f.rowOffset(2 * m));
  Value onDiagonal = b.equal(row, along), isBefore = b.less(b.i32(along), row);
  Value off = b.make<arith::SelectOp>(isBefore, before, behind);
  SmallVector<Value> words = llvm::map_to_vector(triangle.diagonal, [&](Value word) -> Value {
    return b.make<arith::SelectOp>(onDiagonal, word, off);
  });
  if (!triangle.from)
    return words;
  // Words 0 and 1 are of columns 2t and 2t + 1, the others of those 8 further on.
  for (unsigned half : {0, 1}) {
    Value mask = b.i32(0);
    for (unsigned i : {0, 1}) {
      Value column = b.add(b.mul(member, 2), along + 8 * half + i);
      Value has = b.make<arith::CmpIOp>(triangle.inRow, column, b.i32(*triangle.from));
      Value bits = b.make<arith::SelectOp>(has, b.i32(int32_t(0xFFFFu << (16 * i))), b.i32(0));
      mask = b.make<arith::OrIOp>(mask, bits);
    }
    for (unsigned i : {0, 1})
      words[2 * half + i] = lessOne(b, words[2 * half + i], mask, triangle.one);
  }
  return words;
}

/// Whether groups of warps take `op`'s sums, from a triangle in shared memory.
static bool isByWarpgroups(CumsumOp op) {
  return hasWarpgroupSums(op.getType(), ejk::layoutOf(op.getResult()));
}

static Type summedType(CumsumOp op) {
  auto widened = op.getTile().getDefiningOp<arith::ExtFOp>();
  return widened ? getElementTypeOrSelf(widened.getIn().getType())
                 : BFloat16Type::get(op.getContext());
}

TileEmitter::TriangleKey TileEmitter::triangleKey(CumsumOp op, Type element) {
  return {op.getReverse(), op.getExclusive(), element.isBF16(),
          cast<VectorType>(op.getType()).getDimSize(0), op.getFrom().value_or(-1)};
}

/// Writes the triangles that the program's sums need, once.
void TileEmitter::writeTriangles() {
  program.walk([&](CumsumOp op) {
    if (!warpgroups || !isByWarpgroups(op))
      return;
    int64_t rows = cast<VectorType>(op.getType()).getDimSize(0);
    Type element = summedType(op);
    TriangleKey key = triangleKey(op, element);
    if (triangles.count(key))
      return;
    Placed panel = newShared(VectorType::get({rows, rows}, element),
                             LayoutAttr::get(b.getContext(), LayoutKind::panels, 0, 0));
    beforeWrite(panel.range);
    Placed ones;
    ones.type = panel.type;
    ones.layout = LayoutAttr::get(b.getContext(), LayoutKind::fragments, kWarpgroup, 1);
    ones.elements.assign(Fragments::of(ones.type, ones.layout).size(),
                         b.make<arith::ConstantOp>(b.getFloatAttr(element, 1.0)));
    auto constant = [&](double value) {
      return b.make<arith::ConstantOp>(b.getFloatAttr(element, value));
    };
    Placed less = ones;
    keepSide(ones, op.getReverse(), op.getExclusive(), constant(0.0));
    if (std::optional<int64_t> from = op.getFrom()) {
      // In the columns that row `from` has, a one less.
      less.elements.assign(less.elements.size(), constant(0.0));
      keepSide(less, op.getReverse(), op.getExclusive(), constant(-1.0));
      Fragments f = Fragments::of(ones.type, ones.layout);
      Value first = firstColumnOf(f);
      SmallVector<Value> has(2 * f.columnTiles());
      for (auto [i, here] : llvm::enumerate(has))
        here = b.make<arith::CmpIOp>(sideOfDiagonal(op.getReverse(), op.getExclusive()),
                                     b.add(first, Fragments::columnOffset(i)), b.i32(*from));
      f.forEachElement([&](unsigned slot, unsigned, unsigned column) {
        ones.elements[slot] =
            b.make<arith::SelectOp>(has[column], less.elements[slot], ones.elements[slot]);
      });
    }
    writePanels(ones, panel);
    triangles[key] = panel;
  });
}

/// result += triangle · piece, of a piece in shared memory.
void TileEmitter::addSums(Placed &result, const Placed &piece, const Triangle &triangle) {
  Fragments f = Fragments::of(result.type, result.layout);
  beforeRead(piece.range);
  Operand rhs =
      operandOf(piece, /*isLeft=*/false, /*rowsAcross=*/false, partColumn(f), f.partColumns());
  for (int64_t along = 0; along < f.rows; along += 16) {
    SmallVector<SmallVector<Value>> blocks;
    for (unsigned m = 0; m < f.rowTiles(); ++m)
      blocks.push_back(wordsOf(triangle, f, m, along));
    for (unsigned pair = 0; pair < f.columnTiles() / 2; ++pair) {
      SmallVector<Value> columns = loadBlock(rhs, 16 * pair, along);
      for (unsigned m = 0; m < f.rowTiles(); ++m)
        multiply(result.elements, f, m, pair, blocks[m], columns, getElementTypeOrSelf(piece.type));
    }
  }
}

/// The tile in shared memory that `op` sums up numbers of, if it was widened from there.
const Placed *TileEmitter::summedInShared(CumsumOp op) {
  auto widened = op.getTile().getDefiningOp<arith::ExtFOp>();
  auto convert = widened ? widened.getIn().getDefiningOp<ConvertOp>() : ConvertOp();
  auto loaded = convert ? tiles.find(convert.getTile()) : tiles.end();
  return loaded != tiles.end() && isInShared(loaded->second.layout) ? &loaded->second : nullptr;
}

/// `rest` rounded to `type`; what that leaves over stays.
Placed TileEmitter::takePiece(Placed &rest, Type type) {
  Placed rounded = rest;
  rounded.elements = roundPairs(rest.elements, type);
  for (auto [left, wide] : llvm::zip(rest.elements, widenPairs(rounded.elements)))
    left = b.make<arith::SubFOp>(left, wide);
  return rounded;
}

/// Of a matrix that is transposed, the sums along its stored rows: itself times a triangle.
void TileEmitter::emitTransposedCumsum(CumsumOp op) {
  Type element = summedType(op);
  const Placed &triangle = triangles.at(triangleKey(op, element));
  int64_t length = op.getType().getDimSize(0);
  Placed result;
  result.type = op.getType();
  result.layout = layoutOf(op.getResult());
  SmallVector<SharedMemory::Range> reads = {triangle.range};
  auto sum = [&](bool fromZero, const Placed *left, const Placed *inRegisters) {
    issueProduct(result, fromZero, length, triangle, /*rightAcross=*/true, left,
                 /*leftAcross=*/false,
                 [&](unsigned m, unsigned step) { return wordsOf(*inRegisters, m, step); });
    ++groupsIssued;
  };
  const Placed *inShared = summedInShared(op);
  if (inShared && isPanels(inShared->layout) && !isTransposed(inShared->layout)) {
    reads.push_back(inShared->range);
    beforeRead(reads);
    sum(/*fromZero=*/true, inShared, nullptr);
  } else if (auto widened = op.getTile().getDefiningOp<arith::ExtFOp>()) {
    Placed narrow = placed(widened.getIn());
    beforeRead(reads);
    sum(/*fromZero=*/true, nullptr, &narrow);
  } else {
    Placed rest = placed(op.getTile());
    beforeRead(reads);
    for (unsigned i = 0; i < kSumPieces; ++i) {
      Placed rounded = takePiece(rest, element);
      sum(/*fromZero=*/i == 0, nullptr, &rounded);
    }
  }
  result.group = groupsIssued;
  tiles[op.getResult()] = result;
  inFlight.push_back({op.getResult(), groupsIssued, reads});
}

/// Of an f32 three roundings to bf16, each of what the one before left over, are
/// summed up one after another; of a number that was widened, the one it was.
void TileEmitter::emitCumsum(CumsumOp op) {
  LayoutAttr layout = layoutOf(op.getResult());
  if (layout.getKind() == LayoutKind::lanes) {
    tiles[op.getResult()] = cumsumOfLanes(op);
    return;
  }
  if (isTransposed(layout))
    return emitTransposedCumsum(op);
  Placed rest = placed(op.getTile()), result = rest;
  std::fill(result.elements.begin(), result.elements.end(), b.f32(0.0));
  unsigned groupsBefore = groupsIssued;
  bool fromZero = true;
  SmallVector<SharedMemory::Range> reads;
  SmallVector<Placed> pieces;
  auto write = [&](const Placed &rounded, Type element) {
    Type type = VectorType::get(cast<VectorType>(rest.type).getShape(), element);
    bool inPanels = warpgroups && fitsPanels(type);
    pieces.push_back(newShared(
        type, inPanels ? LayoutAttr::get(b.getContext(), LayoutKind::panels, 0, 0) : LayoutAttr()));
    writeFragments(rounded, pieces.back());
  };
  // From a triangle in shared memory by groups of warps, or from words made here.
  auto sum = [&](const Placed &piece, Type element) {
    auto triangle = triangles.find(triangleKey(op, element));
    if (triangle == triangles.end() || !isPanels(piece.layout) ||
        !endsWithPanels(Fragments::of(rest.type, rest.layout).partColumns()))
      return addSums(result, piece, triangleOf(op, element));
    beforeRead({piece.range, triangle->second.range});
    issueProduct(result, fromZero, cast<VectorType>(rest.type).getDimSize(0), piece,
                 /*rightAcross=*/false, &triangle->second, /*leftAcross=*/true, nullptr);
    fromZero = false;
    ++groupsIssued;
    reads.push_back(piece.range);
  };
  auto sumPieces = [&](Type element) {
    for (const Placed &piece : pieces) {
      sum(piece, element);
      memory.release(piece.range);
    }
    pieces.clear();
  };
  // Of what groups of warps still sum up, one after another, the last is awaited.
  auto finish = [&] {
    tiles[op.getResult()] = result;
    if (groupsIssued == groupsBefore)
      return;
    tiles[op.getResult()].group = groupsIssued;
    inFlight.push_back({op.getResult(), groupsIssued, reads});
  };
  if (auto widened = op.getTile().getDefiningOp<arith::ExtFOp>()) {
    Type element = getElementTypeOrSelf(widened.getIn().getType());
    if (const Placed *inShared = summedInShared(op)) {
      sum(*inShared, element);
    } else {
      write(placed(widened.getIn()), element);
    }
    sumPieces(element);
    return finish();
  }
  Type bf16 = b.getBF16Type();
  for (unsigned i = 0; i < kSumPieces; ++i) {
    Placed rounded = takePiece(rest, bf16);
    // Together as far as that is free.
    if (!pieces.empty() && !fitsFreely(pieces.back().type, pieces.back().layout)) {
      sumPieces(bf16);
      finish();
      result = placed(op.getResult());
      groupsBefore = groupsIssued;
      reads.clear();
    }
    write(rounded, bf16);
  }
  sumPieces(bf16);
  finish();
}
