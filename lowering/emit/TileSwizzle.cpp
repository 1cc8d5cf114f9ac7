//===- TileSwizzle.cpp - tiles in panels of shared memory -------------------===//
//
// A panel is 64 columns of 16 bits wide; in its row r the 16 bytes of columns 8p
// to 8p+7 stand at place p xor (r mod 8). `ldmatrix` and `stmatrix` move four
// blocks of 8×8 numbers at a time, whose rows are such pieces: lane l names row
// l mod 8 of block l / 8. Blocks 0 and 1 are those above each other in a thread's
// fragments, 2 and 3 the ones to their right; where the panels have the transpose
// of what the fragments have, blocks 0 and 1 lie side by side there, and each is
// transposed on its way.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static constexpr int64_t kPieceColumns = 8, kPieceBytes = 16;
static constexpr int64_t kPieces = kPanelColumns / kPieceColumns;

Value PanelPlace::at(KernelBuilder &b, int64_t rows, int64_t pieces) const {
  if (anywhere) {
    Value number = b.add(anywhere, pieces);
    Value inPanel = b.make<arith::XOrIOp>(b.rem(number, kPieces), pattern);
    Value offset = b.add(b.mul(b.div(number, kPieces), panelBytes), b.mul(inPanel, kPieceBytes));
    return b.at(b.at(row, b.getI8Type(), offset), b.getI8Type(), rows * kPanelPitch);
  }
  Value swizzled = piece;
  if (int64_t inPanel = pieces % kPieces)
    swizzled = b.make<arith::XOrIOp>(piece, b.i32(inPanel * kPieceBytes));
  Value address = b.at(row, b.getI8Type(), swizzled);
  return b.at(address, b.getI8Type(), rows * kPanelPitch + pieces / kPieces * panelBytes);
}

/// The rows of what is stored.
static int64_t storedRows(const Placed &shared) {
  return cast<VectorType>(shared.type).getDimSize(isTransposed(shared.layout));
}

PanelPlace TileEmitter::panelPlace(const Placed &shared, Value row, Value piece, bool isAnywhere) {
  PanelPlace place;
  place.panelBytes = storedRows(shared) * kPanelPitch;
  if (isAnywhere) {
    place.row = b.at(shared.address, b.getI8Type(), b.mul(row, kPanelPitch));
    place.anywhere = piece;
    place.pattern = b.rem(row, kPieces);
    return place;
  }
  Value offset = b.add(b.mul(row, kPanelPitch), b.mul(b.div(piece, kPieces), place.panelBytes));
  place.row = b.at(shared.address, b.getI8Type(), offset);
  Value swizzled = b.make<arith::XOrIOp>(b.rem(piece, kPieces), b.rem(row, kPieces));
  place.piece = b.mul(swizzled, kPieceBytes);
  return place;
}

Value TileEmitter::panelElement(const Placed &shared, Value row, Value column) {
  Value piece = panelPlace(shared, row, b.div(column, kPieceColumns)).at(b, 0, 0);
  return b.at(piece, b.getI8Type(), b.mul(b.rem(column, kPieceColumns), 2));
}

/// Calls `visit` for each 16×16 block of a thread's fragments, the one of
/// accumulators (m, 2·pair) and (m, 2·pair + 1), with what the lane names of it.
void TileEmitter::forEachPanelBlock(const Fragments &f, const Placed &shared,
                                    llvm::function_ref<void(unsigned, unsigned, Value)> visit) {
  bool transposes = f.transposed != isTransposed(shared.layout);
  Value low = b.rem(b.div(lane, 8), 2), high = b.div(lane, 16);
  Value inRow = b.add(b.rem(lane, 8), b.mul(transposes ? high : low, 8));
  Value inPiece = transposes ? low : high;
  Value row = partRow(f), column = partColumn(f);
  if (transposes)
    std::swap(row, column);
  Value firstRow = b.add(row, inRow), firstPiece = b.add(b.div(column, kPieceColumns), inPiece);
  // A warp's part of columns may begin in the middle of a panel, and not end there.
  PanelPlace place = panelPlace(shared, firstRow, firstPiece,
                                !transposes && !llvm::isPowerOf2_64(f.partColumns()));
  for (unsigned m = 0; m < f.rowTiles(); ++m)
    for (unsigned pair = 0; pair < f.columnTiles() / 2; ++pair) {
      int64_t rows = f.rowOffset(2 * m), columns = 16 * pair;
      if (transposes)
        std::swap(rows, columns);
      visit(m, pair, place.at(b, rows, columns / kPieceColumns));
    }
}

void TileEmitter::writePanels(const Placed &tile, const Placed &shared) {
  Fragments f = Fragments::of(tile.type, tile.layout);
  bool transposes = f.transposed != isTransposed(shared.layout);
  beforeWrite(shared.range);
  forEachPanelBlock(f, shared, [&](unsigned m, unsigned pair, Value address) {
    b.make<NVVM::StMatrixOp>(
        address, wordsOf(tile, m, pair), transposes ? NVVM::MMALayout::col : NVVM::MMALayout::row,
        NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
  });
}

/// Four words of `ldmatrix`.
Value TileEmitter::loadMatrices(Value address, bool transposes) {
  Type word = b.getI32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {word, word, word, word});
  return b.make<NVVM::LdMatrixOp>(
      type, address, 4, transposes ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
}

Placed TileEmitter::fragmentsFromPanels(const Placed &shared, LayoutAttr layout) {
  Placed tile;
  tile.layout = layout;
  tile.type = shared.type;
  Fragments f = Fragments::of(shared.type, layout);
  tile.elements.resize(f.size());
  beforeRead(shared.range);
  bool transposes = f.transposed != isTransposed(shared.layout);
  forEachPanelBlock(f, shared, [&](unsigned m, unsigned pair, Value address) {
    llvm::copy(blockFromPanels(getElementTypeOrSelf(shared.type), address, transposes),
               tile.elements.begin() + f.index(m, 2 * pair, 0));
  });
  return tile;
}

/// The eight elements of accumulators (m, 2·pair) and (m, 2·pair + 1), one behind the other.
SmallVector<Value> TileEmitter::blockFromPanels(Type element, Value address, bool transposes) {
  Value loaded = loadMatrices(address, transposes);
  SmallVector<Value> elements;
  for (unsigned i = 0; i < 4; ++i) {
    Value word = b.make<LLVM::ExtractValueOp>(loaded, int64_t(i));
    Value two = b.make<LLVM::BitcastOp>(VectorType::get({2}, element), word);
    elements.append({b.extract(two, 0), b.extract(two, 1)});
  }
  return elements;
}

/// A tile's rows from panels to memory, 16 bytes at a time.
void TileEmitter::storePanels(const Placed &tile, const Rows &to, StoreOp op) {
  auto type = cast<VectorType>(tile.type);
  beforeRead(tile.range);
  asked.push_back({Value(), tile.range});
  int64_t perRow = type.getDimSize(1) / kPieceColumns;
  unsigned units = type.getDimSize(0) * perRow, threads = workers;
  auto piece = VectorType::get({kPieceColumns}, type.getElementType());
  Value first = wideIndex(op.getFirst()), channel = wideIndex(op.getChannel());
  RowSpan span = rowsWithin(to, first, type.getDimSize(0));
  // As for copies: a thread's pieces are of one column where that comes out even.
  bool oneColumn = threads % perRow == 0 && (threads / perRow) % 8 == 0;
  auto placeOf = [&](Value row, Value number) {
    Value memoryColumn = b.add(channel, b.wide(b.mul(number, kPieceColumns)));
    Value offset = b.add(b.mul(b.add(first, b.wide(row)), to.stride), memoryColumn);
    return std::make_tuple(panelPlace(tile, row, number).at(b, 0, 0),
                           b.at(to.base, to.element, offset), b.less(memoryColumn, to.channels));
  };
  Value row0 = b.div(thread, perRow);
  auto [from0, target0, exists0] = placeOf(row0, b.rem(thread, perRow));
  for (unsigned done = 0; done < units; done += threads) {
    Value unit = b.add(thread, done), row = row0, from = from0, target = target0, exists = exists0;
    if (done && oneColumn) {
      int64_t ahead = done / perRow;
      row = b.add(row0, ahead);
      from = b.at(from0, b.getI8Type(), ahead * kPanelPitch);
      target = b.at(target0, to.element, b.mul(to.stride, ahead));
    } else if (done) {
      row = b.div(unit, perRow);
      std::tie(from, target, exists) = placeOf(row, b.rem(unit, perRow));
    }
    Value valid = b.both(span.has(b, row), exists);
    if (units - done < threads)
      valid = b.both(valid, b.less(unit, units));
    b.onlyIf(valid, [&] { b.store(b.load(piece, from), target); });
  }
}
