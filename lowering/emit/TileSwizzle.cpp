//===- TileSwizzle.cpp - 128-byte-swizzled tiles in shared memory ----------===//
//
// Loads and stores tiles in the layout `swizzled`: blocks of 64 columns of 16-bit elements,
// one after another, each with rows of 128 bytes. In row r, the 16-byte segment of columns
// 8p to 8p+7 is stored at position p xor (r mod 8). This is the 128-byte swizzle of TMA and
// `wgmma`; it avoids bank conflicts. A block of f32 elements has 32 columns, and segment 2p + h
// those of 8p to 8p+7 that are h mod 2; as TMA writes it (`swizzled_words`), segment p has columns
// 4p to 4p+3.
//
// `ldmatrix` and `stmatrix` move four 8×8 blocks at a time, whose rows are segments: lane l
// passes the address of row l mod 8 of block l / 8. In a thread's fragments, blocks 0 and 1
// lie one above the other, and blocks 2 and 3 to their right. If shared memory has the
// transpose, blocks 0 and 1 lie side by side there, and `.trans` transposes each. Of f32, a block
// is 8×4, of which each lane has one element; it cannot be transposed.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static constexpr int64_t kSegmentColumns = 8; // of 16 bits
static constexpr int64_t kSegments = kSwizzledColumns / kSegmentColumns;

Value SwizzledAddress::at(KernelBuilder &b, int64_t rows, int64_t segments) const {
  if (anywhere) {
    Value number = b.add(anywhere, segments);
    Value inSwizzled = b.make<arith::XOrIOp>(b.rem(number, kSegments), pattern);
    Value offset =
        b.add(b.mul(b.div(number, kSegments), columnBlockBytes), b.mul(inSwizzled, kSegmentBytes));
    return b.at(b.at(row, b.getI8Type(), offset), b.getI8Type(), rows * kSwizzledPitch);
  }
  Value swizzled = segment;
  if (int64_t inSwizzled = segments % kSegments)
    swizzled = b.make<arith::XOrIOp>(segment, b.i32(inSwizzled * kSegmentBytes));
  Value address = b.at(row, b.getI8Type(), swizzled);
  return b.at(address, b.getI8Type(),
              rows * kSwizzledPitch + segments / kSegments * columnBlockBytes);
}

/// The number of rows in stored orientation.
static int64_t storedRows(const Placed &shared) {
  return cast<VectorType>(shared.type).getDimSize(isTransposed(shared.layout));
}

SwizzledAddress TileEmitter::swizzledAddress(const Placed &shared, Value row, Value segment,
                                             bool isAnywhere) {
  SwizzledAddress place;
  place.columnBlockBytes = storedRows(shared) * kSwizzledPitch;
  if (isAnywhere) {
    place.row = b.at(shared.address, b.getI8Type(), b.mul(row, kSwizzledPitch));
    place.anywhere = segment;
    place.pattern = b.rem(row, kSegments);
    return place;
  }
  Value offset =
      b.add(b.mul(row, kSwizzledPitch), b.mul(b.div(segment, kSegments), place.columnBlockBytes));
  place.row = b.at(shared.address, b.getI8Type(), offset);
  Value swizzled = b.make<arith::XOrIOp>(b.rem(segment, kSegments), b.rem(row, kSegments));
  place.segment = b.mul(swizzled, kSegmentBytes);
  return place;
}

/// The columns of a segment.
static int64_t segmentColumns(const Placed &shared) {
  return kSegmentBytes / KernelBuilder::bytesOf(getElementTypeOrSelf(shared.type));
}

Value TileEmitter::swizzledElement(const Placed &shared, Value row, Value column) {
  int64_t inOne = segmentColumns(shared);
  Value segment = swizzledAddress(shared, row, b.div(column, inOne)).at(b, 0, 0);
  return b.at(segment, b.getI8Type(), b.mul(b.rem(column, inOne), kSegmentBytes / inOne));
}

/// Calls `visit` for each four blocks of a thread's fragments, with the address that this lane
/// passes: accumulators (m, 2·number) and (m, 2·number + 1) of 16 bits, or (m, number) of f32.
void TileEmitter::forEachSwizzledBlock(const Fragments &f, const Placed &shared,
                                       llvm::function_ref<void(unsigned, unsigned, Value)> visit) {
  bool transposes = f.transposed != isTransposed(shared.layout);
  int64_t inOne = segmentColumns(shared);
  assert(!transposes || inOne == kSegmentColumns);
  Value low = b.rem(b.div(lane, 8), 2), high = b.div(lane, 16);
  Value inRow = b.add(b.rem(lane, 8), b.mul(transposes ? high : low, 8));
  Value inSegment = transposes ? low : high;
  Value row = partRow(f), column = partColumn(f);
  if (transposes)
    std::swap(row, column);
  Value firstRow = b.add(row, inRow), firstSegment = b.add(b.div(column, inOne), inSegment);
  // A warp's columns may start or end inside a 64-column block. Then segments can carry.
  SwizzledAddress place = swizzledAddress(shared, firstRow, firstSegment,
                                          !transposes && !llvm::isPowerOf2_64(f.partColumns()));
  for (unsigned m = 0; m < f.rowTiles(); ++m)
    for (unsigned number = 0; number < f.partColumns() / (2 * inOne); ++number) {
      int64_t rows = f.rowOffset(2 * m), columns = 2 * inOne * number;
      if (transposes)
        std::swap(rows, columns);
      visit(m, number, place.at(b, rows, columns / inOne));
    }
}

void TileEmitter::writeSwizzled(const Placed &tile, const Placed &shared) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  bool transposes = f.transposed != isTransposed(shared.layout);
  forEachSwizzledBlock(f, shared, [&](unsigned m, unsigned number, Value address) {
    b.make<NVVM::StMatrixOp>(
        address, wordsOf(tile, m, number), transposes ? NVVM::MMALayout::col : NVVM::MMALayout::row,
        NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
  });
}

/// `ldmatrix.x4`: four words.
Value TileEmitter::loadMatrices(Value address, bool transposes) {
  Type word = b.getI32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {word, word, word, word});
  return b.make<NVVM::LdMatrixOp>(
      type, address, 4, transposes ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
}

void TileEmitter::loadFromSwizzled(const Fragments &f, const Placed &shared, Placed &tile) {
  bool transposes = f.transposed != isTransposed(shared.layout);
  Type element = getElementTypeOrSelf(shared.type);
  forEachSwizzledBlock(f, shared, [&](unsigned m, unsigned number, Value address) {
    if (!element.isF32()) {
      llvm::copy(blockFromSwizzled(element, address, transposes),
                 tile.elements.begin() + f.index(m, 2 * number, 0));
      return;
    }
    Value loaded = loadMatrices(address, /*transposes=*/false);
    for (auto [i, slot] : llvm::enumerate(kSlotsInTf32))
      tile.elements[f.index(m, number, slot)] =
          b.make<arith::BitcastOp>(element, b.make<LLVM::ExtractValueOp>(loaded, int64_t(i)));
  });
}

/// Loads f32 rows, two adjacent elements at a time or, if the fragments are transposed, one. The
/// rows that a thread reads are every eighth, or 2·member and 2·member + 1 of every eight, so that
/// the swizzle takes few addresses.
void TileEmitter::loadFromWords(const Fragments &f, const Placed &shared, Placed &tile) {
  Type element = getElementTypeOrSelf(shared.type);
  Value row = firstRowOf(f), column = firstColumnOf(f);
  if (f.transposed)
    std::swap(row, column);
  int64_t columnBlockBytes = storedRows(shared) * kSwizzledPitch, inBlock = blockColumns(element);
  // The distances of a thread's element within eight rows and a block of columns, whose addresses
  // are computed once.
  llvm::DenseMap<std::pair<int64_t, int64_t>, Value> starts;
  unsigned count = f.transposed ? 1 : 2;
  f.forEachElement([&](unsigned slot, unsigned rowNumber, unsigned columnNumber) {
    if (slot % count)
      return;
    int64_t r = f.rowOffset(rowNumber), c = Fragments::columnOffset(columnNumber);
    if (f.transposed)
      std::swap(r, c);
    Value &start = starts[{r % kSegments, c % inBlock}];
    if (!start)
      start = swizzledElement(shared, b.add(row, r % kSegments), b.add(column, c % inBlock));
    int64_t offset = r / kSegments * kSegments * kSwizzledPitch + c / inBlock * columnBlockBytes;
    Value loaded =
        b.load(KernelBuilder::withCount(element, count), b.at(start, b.getI8Type(), offset));
    llvm::copy(b.unpack(loaded), tile.elements.begin() + slot);
  });
}

/// The eight elements of accumulators (m, 2·pair) and (m, 2·pair + 1), in order.
SmallVector<Value> TileEmitter::blockFromSwizzled(Type element, Value address, bool transposes) {
  Value loaded = loadMatrices(address, transposes);
  SmallVector<Value> elements;
  for (unsigned i = 0; i < 4; ++i) {
    Value word = b.make<LLVM::ExtractValueOp>(loaded, int64_t(i));
    Value two = b.make<LLVM::BitcastOp>(VectorType::get({2}, element), word);
    elements.append({b.extract(two, 0), b.extract(two, 1)});
  }
  return elements;
}

/// Stores a swizzled tile to global memory by threads, 16 bytes at a time.
void TileEmitter::storeSwizzled(const Placed &tile, const Rows &to, StoreOp op) {
  auto type = cast<VectorType>(tile.type);
  int64_t perRow = type.getDimSize(1) / kSegmentColumns;
  unsigned units = type.getDimSize(0) * perRow, threads = workers;
  auto segment = VectorType::get({kSegmentColumns}, type.getElementType());
  Value first = wideIndex(op.getFirst()), channel = wideIndex(op.getChannel());
  RowSpan span = rowsWithin(to, first, type.getDimSize(0));
  // As in copyRows: a thread's segments lie in one column if the division is exact.
  bool oneColumn = threads % perRow == 0 && (threads / perRow) % 8 == 0;
  auto placeOf = [&](Value row, Value number) {
    Value memoryColumn = b.add(channel, b.wide(b.mul(number, kSegmentColumns)));
    Value offset = b.add(b.mul(b.add(first, b.wide(row)), to.stride), memoryColumn);
    return std::make_tuple(swizzledAddress(tile, row, number).at(b, 0, 0),
                           b.at(to.base, to.element, offset), b.less(memoryColumn, to.channels));
  };
  Value row0 = b.div(thread, perRow);
  auto [from0, target0, exists0] = placeOf(row0, b.rem(thread, perRow));
  for (unsigned done = 0; done < units; done += threads) {
    Value unit = b.add(thread, done), row = row0, from = from0, target = target0, exists = exists0;
    if (done && oneColumn) {
      int64_t ahead = done / perRow;
      row = b.add(row0, ahead);
      from = b.at(from0, b.getI8Type(), ahead * kSwizzledPitch);
      target = b.at(target0, to.element, b.mul(to.stride, ahead));
    } else if (done) {
      row = b.div(unit, perRow);
      std::tie(from, target, exists) = placeOf(row, b.rem(unit, perRow));
    }
    Value valid = b.both(span.has(b, row), exists);
    if (units - done < threads)
      valid = b.both(valid, b.less(unit, units));
    b.onlyIf(valid, [&] { b.store(b.load(segment, from), target); });
  }
}
