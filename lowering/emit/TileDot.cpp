//===- TileDot.cpp - matmuls by mma.sync, and cumsums as matmuls -----------===//
//
// Emits tile.dot with one warp per matmul, and tile.add_cumsum as a matmul with a triangular
// matrix of ones. (Matmuls by four warps: TileWarpgroup.cpp; of f32 operands: TileSplitDot.cpp.)
//
// Operand B lies in shared memory; operand A lies there or in fragments. One
// `mma.sync.m16n8k16` multiplies a 16×16 block of A by a 16×8 block of B. One `ldmatrix.x4`
// loads a 16×16 block: one block of A, or two adjacent blocks of B. Lane l passes the address
// of one row of 8 elements. For the block that starts at (r, c) in memory, that row starts at
//
//   row halves first:      (r + l mod 16,             c + 8 (l / 16))
//   column halves first:   (r + l mod 8 + 8 (l / 16), c + 8 (l / 8 mod 2))
//
// The four registers that `ldmatrix` returns are then, in order,
//
//   A      row halves first                  A's a0 a1 a2 a3
//   Aᵀ     column halves first, .trans       A's a0 a1 a2 a3
//   B      row halves first, .trans          b0 b1 of the left B, b0 b1 of the right
//   Bᵀ     column halves first               b0 b1 of the left B, b0 b1 of the right
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// What a lane needs to load blocks of an operand by `ldmatrix`. "Across" is along the result's
/// rows for A and along its columns for B; "along" is the K direction.
struct TileEmitter::LdmatrixOperand {
  Value address; // of this lane's row in the first block
  unsigned pitch;
  std::optional<SwizzledAddress> swizzled; // the same for a swizzled operand
  bool rowsAcross;
  bool transposes; // whether ldmatrix uses .trans
};

/// `part` is the first row or column of this warp's part of the result, and `partSize` the size of
/// the part.
TileEmitter::LdmatrixOperand TileEmitter::ldmatrixOperand(const Placed &tile, bool isLeft,
                                                          bool rowsAcross, Value part,
                                                          int64_t partSize) {
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
  LdmatrixOperand operand{{}, tile.pitch, std::nullopt, rowsAcross, /*transposes=*/!rowsAcross};
  if (isSwizzled(tile.layout))
    operand.swizzled =
        swizzledAddress(tile, row, b.div(column, 8), !rowsAcross && !llvm::isPowerOf2_64(partSize));
  else
    operand.address =
        b.at(tile.address, b.getI8Type(), b.add(b.mul(row, tile.pitch), b.mul(column, 2)));
  return operand;
}

SmallVector<Value> TileEmitter::loadBlock(const LdmatrixOperand &operand, int64_t across,
                                          int64_t along) {
  int64_t row = operand.rowsAcross ? across : along, column = operand.rowsAcross ? along : across;
  Value address = operand.swizzled
                      ? operand.swizzled->at(b, row, column / 8)
                      : b.at(operand.address, b.getI8Type(), row * operand.pitch + column * 2);
  Value loaded = loadMatrices(address, operand.transposes);
  SmallVector<Value> words;
  for (int64_t i = 0; i < 4; ++i)
    words.push_back(b.make<LLVM::ExtractValueOp>(loaded, i));
  return words;
}

/// The four words of the 16×16 block of accumulators (m, 2·block) and (m, 2·block + 1) of a 16-bit
/// tile, or of the 16×8 block (m, block) of an f32 tile. They are a block of operand A for a
/// matmul, and four matrices for `stmatrix`.
SmallVector<Value> TileEmitter::wordsOf(const Placed &tile, unsigned m, unsigned block) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  SmallVector<Value> words;
  if (tile.elements.front().getType().isF32()) {
    for (unsigned slot : kSlotsInTf32)
      words.push_back(
          b.make<LLVM::BitcastOp>(b.getI32Type(), tile.elements[f.index(m, block, slot)]));
    return words;
  }
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

/// Whether the `size` rows that start at `offset` in this warp's part are within `range`. `part` is the
/// part's first row.
Value TileEmitter::hasRowsOf(ArrayRef<int64_t> range, int64_t size, Value part, int64_t offset) {
  Value start = b.add(part, offset);
  return b.both(b.make<arith::CmpIOp>(arith::CmpIPredicate::sge, start, b.i32(range.front())),
                b.less(start, b.i32(range.back() - size + 1)));
}

/// `words` of an operand's block of `size` rows across the result, or zeros if these rows are not
/// within `range`.
SmallVector<Value> TileEmitter::zeroBeyond(SmallVector<Value> words, int64_t size, Value part,
                                           int64_t offset, ArrayRef<int64_t> range) {
  if (range.empty())
    return words;
  Value isIn = hasRowsOf(range, size, part, offset);
  for (Value &word : words)
    word = b.make<arith::SelectOp>(isIn, word, b.i32(0));
  return words;
}

/// Of a warp's blocks of 16 rows or columns, the numbers of those that some warp has within `range`:
/// block i of part p starts at p · `part` + `first`(i).
static SmallVector<unsigned> blocksWithin(ArrayRef<int64_t> range, unsigned blocks, int64_t parts,
                                          int64_t part, llvm::function_ref<int64_t(unsigned)> first) {
  return llvm::filter_to_vector(llvm::seq(blocks), [&](unsigned i) {
    return range.empty() || llvm::any_of(llvm::seq(parts), [&](int64_t p) {
             int64_t start = p * part + first(i);
             return range.front() <= start && start < range.back();
           });
  });
}

void TileEmitter::emitDot(DotOp op) {
  Placed result;
  result.type = op.getType();
  result.layout = layoutOf(op.getResult());
  Fragments f = Fragments::of(result.type, result.layout);
  MatmulOperands operands = MatmulOperands::of(op);
  if (op.getAlgorithm() && !op.isInTf32())
    return emitSplitDot(op, operands);
  if (isByWarpgroups(op))
    return emitWarpgroupDot(op, operands);
  const Placed &acc = placed(op.getAcc());
  for (unsigned i = 0; i < f.size(); ++i)
    result.elements.push_back(element(acc, i));
  Placed left = placed(operands.left), right = placed(operands.right);
  bool inRegisters = isFragments(left.layout);
  LdmatrixOperand lhs, rhs = ldmatrixOperand(right, false, operands.rowsAcross(right.layout, false),
                                             partColumn(f), f.partColumns());
  if (!inRegisters)
    lhs = ldmatrixOperand(left, true, operands.rowsAcross(left.layout, true), partRow(f), 16);
  auto firstRow = [&](unsigned m) { return f.rowOffset(2 * m); };
  auto firstColumn = [](unsigned pair) -> int64_t { return 16 * pair; };
  SmallVector<unsigned> rowBlocks =
      blocksWithin(operands.rows, f.rowTiles(), f.rowParts, 16, firstRow);
  SmallVector<unsigned> columnBlocks = blocksWithin(operands.columns, f.columnTiles() / 2,
                                                    f.columnParts, f.partColumns(), firstColumn);
  auto multiplyAll = [&](ArrayRef<int64_t> rows, ArrayRef<int64_t> columns) {
    for (int64_t along = operands.first; along < operands.last; along += 16) {
      SmallVector<SmallVector<Value>> blocks;
      for (unsigned m : rowBlocks)
        blocks.push_back(zeroBeyond(inRegisters ? wordsOf(left, m, along / 16)
                                                : loadBlock(lhs, firstRow(m), along),
                                    16, partRow(f), firstRow(m), rows));
      for (unsigned pair : columnBlocks) {
        SmallVector<Value> words = zeroBeyond(loadBlock(rhs, firstColumn(pair), along), 16,
                                              partColumn(f), firstColumn(pair), columns);
        for (auto [m, block] : llvm::zip(rowBlocks, blocks))
          multiply(result.elements, f, m, pair, block, words, getElementTypeOrSelf(right.type));
      }
    }
  };
  // Where a warp has one block, or none, the others go on at once.
  Value isIn;
  ArrayRef<int64_t> rows = operands.rows, columns = operands.columns;
  auto skip = [&](ArrayRef<int64_t> &range, int64_t parts, unsigned blocks, Value part, int64_t first) {
    if (!range.empty() && parts > 1 && blocks == 1) {
      Value has = hasRowsOf(range, 16, part, first);
      isIn = isIn ? b.both(isIn, has) : has;
    }
    if (parts == 1 || blocks == 1)
      range = {};
  };
  skip(rows, f.rowParts, rowBlocks.size(), partRow(f), firstRow(rowBlocks.front()));
  skip(columns, f.columnParts, columnBlocks.size(), partColumn(f), firstColumn(columnBlocks.front()));
  if (isIn) {
    SmallVector<Value> before = result.elements;
    auto branch = b.make<scf::IfOp>(ValueRange(before).getTypes(), isIn, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    multiplyAll(rows, columns);
    b.make<scf::YieldOp>(result.elements);
    b.setInsertionPointToEnd(branch.elseBlock());
    b.make<scf::YieldOp>(before);
    result.elements.assign(branch.getResults().begin(), branch.getResults().end());
  } else {
    multiplyAll(rows, columns);
  }
  tiles[op.getResult()] = result;
}

//===----------------------------------------------------------------------===//
// Running sums
//===----------------------------------------------------------------------===//

/// A triangular matrix of ones as operand A in registers: the four words of a 16×16 block on the
/// diagonal, and the word of two ones. A cumsum along rows is this matrix times the tile.
struct TileEmitter::Triangle {
  SmallVector<Value> diagonal;
  Value ones;
  bool upper;
  uint32_t one; // the bits of 1.0
  /// If set, this row is subtracted from every row of the matrix, so that the cumsum is relative to
  /// element `from`. Column c of that row is 1 if `inRow` holds for (c, from).
  std::optional<int64_t> from;
  arith::CmpIPredicate inRow;
};

TileEmitter::Triangle TileEmitter::triangleOf(AddCumsumOp op) {
  Type type = getElementTypeOrSelf(op.getTerm().getType());
  uint32_t one = type.isBF16() ? 0x3F80 : 0x3C00;
  bool upper = op.getReverse(), strict = op.getExclusive();
  Value ones = b.i32(int32_t(one << 16 | one)), none = b.i32(0);
  // Row g, columns 2t and 2t + 1.
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

/// Subtracts 1 from two 16-bit values, each 0 or 1, where `mask` is set.
static Value lessOne(KernelBuilder &b, Value word, Value mask, uint32_t one) {
  uint32_t lowest = one & -one, pair = one << 16 | one;
  Value isZero = b.make<arith::XOrIOp>(word, b.i32(int32_t(pair)));
  // Turns 1 into the sign bit: 0 - 1 = -1.
  Value sign = b.make<arith::MulIOp>(
      b.make<arith::AndIOp>(isZero, b.i32(int32_t(lowest << 16 | lowest))), b.i32(0x8000 / lowest));
  Value less = b.make<arith::OrIOp>(isZero, sign);
  Value kept = b.make<arith::AndIOp>(word, b.make<arith::XOrIOp>(mask, b.i32(-1)));
  return b.make<arith::OrIOp>(kept, b.make<arith::AndIOp>(less, mask));
}

/// The words of the triangle's 16×16 block in the rows of accumulators m that starts at column
/// `along`.
SmallVector<Value> TileEmitter::wordsOf(const Triangle &triangle, const Fragments &f, unsigned m,
                                        int64_t along) {
  Value before = triangle.upper ? b.i32(0) : triangle.ones;
  Value after = triangle.upper ? triangle.ones : b.i32(0);
  Value row = b.add(partRow(f), f.rowOffset(2 * m));
  Value onDiagonal = b.equal(row, along), isBefore = b.less(b.i32(along), row);
  Value off = b.make<arith::SelectOp>(isBefore, before, after);
  SmallVector<Value> words = llvm::map_to_vector(triangle.diagonal, [&](Value word) -> Value {
    return b.make<arith::SelectOp>(onDiagonal, word, off);
  });
  if (!triangle.from)
    return words;
  // Words 0 and 1 cover columns 2t and 2t + 1; words 2 and 3 the columns 8 to the right.
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

/// Stores the triangle to shared memory.
void TileEmitter::emitTriangle(TriangleOp op) {
  Placed stored = sharedFor(op);
  Type element = getElementTypeOrSelf(op.getType());
  auto constant = [&](double value) {
    return b.make<arith::ConstantOp>(b.getFloatAttr(element, value));
  };
  Placed ones;
  ones.type = stored.type;
  ones.layout = LayoutAttr::get(b.getContext(), LayoutKind::fragments, kWarpgroup, 1);
  Fragments f = Fragments::of(ones.type, ones.layout);
  ones.elements.assign(f.size(), constant(1.0));
  Placed less = ones;
  maskSide(ones, op.getReverse(), op.getExclusive(), constant(0.0));
  if (std::optional<int64_t> from = op.getFrom()) {
    // Subtract row `from`, which has ones in these columns.
    less.elements.assign(less.elements.size(), constant(0.0));
    maskSide(less, op.getReverse(), op.getExclusive(), constant(-1.0));
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
  writeSwizzled(ones, stored);
  tiles[op] = stored;
}

/// result += triangle · term, for a term in shared memory.
void TileEmitter::addSums(Placed &result, const Placed &term, const Triangle &triangle) {
  Fragments f = Fragments::of(result.type, result.layout);
  LdmatrixOperand rhs =
      ldmatrixOperand(term, /*isLeft=*/false, /*rowsAcross=*/false, partColumn(f), f.partColumns());
  for (int64_t along = 0; along < f.rows; along += 16) {
    SmallVector<SmallVector<Value>> blocks;
    for (unsigned m = 0; m < f.rowTiles(); ++m)
      blocks.push_back(wordsOf(triangle, f, m, along));
    for (unsigned pair = 0; pair < f.columnTiles() / 2; ++pair) {
      SmallVector<Value> columns = loadBlock(rhs, 16 * pair, along);
      for (unsigned m = 0; m < f.rowTiles(); ++m)
        multiply(result.elements, f, m, pair, blocks[m], columns, getElementTypeOrSelf(term.type));
    }
  }
}

/// Splits off the next 16-bit term of an f32: returns `rest` rounded to `type` and leaves the
/// remainder in `rest`.
Placed TileEmitter::splitTerm(Placed &rest, Type type) {
  Placed rounded = rest;
  rounded.elements = roundPairs(rest.elements, type);
  for (auto [left, wide] : llvm::zip(rest.elements, widenPairs(rounded.elements)))
    left = b.make<arith::SubFOp>(left, wide);
  return rounded;
}

void TileEmitter::emitSplitTerm(SplitTermOp op) {
  Placed rest = placed(op.getTile());
  Placed term = splitTerm(rest, getElementTypeOrSelf(op.getTerm().getType()));
  term.type = op.getTerm().getType();
  tiles[op.getTerm()] = term;
  tiles[op.getRest()] = rest;
}

/// Warpgroups read the triangle from shared memory; single warps build it in registers.
void TileEmitter::emitAddCumsum(AddCumsumOp op) {
  Placed term = placed(op.getTerm()), result;
  LayoutAttr layout = layoutOf(op);
  if (!op.getTriangle()) {
    result = placed(op.getAcc());
    if (result.elements.size() == 1)
      result = repeated(result, layout);
    result.type = op.getType();
    addSums(result, term, triangleOf(op));
    tiles[op] = result;
    return;
  }
  InFlight sums{op, groupsIssued + 1};
  bool fromZero = matchPattern(op.getAcc(), m_Constant());
  if (!fromZero)
    result = accumulatorsFor(op.getAcc(), layout, sums);
  result.type = op.getType();
  result.layout = layout;
  issueMatmul(result, fromZero, {0, cast<VectorType>(op.getType()).getDimSize(0)}, term,
              /*rightAcross=*/false, &placed(op.getTriangle()), /*leftAcross=*/true, nullptr);
  result.group = ++groupsIssued;
  tiles[op] = result;
  inFlight.push_back(std::move(sums));
}

/// Cumsum of a matrix stored transposed, along its stored rows: the tile times a triangle. An f32
/// tile is split into three bf16 terms.
void TileEmitter::emitCumsum(CumsumOp op) {
  if (layoutOf(op).getKind() == LayoutKind::lanes) {
    tiles[op] = cumsumOfLanes(op);
    return;
  }
  const Placed &triangle = placed(op.getTriangle());
  int64_t length = op.getType().getDimSize(0);
  Placed result;
  result.type = op.getType();
  result.layout = layoutOf(op);
  SmallVector<Value> registers;
  auto sum = [&](bool fromZero, const Placed *left, const Placed *inRegisters) {
    registers.append(issueMatmul(
        result, fromZero, {0, length}, triangle, /*rightAcross=*/true, left, /*leftAcross=*/false,
        [&](unsigned m, unsigned step) { return wordsOf(*inRegisters, m, step); }));
    ++groupsIssued;
  };
  Value inShared = summedInShared(op);
  LayoutAttr layout = inShared ? layoutOf(inShared) : LayoutAttr();
  if (isSwizzled(layout) && !isTransposed(layout)) {
    sum(/*fromZero=*/true, &placed(inShared), nullptr);
  } else if (auto widened = op.getTile().getDefiningOp<arith::ExtFOp>()) {
    sum(/*fromZero=*/true, nullptr, &placed(widened.getIn()));
  } else {
    Placed rest = placed(op.getTile());
    for (unsigned i = 0; i < kSplitTerms; ++i) {
      Placed rounded = splitTerm(rest, getElementTypeOrSelf(triangle.type));
      sum(/*fromZero=*/i == 0, nullptr, &rounded);
    }
  }
  result.group = groupsIssued;
  tiles[op] = result;
  inFlight.push_back({op, groupsIssued, registers});
}
