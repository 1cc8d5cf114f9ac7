//===- TileOps.cpp - one function per op of the tile dialect --------------===//
#include "dialect/reference/RowMath.h"
#include "dialect/reference/TileProgram.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

std::pair<size_t, size_t> ejk::reference::tileShape(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return {1, 1};
  return {vector.getDimSize(0), vector.getRank() == 2 ? vector.getDimSize(1) : 1};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

FailureOr<unsigned> TileCompiler::memoryOf(Operation *user, Value memory, bool isStore) {
  unsigned firstStored = op.getSequences().size() + op.getParameters().size() +
                         op.getInitialStates().size() + op.getSavedStates().size();
  unsigned number = cast<BlockArgument>(memory).getArgNumber();
  if ((number >= firstStored) == isStore)
    return number;
  return user->emitError(isStore ? "stores to an operand of the program: only outputs, final "
                                   "states and saves may be stored to"
                                 : "loads what the program stores: only its operands may be "
                                   "loaded");
}

FailureOr<RowsFinder> TileCompiler::rowsOf(Operation *user, Value rows, bool isStore) {
  auto ofSlot = rows.getDefiningOp<tile::SlotRowsOp>();
  FailureOr<unsigned> memory = memoryOf(user, ofSlot ? ofSlot.getSlots() : rows, isStore);
  if (failed(memory))
    return failure();
  unsigned number = *memory;
  if (!ofSlot)
    return RowsFinder([=](const TileFrame &frame) { return frame.memory[number]; });
  Slot index = slotOf(ofSlot.getIndex());
  auto [count, stride] = tileShape(ofSlot.getSlots().getType().getSlot());
  return RowsFinder([=, count = count, stride = stride](const TileFrame &frame) {
    const TileMemory &slots = frame.memory[number];
    int64_t slot = *const_cast<TileFrame &>(frame).row(index).ints;
    if (slot < 0 || slot >= slots.count)
      return TileMemory();
    return TileMemory{slots.data + slot * slots.stride, int64_t(count), stride};
  });
}

void ejk::reference::loadRows(const TileMemory &memory, int64_t row, int64_t channel,
                              int64_t channels, std::pair<size_t, size_t> shape, double *out) {
  auto [rows, columns] = shape;
  std::fill_n(out, rows * columns, 0.0);
  int64_t width = std::min<int64_t>(columns, channels - channel);
  for (size_t i = 0; i < rows; ++i, ++row)
    if (row >= 0 && row < memory.count && width > 0)
      std::copy_n(memory.data + row * memory.stride + channel, width, out + i * columns);
}

LogicalResult TileCompiler::compileLoad(tile::LoadOp op) {
  FailureOr<RowsFinder> finder = rowsOf(op, op.getRows(), false);
  if (failed(finder))
    return failure();
  auto [rows, columns] = tileShape(op.getType());
  int64_t channels = tileShape(op.getRows().getType().getRow()).first;
  Slot first = slotOf(op.getFirst()), channel = slotOf(op.getChannel()), result = resultSlot(op);
  Operation *load = op;
  add([=, rows = rows, columns = columns, find = *finder](TileFrame &frame) {
    TileMemory memory = find(frame);
    int64_t row = *frame.row(first).ints, c0 = *frame.row(channel).ints;
    if (c0 < 0)
      return fail(frame, load,
                  "the first channel must not be negative, but is " + std::to_string(c0));
    loadRows(memory, row, c0, channels, {rows, columns}, frame.at(result));
    return true;
  });
  return success();
}

LogicalResult TileCompiler::compileStore(tile::StoreOp op) {
  FailureOr<RowsFinder> finder = rowsOf(op, op.getRows(), true);
  if (failed(finder))
    return failure();
  auto [rows, columns] = tileShape(op.getTile().getType());
  int64_t channels = tileShape(op.getRows().getType().getRow()).first;
  Slot first = slotOf(op.getFirst()), channel = slotOf(op.getChannel()),
       tile = slotOf(op.getTile());
  Operation *store = op;
  add([=, rows = rows, columns = columns, find = *finder](TileFrame &frame) {
    if (frame.dropsStores)
      return true;
    TileMemory memory = find(frame);
    int64_t row = *frame.row(first).ints, c0 = *frame.row(channel).ints;
    if (c0 < 0)
      return fail(frame, store,
                  "the first channel must not be negative, but is " + std::to_string(c0));
    int64_t width = std::min<int64_t>(columns, channels - c0);
    for (size_t i = 0; i < rows; ++i, ++row)
      if (row >= 0 && row < memory.count && width > 0)
        std::copy_n(frame.at(tile) + i * columns, width, memory.data + row * memory.stride + c0);
    return true;
  });
  return success();
}

/// Copies a part of a state slot to a tile or back.
static bool moveSlot(TileFrame &frame, Operation *op, unsigned number, int64_t index,
                     ArrayRef<int64_t> offsets, std::pair<size_t, size_t> slot,
                     std::pair<size_t, size_t> part, double *tile, bool isStore) {
  const TileMemory &memory = frame.memory[number];
  if (index < 0 || index >= memory.count)
    return fail(frame, op,
                "slot " + std::to_string(index) + " is asked for, but there are " +
                    std::to_string(memory.count));
  for (int64_t offset : offsets)
    if (offset < 0)
      return fail(frame, op, "an offset must not be negative, but is " + std::to_string(offset));
  int64_t row = offsets.empty() ? 0 : offsets[0], column = offsets.size() < 2 ? 0 : offsets[1];
  int64_t width = std::min<int64_t>(part.second, int64_t(slot.second) - column);
  if (!isStore)
    std::fill_n(tile, part.first * part.second, 0.0);
  for (size_t i = 0; i < part.first && row < int64_t(slot.first) && width > 0; ++i, ++row) {
    double *there = memory.data + index * memory.stride + row * slot.second + column;
    double *here = tile + i * part.second;
    std::copy_n(isStore ? here : there, width, isStore ? there : here);
  }
  return true;
}

template <typename Op>
static TileAction slotAction(Op op, unsigned number, Slot index, SmallVector<Slot, 2> offsets,
                             Type part, Slot tile, bool isStore) {
  auto slotShape = tileShape(op.getSlots().getType().getSlot());
  auto partShape = tileShape(part);
  Operation *at = op;
  return [=](TileFrame &frame) {
    if (isStore && frame.dropsStores)
      return true;
    SmallVector<int64_t> starts;
    for (Slot offset : offsets)
      starts.push_back(*frame.row(offset).ints);
    return moveSlot(frame, at, number, *frame.row(index).ints, starts, slotShape, partShape,
                    frame.at(tile), isStore);
  };
}

LogicalResult TileCompiler::compileLoadSlot(tile::LoadSlotOp op) {
  FailureOr<unsigned> memory = memoryOf(op, op.getSlots(), false);
  if (failed(memory))
    return failure();
  auto offsets = llvm::map_to_vector<2>(op.getOffsets(), [&](Value v) { return slotOf(v); });
  Slot index = slotOf(op.getIndex());
  add(slotAction(op, *memory, index, offsets, op.getResult().getType(), resultSlot(op), false));
  return success();
}

LogicalResult TileCompiler::compileStoreSlot(tile::StoreSlotOp op) {
  FailureOr<unsigned> memory = memoryOf(op, op.getSlots(), true);
  if (failed(memory))
    return failure();
  auto offsets = llvm::map_to_vector<2>(op.getOffsets(), [&](Value v) { return slotOf(v); });
  add(slotAction(op, *memory, slotOf(op.getIndex()), offsets, op.getTile().getType(),
                 slotOf(op.getTile()), true));
  return success();
}

//===----------------------------------------------------------------------===//
// Matmuls and sums
//===----------------------------------------------------------------------===//

/// Returns `tile`, [rows, columns], or its transpose in `scratch`.
static const double *transposed(const double *tile, size_t rows, size_t columns, bool transpose,
                                std::vector<double> &scratch) {
  if (!transpose)
    return tile;
  scratch.resize(rows * columns);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      scratch[j * rows + i] = tile[i * columns + j];
  return scratch.data();
}

/// The `count` bf16 terms of each element of `tile`, one term after the other.
static std::vector<double> splitTerms(Type bf16, const double *tile, size_t size, unsigned count) {
  std::vector<double> terms(count * size), rest(tile, tile + size);
  for (unsigned term = 0; term < count; ++term) {
    double *to = terms.data() + term * size;
    std::copy(rest.begin(), rest.end(), to);
    roundRow(bf16, to, size);
    for (size_t i = 0; i < size; ++i)
      rest[i] -= to[i];
  }
  return terms;
}

/// An f32 matmul as tensor cores compute it, in products of bf16 terms.
LogicalResult TileCompiler::compileSplitDot(tile::DotOp op) {
  Slot lhs = slotOf(op.getLhs()), rhs = slotOf(op.getRhs()), acc = slotOf(op.getAcc());
  auto [lhsRows, lhsColumns] = tileShape(op.getLhs().getType());
  auto [rhsRows, rhsColumns] = tileShape(op.getRhs().getType());
  auto [M, N] = tileShape(op.getType());
  bool turnLhs = op.getLhsTransposed(), turnRhs = op.getRhsTransposed();
  size_t L = turnLhs ? lhsRows : lhsColumns;
  std::pair<size_t, size_t> range = op.getRange();
  Slot result = resultSlot(op);
  tile::DotAlgorithm algorithm = *op.getAlgorithm();
  unsigned count = tile::DotOp::termsOf(algorithm);
  Type bf16 = BFloat16Type::get(op.getContext());
  addSimple([=, lhsRows = lhsRows, lhsColumns = lhsColumns, rhsRows = rhsRows,
             rhsColumns = rhsColumns, M = M, N = N](TileFrame &frame) {
    std::vector<double> scratch[2];
    const double *a = transposed(frame.at(lhs), lhsRows, lhsColumns, turnLhs, scratch[0]);
    const double *b = transposed(frame.at(rhs), rhsRows, rhsColumns, turnRhs, scratch[1]);
    std::vector<double> left = splitTerms(bf16, a, M * L, count),
                        right = splitTerms(bf16, b, L * N, count);
    auto round = [](double x) { return double(float(x)); };
    std::vector<double> first(N), later(N);
    for (size_t i = 0; i < M; ++i) {
      std::fill(first.begin(), first.end(), 0.0);
      std::fill(later.begin(), later.end(), 0.0);
      for (size_t l = range.first; l < range.second; ++l)
        tile::DotOp::forEachProduct(algorithm, [&](unsigned x, unsigned y) {
          double factor = left[x * M * L + i * L + l];
          const double *from = right.data() + y * L * N + l * N;
          std::vector<double> &to = x + y ? later : first;
          for (size_t j = 0; j < N; ++j)
            to[j] = round(to[j] + factor * from[j]);
        });
      const double *start = frame.at(acc) + i * N;
      double *out = frame.at(result) + i * N;
      for (size_t j = 0; j < N; ++j)
        out[j] = round(start[j] + round(first[j] + later[j]));
    }
  });
  return success();
}

LogicalResult TileCompiler::compileDot(tile::DotOp op) {
  if (op.getAlgorithm() && !op.isInTf32() && precision == Precision::native)
    return compileSplitDot(op);
  Slot lhs = slotOf(op.getLhs()), rhs = slotOf(op.getRhs()), acc = slotOf(op.getAcc());
  auto [lhsRows, lhsColumns] = tileShape(op.getLhs().getType());
  auto [rhsRows, rhsColumns] = tileShape(op.getRhs().getType());
  auto [M, N] = tileShape(op.getType());
  bool turnLhs = op.getLhsTransposed(), turnRhs = op.getRhsTransposed();
  size_t L = turnLhs ? lhsRows : lhsColumns;
  std::pair<size_t, size_t> range = op.getRange(), rows = op.getRowRange();
  Slot result = resultSlot(op);
  addSimple([=, lhsRows = lhsRows, lhsColumns = lhsColumns, rhsRows = rhsRows,
             rhsColumns = rhsColumns, N = N, math = rowMath(precision)](TileFrame &frame) {
    std::vector<double> scratch[2];
    const double *a = transposed(frame.at(lhs), lhsRows, lhsColumns, turnLhs, scratch[0]);
    const double *b = transposed(frame.at(rhs), rhsRows, rhsColumns, turnRhs, scratch[1]);
    double *out = frame.at(result);
    std::copy_n(frame.at(acc), result.size, out);
    for (size_t i = rows.first; i < rows.second; ++i)
      math.addRows(out + i * N, N, a + i * L + range.first, range.second - range.first,
                   b + range.first * N, N);
  });
  return success();
}

LogicalResult TileCompiler::compileSolve(tile::SolveOp op) {
  Slot matrix = slotOf(op.getMatrix()), rhs = slotOf(op.getRhs()), result = resultSlot(op);
  auto [rows, columns] = tileShape(op.getType());
  bool transposed = op.getTransposed();
  addSimple([=, rows = rows, columns = columns, math = rowMath(precision)](TileFrame &frame) {
    const double *m = frame.at(matrix);
    double *out = frame.at(result);
    std::copy_n(frame.at(rhs), result.size, out);
    std::vector<double> factors(rows);
    for (size_t place = 0; place < rows; ++place) {
      // From the row that was solved first on, which is the last one where `transposed`.
      size_t i = transposed ? rows - 1 - place : place;
      for (size_t before = 0; before < place; ++before)
        factors[before] = transposed ? m[(rows - 1 - before) * rows + i] : m[i * rows + before];
      const double *first = transposed ? out + (rows - 1) * columns : out;
      math.addRows(out + i * columns, columns, factors.data(), place, first,
                   transposed ? -ptrdiff_t(columns) : ptrdiff_t(columns));
    }
  });
  return success();
}

LogicalResult TileCompiler::compileInvertDiagonal(tile::InvertDiagonalOp op) {
  Slot matrix = slotOf(op.getMatrix()), result = resultSlot(op);
  size_t rows = tileShape(op.getType()).first, block = op.getBlock();
  withRounding([&](auto round) {
    addSimple([=](TileFrame &frame) {
      const double *m = frame.at(matrix);
      double *out = frame.at(result);
      std::copy_n(m, result.size, out);
      for (size_t first = 0; first < rows; first += block)
        for (size_t i = first; i < first + block; ++i) {
          std::fill_n(out + i * rows + i, first + block - i, 0.0);
          for (size_t c = first; c < i; ++c) {
            double &sum = out[i * rows + c];
            for (size_t j = c + 1; j < i; ++j)
              sum = round(sum + m[i * rows + j] * out[j * rows + c]);
          }
        }
    });
  });
  return success();
}

LogicalResult TileCompiler::compileMergeInverses(tile::MergeInversesOp op) {
  Slot matrix = slotOf(op.getMatrix()), result = resultSlot(op);
  size_t rows = tileShape(op.getType()).first, block = op.getBlock();
  withRounding([&](auto round) {
    addSimple([=](TileFrame &frame) {
      const double *m = frame.at(matrix);
      double *out = frame.at(result);
      std::copy_n(m, result.size, out);
      // C + C A, then that plus B times that, from the last row up: B is strictly lower.
      for (size_t upper = 0; upper < rows; upper += 2 * block) {
        size_t lower = upper + block;
        for (size_t i = lower; i < lower + block; ++i)
          for (size_t c = upper; c < lower; ++c)
            for (size_t k = c + 1; k < lower; ++k)
              out[i * rows + c] = round(out[i * rows + c] + m[i * rows + k] * m[k * rows + c]);
        for (size_t i = lower + block; i-- > lower;)
          for (size_t c = upper; c < lower; ++c)
            for (size_t k = lower; k < i; ++k)
              out[i * rows + c] = round(out[i * rows + c] + m[i * rows + k] * out[k * rows + c]);
      }
    });
  });
  return success();
}

LogicalResult TileCompiler::compileRangeGuard(tile::RangeGuardOp op) {
  auto tiles = llvm::map_to_vector(op.getTiles(), [&](Value tile) { return slotOf(tile); });
  Slot result = resultSlot(op);
  double bound = op.getBound().convertToDouble();
  addSimple([=](TileFrame &frame) {
    bool all = true;
    for (const Slot &tile : tiles)
      for (size_t i = 0; i < tile.size; ++i)
        all &= std::abs(frame.at(tile)[i]) <= bound; // false for NaN
    *frame.row(result).ints = all;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

LogicalResult TileCompiler::compileMask(tile::MaskOp op) {
  Slot tile = slotOf(op.getTile()), result = resultSlot(op);
  auto [rows, columns] = tileShape(op.getType());
  bool upper = op.getUpper(), strict = op.getStrict();
  double otherwise = op.getOtherwise().convertToFloat();
  addSimple([=, rows = rows, columns = columns](TileFrame &frame) {
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        size_t at = i * columns + j;
        bool kept = i == j ? !strict : (j > i) == upper;
        frame.at(result)[at] = kept ? frame.at(tile)[at] : otherwise;
      }
  });
  return success();
}

LogicalResult TileCompiler::compileWindow(tile::WindowOp op) {
  Slot tile = slotOf(op.getTile()), result = resultSlot(op);
  auto from = llvm::map_to_vector<2>(op.getFrom(), [&](Value v) { return slotOf(v); });
  auto to = llvm::map_to_vector<2>(op.getTo(), [&](Value v) { return slotOf(v); });
  auto [rows, columns] = tileShape(op.getType());
  double otherwise = op.getOtherwise().convertToFloat();
  addSimple([=, rows = rows, columns = columns](TileFrame &frame) {
    auto inside = [&](size_t dim, int64_t at) {
      return dim >= from.size() ||
             (at >= *frame.row(from[dim]).ints && at < *frame.row(to[dim]).ints);
    };
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        size_t at = i * columns + j;
        frame.at(result)[at] = inside(0, i) && inside(1, j) ? frame.at(tile)[at] : otherwise;
      }
  });
  return success();
}

LogicalResult TileCompiler::compileBroadcast(tile::BroadcastOp op) {
  Slot vector = slotOf(op.getVector()), result = resultSlot(op);
  auto [rows, columns] = tileShape(op.getType());
  bool alongRows = op.getDim() == 0;
  addSimple([=, rows = rows, columns = columns](TileFrame &frame) {
    const double *in = frame.at(vector);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j)
        frame.at(result)[i * columns + j] = in[alongRows ? i : j];
  });
  return success();
}

LogicalResult TileCompiler::compileTileOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tile::LoadOp op) { return compileLoad(op); })
      .Case([&](tile::StoreOp op) { return compileStore(op); })
      .Case([&](tile::SlotRowsOp op) { return success(); }) // see rowsOf
      .Case([&](tile::LoadSlotOp op) { return compileLoadSlot(op); })
      .Case([&](tile::StoreSlotOp op) { return compileStoreSlot(op); })
      .Case([&](tile::DotOp op) { return compileDot(op); })
      .Case([&](tile::SolveOp op) { return compileSolve(op); })
      .Case([&](tile::InvertDiagonalOp op) { return compileInvertDiagonal(op); })
      .Case([&](tile::MergeInversesOp op) { return compileMergeInverses(op); })
      .Case([&](tile::CumsumOp op) { return compileCumsum(op); })
      .Case([&](tile::MaskOp op) { return compileMask(op); })
      .Case([&](tile::WindowOp op) { return compileWindow(op); })
      .Case([&](tile::BroadcastOp op) { return compileBroadcast(op); })
      .Case([&](tile::SumOp op) { return compileSum(op, op.getTile(), op.getDim()); })
      .Case([&](tile::PartialSumOp op) { return compileSum(op, op.getTile(), op.getDim()); })
      .Case([&](tile::AddPartsOp op) { return compileAddParts(op); })
      .Case([&](tile::SplitTermOp op) { return compileSplitTerm(op); })
      .Case([&](tile::RoundToTf32Op op) { return compileRoundToTf32(op); })
      .Case([&](tile::TriangleOp op) { return compileTriangle(op); })
      .Case([&](tile::AddCumsumOp op) { return compileAddCumsum(op); })
      .Case([&](tile::RangeGuardOp op) { return compileRangeGuard(op); })
      .Case([&](tile::GuardedOp op) { return compileGuarded(op); })
      .Case([&](tile::ConvertOp op) {
        slots[op.getResult()] = slotOf(op.getTile()); // the same elements
        return success();
      })
      .Case([&](tile::MakeRingOp op) { return compileMakeRing(op); })
      .Case([&](tile::AcquireOp op) { return compileAcquire(op); })
      .Case([&](tile::FillOp op) { return compileFill(op); })
      .Case([&](tile::PutOp op) { return compilePut(op); })
      .Case([&](tile::TakeOp op) { return compileTake(op); })
      .Case([&](tile::ReleaseOp op) { return compileRelease(op); })
      .Case([&](tile::WarpSpecializeOp op) { return compilePartitions(op); })
      // One thread does all, and each op when it stands there.
      .Case<tile::BarrierOp, tile::FenceOp, tile::WaitMatmulsOp, tile::WaitCopiesOp,
            tile::WaitStoresOp, tile::AwaitTurnOp, tile::PassTurnOp, tile::PrefetchOp>(
          [](auto) { return success(); })
      .Default([&](Operation *op) { return unknownOp(op); });
}
