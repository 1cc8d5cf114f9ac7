//===- TileMemory.cpp - tiles between global memory and a block ------------===//
//
// Rows go to shared memory by asynchronous copies of 16, 8 or 4 bytes, whatever
// divides a row; the copy itself writes zeros for rows and channels that are not
// there. Cells, and everything stored, pass between global memory and registers.
//
//===----------------------------------------------------------------------===//
#include "lowering/TileMemory.h"
#include "lowering/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

bool ejk::isMultipleOf(Value value, int64_t factor) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue() % factor == 0;
  Operation *def = value.getDefiningOp();
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(def))
    return isMultipleOf(def->getOperand(0), factor) && isMultipleOf(def->getOperand(1), factor);
  if (isa_and_nonnull<arith::MulIOp>(def))
    return isMultipleOf(def->getOperand(0), factor) || isMultipleOf(def->getOperand(1), factor);
  return false;
}

/// Channel `first` and the `count` behind it may reach beyond `channels`.
static bool mayReachBeyond(Value first, int64_t count, int64_t channels) {
  APInt constant;
  return !matchPattern(first, m_ConstantInt(&constant)) ||
         constant.getSExtValue() + count > channels;
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

void TileEmitter::barrier() {
  b.make<gpu::BarrierOp>();
  memory.noteBarrier();
}

/// What is read together is named together: a barrier for one is before all.
void TileEmitter::beforeRead(ArrayRef<SharedMemory::Range> ranges) {
  if (llvm::any_of(ranges, [&](auto &range) { return memory.readNeedsBarrier(range); }))
    barrier();
  for (const SharedMemory::Range &range : ranges)
    memory.noteRead(range);
}

void TileEmitter::beforeWrite(const SharedMemory::Range &range) {
  if (memory.writeNeedsBarrier(range))
    barrier();
  memory.noteWrite(range);
}

Value TileEmitter::sharedAt(const SharedMemory::Range &range) {
  return b.at(b.make<LLVM::AddressOfOp>(shared), b.getI8Type(), range.begin);
}

Placed TileEmitter::newShared(Type type) {
  Placed tile;
  tile.layout = LayoutAttr::get(b.getContext(), LayoutKind::shared, 0, 0);
  tile.type = type;
  tile.pitch = sharedPitch(type);
  tile.range = memory.allocate(sharedBytes(type));
  tile.address = sharedAt(tile.range);
  return tile;
}

//===----------------------------------------------------------------------===//
// Rows to shared memory
//===----------------------------------------------------------------------===//

/// The bytes that an asynchronous copy of `load`'s rows can move at a time: at
/// most 16; fewer than 4 where there is none such.
unsigned TileEmitter::copyWidth(LoadOp load) {
  const Rows &from = rows[load.getRows()];
  unsigned bytes = KernelBuilder::bytesOf(from.element);
  unsigned width = 16;
  while (width > bytes &&
         (from.channels * bytes % width != 0 || !isMultipleOf(load.getChannel(), width / bytes)))
    width /= 2;
  return width;
}

void TileEmitter::copyRows(LoadOp load, Value first, Value channel, Value address) {
  const Rows &from = rows[load.getRows()];
  auto type = cast<VectorType>(load.getType());
  bool isMatrix = type.getRank() == 2;
  int64_t columns = isMatrix ? type.getDimSize(1) : 1;
  unsigned bytes = KernelBuilder::bytesOf(from.element), width = copyWidth(load);
  unsigned count = width / bytes, perRow = columns / count;
  unsigned units = type.getDimSize(0) * perRow, threads = kernel.threads;
  bool checkChannels = isMatrix && mayReachBeyond(load.getChannel(), columns, from.channels);
  for (unsigned done = 0; done < units; done += threads) {
    Value unit = b.add(thread, done);
    Value active = units - done >= threads ? Value() : b.less(unit, units);
    b.onlyIf(active, [&] {
      Value row = b.div(unit, perRow), column = b.mul(b.rem(unit, perRow), count);
      Value memoryRow = b.add(first, b.wide(row));
      // Unsigned, so that rows before the first are not less.
      Value valid = b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, memoryRow, length);
      Value memoryColumn = b.add(channel, b.wide(column));
      if (checkChannels)
        valid = b.both(valid, b.less(memoryColumn, from.channels));
      Value to =
          b.at(address, b.getI8Type(), b.add(b.mul(row, sharedPitch(type)), b.mul(column, bytes)));
      Value offset = b.mul(memoryRow, from.stride);
      if (isMatrix)
        offset = b.add(offset, memoryColumn);
      auto source = [&]() -> Value { return b.at(from.base, from.element, offset); };
      if (width < 4) {
        b.store(b.loadIf(valid, from.element, source), to);
        return;
      }
      Value size = b.make<arith::SelectOp>(valid, b.i32(width), b.i32(0));
      b.make<NVVM::CpAsyncOp>(
          to, source(), width,
          width == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA, size);
    });
  }
}

void TileEmitter::emitLoad(LoadOp op) {
  if (staged.contains(op))
    return;
  if (layoutOf(op).getKind() == LayoutKind::lanes) {
    const Rows &from = rows[op.getRows()];
    tiles[op] =
        loadFrom(op.getType(), layoutOf(op),
                 gridOf(from, op.getFirst(), op.getChannel(), cast<VectorType>(op.getType())),
                 from.base, from.element);
    return;
  }
  Placed tile = newShared(op.getType());
  beforeWrite(tile.range);
  copyRows(op, wideIndex(op.getFirst()), wideIndex(op.getChannel()), tile.address);
  if (copyWidth(op) >= 4) {
    b.make<NVVM::CpAsyncCommitGroupOp>();
    waitForCopies();
  }
  tiles[op] = tile;
}

//===----------------------------------------------------------------------===//
// Registers and global memory
//===----------------------------------------------------------------------===//

TileGrid TileEmitter::gridOf(const Rows &place, Value first, Value channel, VectorType type) {
  bool isMatrix = type.getRank() == 2;
  TileGrid grid{wideIndex(first),     length,
                place.stride,         wideIndex(channel),
                std::nullopt,         place.channels % 2 == 0 && isMultipleOf(channel, 2),
                /*vectorIsRow=*/false};
  if (isMatrix && mayReachBeyond(channel, type.getDimSize(1), place.channels))
    grid.columnLimit = place.channels;
  return grid;
}

TileGrid TileEmitter::gridOf(const Cells &place, ValueRange offsets, Type part) {
  auto type = dyn_cast<VectorType>(part);
  if (!type)
    return {b.i64(0), {}, b.i64(1), b.i64(0), std::nullopt, false, false};
  bool isMatrix = type.getRank() == 2;
  int64_t columns = place.shape.back();
  Value zero = b.i64(0), column = offsets.back();
  TileGrid grid{isMatrix ? wideIndex(offsets[0]) : zero,
                {},
                b.i64(columns),
                wideIndex(column),
                std::nullopt,
                columns % 2 == 0 && isMultipleOf(column, 2),
                true};
  if (mayReachBeyond(column, type.getShape().back(), columns))
    grid.columnLimit = columns;
  if (isMatrix && mayReachBeyond(offsets[0], type.getDimSize(0), place.shape[0]))
    grid.rowLimit = b.i64(place.shape[0]);
  return grid;
}

/// What a thread has of a tile, by rows, each in runs of one or two neighbours.
SmallVector<TileEmitter::RowRuns> TileEmitter::runsOf(Type type, LayoutAttr layout,
                                                      const TileGrid &grid) {
  SmallVector<RowRuns> result;
  auto rowValid = [&](Value row) {
    // Unsigned, so that rows before the first are not less.
    return grid.rowLimit ? b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, row, grid.rowLimit)
                         : Value();
  };
  auto columnValid = [&](Value column) {
    return grid.columnLimit ? b.less(column, *grid.columnLimit) : Value();
  };
  if (layout.getKind() == LayoutKind::lanes) {
    int64_t size = lanesLength(type);
    for (unsigned i = 0; i < lanesSize(size); ++i) {
      Value number = b.add(lane, i * kWarpSize);
      Value valid = (i + 1) * kWarpSize > size ? b.less(number, size) : Value();
      Value row = grid.firstRow, column = grid.firstColumn;
      Value &along = grid.vectorIsRow ? column : row;
      along = b.add(along, b.wide(number));
      valid = b.both(valid, b.both(rowValid(row), columnValid(column)));
      Run run{{i}, 0, Value()};
      result.push_back({valid, b.add(b.mul(row, grid.stride), column), {run}});
    }
    return result;
  }
  Fragments f = Fragments::of(type, layout);
  Value firstOfThread = b.wide(firstRowOf(f));
  Value column = b.add(grid.firstColumn, b.wide(firstColumnOf(f)));
  for (unsigned m = 0; m < f.rowTiles(); ++m)
    for (unsigned half : {0, 1}) {
      Value row = b.add(b.add(grid.firstRow, firstOfThread), 16 * m + 8 * half);
      RowRuns runs{rowValid(row), b.add(b.mul(row, grid.stride), column), {}};
      for (unsigned n = 0; n < f.columnTiles(); ++n)
        for (unsigned i = 0; i < 2; i += grid.paired ? 2 : 1) {
          unsigned slot = f.index(m, n, 2 * half + i);
          SmallVector<unsigned> slots = {slot};
          if (grid.paired)
            slots.push_back(slot + 1);
          runs.runs.push_back({slots, int64_t(8 * n + i), columnValid(b.add(column, 8 * n + i))});
        }
      result.push_back(runs);
    }
  return result;
}

Placed TileEmitter::loadFrom(Type type, LayoutAttr layout, const TileGrid &grid, Value base,
                             Type element) {
  Placed tile;
  tile.layout = layout;
  tile.type = type;
  unsigned size = layout.getKind() == LayoutKind::lanes ? lanesSize(lanesLength(type))
                                                        : Fragments::of(type, layout).size();
  tile.elements.resize(size);
  for (const RowRuns &row : runsOf(type, layout, grid))
    for (const Run &run : row.runs) {
      Value loaded = b.loadIf(b.both(row.valid, run.valid),
                              KernelBuilder::withCount(element, run.slots.size()), [&] {
                                Value start = b.at(base, element, row.offset);
                                return b.at(start, element, run.offset);
                              });
      for (auto [slot, value] : llvm::zip(run.slots, b.unpack(loaded)))
        tile.elements[slot] = value;
    }
  return tile;
}

void TileEmitter::storeTo(const Placed &tile, const TileGrid &grid, Value base, Type element) {
  // Every warp has a vector; the first one stores it.
  Value leads = tile.layout.getKind() == LayoutKind::lanes ? b.equal(warp, 0) : Value();
  for (const RowRuns &row : runsOf(tile.type, tile.layout, grid))
    b.onlyIf(b.both(leads, row.valid), [&] {
      Value start = b.at(base, element, row.offset);
      for (const Run &run : row.runs)
        b.onlyIf(run.valid, [&] {
          auto values =
              llvm::map_to_vector(run.slots, [&](unsigned slot) { return tile.elements[slot]; });
          b.store(b.pack(values), b.at(start, element, run.offset));
        });
    });
}

void TileEmitter::emitStore(StoreOp op) {
  if (!rows.contains(op.getRows()))
    return; // nobody asks for it
  const Rows &to = rows[op.getRows()];
  auto type = cast<VectorType>(op.getTile().getType());
  storeTo(placed(op.getTile()), gridOf(to, op.getFirst(), op.getChannel(), type), to.base,
          to.element);
}

Value TileEmitter::cellBase(const Cells &place, Value index) {
  return b.at(place.base, place.element, b.mul(wideIndex(index), place.stride));
}

void TileEmitter::emitLoadCell(LoadCellOp op) {
  const Cells &from = cells[op.getCells()];
  Value base = cellBase(from, op.getIndex());
  if (!isa<VectorType>(op.getResult().getType())) {
    scalars.map(op.getResult(), b.load(from.element, base));
    return;
  }
  Type type = op.getResult().getType();
  tiles[op.getResult()] = loadFrom(type, layoutOf(op.getResult()),
                                   gridOf(from, op.getOffsets(), type), base, from.element);
}

void TileEmitter::emitStoreCell(StoreCellOp op) {
  if (!cells.contains(op.getCells()))
    return; // nobody asks for it
  const Cells &to = cells[op.getCells()];
  Value base = cellBase(to, op.getIndex());
  if (!isa<VectorType>(op.getTile().getType())) {
    b.onlyIf(b.equal(thread, 0), [&] { b.store(scalar(op.getTile()), base); });
    return;
  }
  storeTo(placed(op.getTile()), gridOf(to, op.getOffsets(), op.getTile().getType()), base,
          to.element);
}
