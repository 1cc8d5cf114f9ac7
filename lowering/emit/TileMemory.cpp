//===- TileMemory.cpp - tiles between global memory and a block ------------===//
//
// Emits loads and stores of tiles, barriers and fences.
//
// Rows go to shared memory by `cp.async` of 16, 8 or 4 bytes, whatever divides a row. The copy
// itself writes zeros for rows and channels that do not exist. (Rows by TMA: TileTma.cpp.) State
// slots, and tiles in registers, move between global memory and registers.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileMemory.h"
#include "lowering/emit/TileEmitter.h"
#include "lowering/layout/Alignment.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

bool ejk::mayReachBeyond(Value first, int64_t count, int64_t channels) {
  APInt constant;
  return !matchPattern(first, m_ConstantInt(&constant)) ||
         constant.getSExtValue() + count > channels;
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// A barrier of all threads; with a condition, returns whether it holds in all of them.
Value TileEmitter::barrier(Value everywhere) {
  Value number, count, all;
  if (namedBarrier) {
    number = b.i32(namedBarrier);
    count = b.i32(workers);
  }
  if (everywhere) {
    Value word = b.make<arith::ExtUIOp>(b.getI32Type(), everywhere);
    auto kind = NVVM::BarrierReductionAttr::get(b.getContext(), NVVM::BarrierReduction::AND);
    // Upstream's op can reduce only at barrier 0.
    if (namedBarrier)
      all = callAsm("{\n\t.reg .pred all;\n\tsetp.ne.b32 all, $3, 0;\n\t"
                    "barrier.cta.red.and.pred all, $1, $2, all;\n\tselp.b32 $0, 1, 0, all;\n\t}",
                    "=r,r,r,r,~{memory}", {number, count, word}, b.getI32Type());
    else
      all = b.make<NVVM::BarrierOp>(b.getI32Type(), Value(), Value(), kind, word).getRes();
    all = b.make<arith::CmpIOp>(arith::CmpIPredicate::ne, all, b.i32(0));
  } else if (namedBarrier) {
    b.make<NVVM::BarrierOp>(TypeRange(), number, count, NVVM::BarrierReductionAttr(), Value());
  } else {
    b.make<gpu::BarrierOp>();
  }
  return all;
}

/// Makes this thread's stores to shared memory visible to `wgmma` and TMA after the next barrier.
void TileEmitter::fenceForMatmuls() {
  callAsm("fence.proxy.async.shared::cta;", "~{memory}", {}, {});
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

Value TileEmitter::sharedAt(int64_t place) {
  return b.at(b.make<LLVM::AddressOfOp>(shared), b.getI8Type(), place);
}

/// A tile in its place, which in a double buffer depends on `parity`.
Placed TileEmitter::inBuffer(Type type, LayoutAttr layout, const Parity &parity) {
  Placed tile;
  tile.layout = layout;
  tile.type = type;
  tile.pitch = sharedPitch(type);
  if (!layout.isDoubleBuffered()) {
    tile.address = sharedAt(layout.getPlace());
    return tile;
  }
  // Offsets are never negative, because only then can hardware fold constants into addresses.
  int64_t low = std::min(layout.getPlace(), layout.getOddPlace());
  int64_t distance = std::max(layout.getPlace(), layout.getOddPlace()) - low;
  Value base = sharedAt(low);
  Value isFar = layout.getPlace() == low ? parity.isOdd : parity.isEven;
  tile.address = b.at(base, b.getI8Type(), b.mul(isFar, distance));
  return tile;
}

/// The buffer of a value that a loop yields to its next iteration; null if no loop carries it.
const Placed *TileEmitter::carriedPlace(Value value) {
  while (value.hasOneUse() && isa<scf::YieldOp, tile::YieldOp>(*value.user_begin())) {
    OpOperand &use = *value.use_begin();
    Operation *parent = use.getOwner()->getParentOp();
    if (auto loop = dyn_cast<scf::ForOp>(parent)) {
      Value arg = loop.getRegionIterArg(use.getOperandNumber());
      auto next = nextPlaces.find(arg);
      return next == nextPlaces.end() ? &placed(arg) : &next->second;
    }
    value = parent->getResult(use.getOperandNumber());
  }
  return nullptr;
}

Placed TileEmitter::sharedFor(Value value) {
  if (const Placed *place = carriedPlace(value))
    return *place;
  return inBuffer(value.getType(), layoutOf(value), parity);
}

//===----------------------------------------------------------------------===//
// Rows to shared memory
//===----------------------------------------------------------------------===//

Value RowSpan::has(KernelBuilder &b, Value row) const {
  // Unsigned, so that rows before the first are not less.
  return b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, b.sub(row, begin), count);
}

/// The rows that exist among the `rows` rows of `place` from `first` on: those of the tensor, or with
/// those of the halo.
RowSpan TileEmitter::rowsWithin(const Rows &place, Value first, int64_t rows, bool withHalo) {
  bool all = withHalo && place.haloBase;
  auto clamp = [&](Value row) { return b.narrow(b.min(b.max(row, b.i64(0)), b.i64(rows))); };
  Value begin = clamp(b.sub(place.begin && !all ? place.begin : b.i64(0), first)),
        end = clamp(b.sub(all ? place.allRows : place.length, first));
  return {begin, b.max(b.sub(end, begin), b.i32(0))};
}

/// The stride of rows where they are copied. The caller's is opaque, so that LLVM neither keeps its
/// multiples in registers around the loop over chunks nor one address for each of them: each tensor has
/// its own, and the assembler reads an argument from where it lies.
Value TileEmitter::strideOf(const Rows &place) {
  if (!place.givenStride)
    return place.stride;
  return b.wide(b.opaque(place.givenStride));
}

void TileEmitter::copyRows(Value source, Value firstRow, Value firstChannel, const Placed &tile) {
  Rows from = rows[source];
  from.stride = strideOf(from);
  Value first = wideIndex(firstRow), channel = wideIndex(firstChannel);
  auto type = cast<VectorType>(tile.type);
  bool isMatrix = type.getRank() == 2;
  int64_t columns = isMatrix ? type.getDimSize(1) : 1;
  unsigned bytes = KernelBuilder::bytesOf(from.element),
           width = copyBytes(cast<RowsType>(source.getType()), type, firstChannel);
  unsigned count = width / bytes, perRow = columns / count;
  unsigned units = type.getDimSize(0) * perRow, threads = workers;
  bool checkChannels = isMatrix && mayReachBeyond(firstChannel, columns, from.channels);
  // If all units of a thread lie in one column, they are a constant number of rows apart.
  bool oneColumn = threads % perRow == 0 && (threads / perRow) % 8 == 0;
  auto placeIn = [&](Value row, Value column) {
    return isInBlocks(tile.layout) ? swizzledElement(tile, row, column)
                                   : b.at(tile.address, b.getI8Type(),
                                          b.add(b.mul(row, tile.pitch), b.mul(column, bytes)));
  };
  auto sourceOf = [&](Value memoryRow, Value memoryColumn) {
    return b.at(from.base, from.element, b.add(b.mul(memoryRow, from.stride), memoryColumn));
  };
  Value row0 = b.div(thread, perRow), column0 = b.mul(b.rem(thread, perRow), count);
  Value to0 = placeIn(row0, column0);
  Value memoryRow0 = b.add(first, b.wide(row0)), memoryColumn0 = b.add(channel, b.wide(column0));
  Value there0 = sourceOf(memoryRow0, memoryColumn0);
  Value toNext = b.mul(from.stride, oneColumn ? threads / perRow : 1);
  RowSpan span = rowsWithin(from, first, type.getDimSize(0)), all = span;
  if (from.haloBase)
    all = rowsWithin(from, first, type.getDimSize(0), /*withHalo=*/true);
  for (unsigned done = 0; done < units; done += threads) {
    Value unit = b.add(thread, done);
    Value active = units - done >= threads ? Value() : b.less(unit, units);
    // From one of a thread's rows to its next, so that one multiple of the stride is needed.
    if (done && oneColumn)
      there0 = b.at(there0, from.element, toNext);
    b.onlyIf(active, [&] {
      Value to = to0, there = there0, row = row0, memoryColumn = memoryColumn0;
      if (done && oneColumn) {
        int64_t ahead = done / perRow;
        to = b.at(to, b.getI8Type(),
                  ahead * (isInBlocks(tile.layout) ? kSwizzledPitch : tile.pitch));
        row = b.add(row0, ahead);
      } else if (done) {
        row = b.div(unit, perRow);
        Value column = b.mul(b.rem(unit, perRow), count);
        to = placeIn(row, column);
        memoryColumn = b.add(channel, b.wide(column));
        there = sourceOf(b.add(first, b.wide(row)), memoryColumn);
      }
      Value valid = all.has(b, row);
      if (from.haloBase) {
        Value inHalo = b.add(b.mul(b.add(first, b.wide(row)), from.haloStride), memoryColumn);
        there = b.make<arith::SelectOp>(span.has(b, row), there,
                                        b.at(from.haloBase, from.element, inHalo));
      }
      if (checkChannels)
        valid = b.both(valid, b.less(memoryColumn, from.channels));
      if (width < 4) {
        b.store(b.loadIf(valid, from.element, [&] { return there; }), to);
        return;
      }
      Value size = b.make<arith::SelectOp>(valid, b.i32(width), b.i32(0));
      b.make<NVVM::CpAsyncOp>(
          to, there, width,
          width == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA, size);
    });
  }
}

void TileEmitter::emitLoad(LoadOp op) {
  if (!isInShared(layoutOf(op))) {
    const Rows &from = rows[op.getRows()];
    tiles[op] =
        loadFrom(op.getType(), layoutOf(op),
                 gridOf(from, op.getFirst(), op.getChannel(), cast<VectorType>(op.getType())),
                 from.base, from.element);
    return;
  }
  Placed tile = sharedFor(op);
  copyRows(op.getRows(), op.getFirst(), op.getChannel(), tile);
  if (copyBytes(op) >= 4)
    b.make<NVVM::CpAsyncCommitGroupOp>();
  tiles[op] = tile;
}

//===----------------------------------------------------------------------===//
// Registers and global memory
//===----------------------------------------------------------------------===//

TileGrid TileEmitter::gridOf(const Rows &place, Value first, Value channel, VectorType type) {
  bool isMatrix = type.getRank() == 2;
  TileGrid grid{wideIndex(first),     place.length,
                strideOf(place),      wideIndex(channel),
                std::nullopt,         place.channels % 2 == 0 && isMultipleOf(channel, 2),
                /*vectorIsRow=*/false};
  if (isMatrix && mayReachBeyond(channel, type.getDimSize(1), place.channels))
    grid.columnLimit = place.channels;
  if (place.begin) {
    grid.rowBegin = place.begin;
    grid.tensorRows = b.max(b.sub(place.length, place.begin), b.i64(0));
  }
  if (place.haloBase) {
    grid.rowLimit = place.allRows;
    grid.tensorBase = place.base;
    grid.haloBase = place.haloBase;
    grid.haloStride = place.haloStride;
  }
  return grid;
}

TileGrid TileEmitter::gridOf(const Slots &place, ValueRange offsets, Type part) {
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

/// A thread's elements of a tile, by row, in runs of one or two adjacent elements.
SmallVector<TileEmitter::RowRuns> TileEmitter::runsOf(Type type, LayoutAttr layout,
                                                      const TileGrid &grid) {
  SmallVector<RowRuns> result;
  // Unsigned, so that rows before the first are not less.
  auto isBelow = [&](Value row, Value limit) -> Value {
    return limit ? b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, row, limit) : Value();
  };
  auto isInTensor = [&](Value row) { return isBelow(b.sub(row, grid.rowBegin), grid.tensorRows); };
  auto rowValid = [&](Value row) {
    return grid.rowBegin && !grid.haloBase ? isInTensor(row) : isBelow(row, grid.rowLimit);
  };
  auto baseOf = [&](Value row) -> Value {
    return grid.haloBase
               ? b.make<arith::SelectOp>(isInTensor(row), grid.tensorBase, grid.haloBase).getResult()
               : Value();
  };
  auto offsetOf = [&](Value row, Value column) -> Value {
    Value stride = grid.stride;
    if (grid.haloBase && grid.haloStride != stride)
      stride = b.make<arith::SelectOp>(isInTensor(row), stride, grid.haloStride);
    return b.add(b.mul(row, stride), column);
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
      result.push_back({valid, offsetOf(row, column), {run}, baseOf(row)});
    }
    return result;
  }
  Fragments f = Fragments::of(type, layout);
  if (f.transposed) {
    Value firstRow = b.add(grid.firstRow, b.wide(firstColumnOf(f)));
    Value column = b.add(grid.firstColumn, b.wide(firstRowOf(f)));
    SmallVector<Value> columnsValid;
    for (unsigned i = 0; i < 2 * f.rowTiles(); ++i)
      columnsValid.push_back(columnValid(b.add(column, f.rowOffset(i))));
    for (unsigned j = 0; j < 2 * f.columnTiles(); ++j) {
      Value row = b.add(firstRow, Fragments::columnOffset(j));
      result.push_back({rowValid(row), offsetOf(row, column), {}, baseOf(row)});
      for (unsigned i = 0; i < 2 * f.rowTiles(); ++i)
        result.back().runs.push_back(
            {{f.index(i / 2, j / 2, 2 * (i % 2) + j % 2)}, f.rowOffset(i), columnsValid[i]});
    }
    return result;
  }
  Value firstOfThread = b.wide(firstRowOf(f));
  Value column = b.add(grid.firstColumn, b.wide(firstColumnOf(f)));
  for (unsigned m = 0; m < f.rowTiles(); ++m)
    for (unsigned half : {0, 1}) {
      Value row = b.add(b.add(grid.firstRow, firstOfThread), f.rowOffset(2 * m + half));
      RowRuns runs{rowValid(row), offsetOf(row, column), {}, baseOf(row)};
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
                                Value start = b.at(row.base ? row.base : base, element, row.offset);
                                return b.at(start, element, run.offset);
                              });
      for (auto [slot, value] : llvm::zip(run.slots, b.unpack(loaded)))
        tile.elements[slot] = value;
    }
  return tile;
}

/// Stores a tile. Where `adds`, if not null, holds, it is added to what is there.
void TileEmitter::storeTo(const Placed &tile, const TileGrid &grid, Value base, Type element,
                          Value adds) {
  // Every warp has a copy of the vector; the first warp stores it.
  Value leads = tile.layout.getKind() == LayoutKind::lanes ? b.equal(warp, 0) : Value();
  // Warps beyond a tile's parts have copies of them, which may be stored again, but not be added.
  if (int64_t parts =
          isFragments(tile.layout) ? tile.layout.getRowParts() * tile.layout.getColumnParts() : 0;
      adds && parts && parts < workers / kWarpSize)
    leads = b.less(warp, parts);
  for (const RowRuns &row : runsOf(tile.type, tile.layout, grid))
    b.onlyIf(b.both(leads, row.valid), [&] {
      Value start = b.at(base, element, row.offset);
      for (const Run &run : row.runs)
        b.onlyIf(run.valid, [&] {
          auto values =
              llvm::map_to_vector(run.slots, [&](unsigned slot) { return tile.elements[slot]; });
          if (adds)
            return storeOrAdd(values, start, run.offset, adds);
          b.store(b.pack(values), b.at(start, element, run.offset));
        });
    });
}

void TileEmitter::emitStore(StoreOp op) {
  if (!rows.contains(op.getRows()))
    return; // unused
  const Rows &to = rows[op.getRows()];
  auto type = cast<VectorType>(op.getTile().getType());
  if (tmaStores.contains(op))
    return storeByTma(placed(op.getTile()), to, op);
  if (isSwizzled(layoutOf(op.getTile())))
    return storeSwizzled(placed(op.getTile()), to, op);
  storeTo(placed(op.getTile()), gridOf(to, op.getFirst(), op.getChannel(), type), to.base,
          to.element, to.addsTerm);
}

Value TileEmitter::slotBase(const Slots &place, Value index) {
  return b.at(place.base, place.element, b.mul(wideIndex(index), place.stride));
}

void TileEmitter::emitSlotRows(SlotRowsOp op) {
  if (!slots.contains(op.getSlots()))
    return; // unused
  const Slots &from = slots[op.getSlots()];
  // Unsigned, so that negative indices are out of range.
  Value index = scalar(op.getIndex());
  Value exists =
      b.make<arith::CmpIOp>(arith::CmpIPredicate::ult, index,
                            index.getType().isInteger(32) ? b.narrow(from.count) : from.count);
  Rows place;
  place.pointer = from.pointer;
  place.base = slotBase(from, op.getIndex());
  place.element = from.element;
  place.channels = from.shape.size() == 2 ? from.shape[1] : 1;
  place.stride = b.i64(place.channels);
  place.length = b.make<arith::SelectOp>(exists, b.i64(from.shape[0]), b.i64(0));
  Value number = b.add(from.first, b.mul(wideIndex(op.getIndex()), heads));
  // TMA loads zeros outside of the tensor map.
  place.tmaOrigin = {b.make<arith::SelectOp>(exists, b.narrow(number), b.i32(-1)), b.i32(0),
                     b.i32(0), b.i32(0)};
  rows[op.getRows()] = place;
}

/// The address of the element at `offsets` of slot `index`, and whether it exists, which is null
/// where it does.
std::pair<Value, Value> TileEmitter::slotElement(const Slots &place, Value index,
                                                 ValueRange offsets) {
  Value number = b.i64(0), exists;
  for (auto [size, offset] : llvm::zip_equal(place.shape, offsets)) {
    number = b.add(b.mul(number, size), wideIndex(offset));
    if (mayReachBeyond(offset, 1, size))
      exists = b.both(exists, b.less(wideIndex(offset), size));
  }
  return {b.at(slotBase(place, index), place.element, number), exists};
}

void TileEmitter::emitLoadSlot(LoadSlotOp op) {
  const Slots &from = slots[op.getSlots()];
  if (!isa<VectorType>(op.getResult().getType())) {
    auto [place, exists] = slotElement(from, op.getIndex(), op.getOffsets());
    scalars.map(op.getResult(), b.loadIf(b.both(from.areGiven, exists), from.element,
                                         [place = place] { return place; }));
    return;
  }
  Value base = slotBase(from, op.getIndex());
  Type type = op.getResult().getType();
  auto load = [&] {
    return loadFrom(type, layoutOf(op.getResult()), gridOf(from, op.getOffsets(), type), base,
                    from.element);
  };
  if (!from.areGiven) {
    tiles[op.getResult()] = load();
    return;
  }
  SmallVector<Type> types(elementsOfThread(type, layoutOf(op.getResult())), from.element);
  auto branch = b.make<scf::IfOp>(types, from.areGiven, /*withElseRegion=*/true);
  KernelBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  b.make<scf::YieldOp>(SmallVector<Value>(types.size(), b.zero(from.element)));
  b.setInsertionPointToStart(branch.thenBlock());
  Placed tile = load();
  b.make<scf::YieldOp>(tile.elements);
  tile.elements = branch.getResults();
  tiles[op.getResult()] = tile;
}

void TileEmitter::emitStoreSlot(StoreSlotOp op) {
  if (!slots.contains(op.getSlots()))
    return; // unused
  const Slots &to = slots[op.getSlots()];
  if (!isa<VectorType>(op.getTile().getType())) {
    auto [place, exists] = slotElement(to, op.getIndex(), op.getOffsets());
    b.onlyIf(b.both(b.equal(thread, 0), b.both(to.isFirst, exists)),
             [&, place = place] { b.store(scalar(op.getTile()), place); });
    return;
  }
  Value base = slotBase(to, op.getIndex());
  const Placed &tile = placed(op.getTile());
  TileGrid grid = gridOf(to, op.getOffsets(), op.getTile().getType());
  b.onlyIf(to.isFirst, [&] { storeTo(tile, grid, base, to.element); });
}
