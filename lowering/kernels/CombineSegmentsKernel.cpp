//===- CombineSegmentsKernel.cpp - the kernel of ejk.combine_segments -----===//
//
// A block goes through the segments of one sequence and head, with a few columns of the state, which
// it keeps in shared memory: it reads one buffer and writes the other. A warp multiplies rows of
// the transition, one after another. Each lane has the same places of every row, so that it loads
// the state's rows for those into registers once a segment, and adds up its part of each column;
// the lanes' parts are summed by shuffles. The rows of a transition do not depend on the state, so
// the loads of several are outstanding at once, also while the segment before is multiplied. A segment that
// keeps nothing of its start has no product.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/CombineSegmentsKernel.h"
#include "lowering/kernels/DynamicShared.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace ejk;

static constexpr unsigned kWarps = cost::kElementThreads / kWarpSize;
/// Elements of a load of 16 bytes.
static constexpr int64_t kWide = 4;
/// Registers for a transition's outstanding rows.
static constexpr int64_t kRowRegisters = 64;

namespace {
class CombineEmitter {
public:
  CombineEmitter(CombineSegmentsOp op, gpu::GPUModuleOp module, StringRef name)
      : op(op), b(OpBuilder(op.getContext()), op.getLoc()) {
    auto type = cast<RankedTensorType>(op.getTotals().getType());
    keys = type.getDimSize(2);
    values = type.getDimSize(3);
    // Of more rows a thread would hold more of the state than it has registers.
    columns = keys > 256 ? kWide : 2 * kWide;
    width = keys % kWide ? 1 : kWide;
    pieces = llvm::divideCeil(keys, kWarpSize * width);
    rowsOfBatch = std::clamp<int64_t>(kRowRegisters / (pieces * width), 1,
                                      llvm::divideCeil(keys, kWarps));
    b.setInsertionPointToEnd(module.getBody());
    global = dynamicShared(b, module);
    describe();
    function = makeElementKernel(b, kernel, name);
  }

  Kernel emit();

private:
  void describe();
  Value arg(Value tensor, std::optional<unsigned> dim = {}) {
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      if (operand.tensor == tensor && operand.dim == dim)
        return function.getArgument(i);
    llvm_unreachable("not an operand");
  }
  Type f32() { return b.getF32Type(); }
  Value shared(Value element) { return b.at(sharedBase, f32(), element); }
  /// Calls `body` with each row and column of the block's part of a state, and their place in a
  /// buffer.
  void forEachElement(llvm::function_ref<void(Value, Value, Value)> body);
  /// The first segment of sequence `n`, and the one after its last.
  std::pair<Value, Value> segmentsOf(Value n);
  /// Element [`row`, `column`] of state `place` of `states`.
  Value elementOf(Value states, Value place, Value row, Value column) {
    Value rows = b.add(b.mul(b.wide(place), keys), b.wide(row));
    return b.at(arg(states), f32(), b.add(b.mul(rows, values), b.wide(column)));
  }
  /// A row of a batch of a warp, and whether there is one; null if so for all.
  struct Row {
    Value number, exists;
  };
  Row rowOfBatch(Value firstRow, int64_t i);
  /// Whether a segment's rows, one batch, are loaded while the one before is multiplied. It takes the registers of a
  /// second block of a multiprocessor, which is more where most segments load nothing.
  bool loadsAhead() { return keys <= rowsOfBatch * kWarps && !op.getRemembered(); }
  void locateKeys();
  /// The lane's parts of the transition's rows of a batch, and of the totals, from `firstRow` on.
  SmallVector<Value> load(Value place, Value firstRow);
  /// Those of the first batch; zeros where `valid` does not hold.
  SmallVector<Value> loadWhere(Value valid, Value place);
  /// Multiplies state `current` by the transition of `place`; `loaded` are its rows, if loaded ahead.
  void multiply(Value place, Value current, Value next, ValueRange loaded);
  /// The sum over lanes of one of `parts`: the lane's own column.
  Value sumOverLanes(SmallVector<Value> parts);

  CombineSegmentsOp op;
  KernelBuilder b;
  Kernel kernel;
  gpu::GPUFuncOp function;
  LLVM::GlobalOp global;
  int64_t keys, values, columns, width, pieces, rowsOfBatch;
  Value sharedBase, thread, lane, warp, firstColumn;
  /// The lane's places of a row, whether the row has them, and the lane's column.
  SmallVector<Value> firstKeys, exist;
  Value column, ownColumn, hasColumn;
};
} // namespace

void CombineEmitter::describe() {
  kernel.operands = {{op.getTotals()}, {op.getTransitions()}, {op.getStarts()},
                     {op.getFinalState()}, {op.getTotals(), 0}, {op.getTotals(), 1},
                     {op.getFinalState(), 0}};
  if (op.getRemembered())
    kernel.operands.push_back({op.getRemembered()});
  if (op.getInitial())
    kernel.operands.push_back({op.getInitial()});
  if (op.getOffsets())
    kernel.operands.push_back({op.getOffsets()});
  kernel.gridSizes = {{op.getFinalState(), 0}, {op.getFinalState(), 1}};
  kernel.gridFactor = llvm::divideCeil(values, columns);
  kernel.sharedBytes = 2 * keys * columns * KernelBuilder::bytesOf(b.getF32Type());
}

void CombineEmitter::forEachElement(llvm::function_ref<void(Value, Value, Value)> body) {
  b.loop(thread, b.i32(keys * columns), cost::kElementThreads, ValueRange(),
         [&](Value element, ValueRange) {
           Value column = b.add(firstColumn, b.rem(element, columns));
           body(b.div(element, columns), column, element);
           return SmallVector<Value>();
         });
}

std::pair<Value, Value> CombineEmitter::segmentsOf(Value n) {
  Value all = arg(op.getTotals(), 0);
  if (!op.getOffsets()) {
    Value each = b.narrow(b.div(all, arg(op.getFinalState(), 0)));
    Value first = b.mul(n, each);
    return {first, b.add(first, each)};
  }
  Type type = cast<RankedTensorType>(op.getOffsets().getType()).getElementType();
  // The offsets are the caller's; no value of them may give a place beyond the segments.
  auto offset = [&](Value i) {
    Value known = b.narrow(b.load(type, b.at(arg(op.getOffsets()), type, i)));
    return b.max(b.min(known, b.narrow(all)), b.i32(0));
  };
  return {offset(n), offset(b.add(n, 1))};
}

Value CombineEmitter::sumOverLanes(SmallVector<Value> parts) {
  for (unsigned distance = kWarpSize / 2; distance > 0; distance /= 2) {
    auto fromOther = [&](Value value) -> Value {
      return b.make<gpu::ShuffleOp>(value, b.i32(distance), b.i32(kWarpSize),
                                    gpu::ShuffleMode::XOR)
          .getShuffleResult();
    };
    if (parts.size() == 1) {
      parts[0] = b.make<arith::AddFOp>(parts[0], fromOther(parts[0]));
      continue;
    }
    // Of two lanes each goes on with half of the columns.
    Value isLower = b.equal(b.rem(b.div(lane, distance), 2), 0);
    unsigned half = parts.size() / 2;
    SmallVector<Value> kept;
    for (unsigned i = 0; i < half; ++i) {
      Value low = parts[i], high = parts[i + half];
      Value own = b.make<arith::SelectOp>(isLower, low, high);
      Value given = b.make<arith::SelectOp>(isLower, high, low);
      kept.push_back(b.make<arith::AddFOp>(own, fromOther(given)));
    }
    parts = kept;
  }
  return parts.front();
}

void CombineEmitter::locateKeys() {
  for (int64_t p = 0; p < pieces; ++p) {
    Value key = b.add(b.mul(lane, width), p * kWarpSize * width);
    bool isWhole = (p + 1) * kWarpSize * width <= keys;
    firstKeys.push_back(key);
    exist.push_back(isWhole ? Value() : b.less(key, keys));
  }
  column = b.div(lane, kWarpSize / columns);
  ownColumn = b.add(firstColumn, column);
  hasColumn = values % columns ? b.less(ownColumn, values) : Value();
}

CombineEmitter::Row CombineEmitter::rowOfBatch(Value firstRow, int64_t i) {
  Value row = b.add(b.add(firstRow, warp), i * kWarps);
  if (keys % (rowsOfBatch * kWarps) == 0)
    return {row, Value()};
  return {b.min(row, b.i32(keys - 1)), b.less(row, keys)};
}

SmallVector<Value> CombineEmitter::load(Value place, Value firstRow) {
  SmallVector<Value> loaded;
  Type part = KernelBuilder::withCount(f32(), width);
  for (int64_t i = 0; i < rowsOfBatch; ++i) {
    Value row = rowOfBatch(firstRow, i).number;
    Value start = b.mul(b.add(b.mul(b.wide(place), keys), b.wide(row)), keys);
    for (int64_t p = 0; p < pieces; ++p)
      loaded.push_back(b.loadIf(exist[p], part, [&] {
        return b.at(arg(op.getTransitions()), f32(), b.add(start, b.wide(firstKeys[p])));
      }));
    loaded.push_back(b.loadIf(
        hasColumn, f32(), [&] { return elementOf(op.getTotals(), place, row, ownColumn); }));
  }
  return loaded;
}

SmallVector<Value> CombineEmitter::loadWhere(Value valid, Value place) {
  SmallVector<Type> types;
  for (int64_t i = 0; i < rowsOfBatch; ++i) {
    types.append(pieces, KernelBuilder::withCount(f32(), width));
    types.push_back(f32());
  }
  auto branch = b.make<scf::IfOp>(types, valid, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  b.make<scf::YieldOp>(load(place, b.i32(0)));
  b.setInsertionPointToStart(branch.elseBlock());
  SmallVector<Value> zeros = llvm::map_to_vector(types, [&](Type type) { return b.zero(type); });
  b.make<scf::YieldOp>(zeros);
  return SmallVector<Value>(branch.getResults());
}

void CombineEmitter::multiply(Value place, Value current, Value next, ValueRange loaded) {
  SmallVector<SmallVector<Value>> state; // by key of the lane
  for (int64_t p = 0; p < pieces; ++p)
    for (int64_t w = 0; w < width; ++w) {
      SmallVector<Value> &row = state.emplace_back();
      for (int64_t c = 0; c < columns; c += kWide) {
        Value four = b.loadIf(exist[p], KernelBuilder::withCount(f32(), kWide), [&] {
          return shared(b.add(current, b.add(b.mul(b.add(firstKeys[p], w), columns), c)));
        });
        llvm::append_range(row, b.unpack(four));
      }
    }
  Value isWriter = b.equal(b.rem(lane, kWarpSize / columns), 0);
  auto multiplyBatch = [&](Value firstRow, ValueRange batch) {
    for (int64_t i = 0; i < rowsOfBatch; ++i) {
      ValueRange own = batch.slice(i * (pieces + 1), pieces + 1);
      SmallVector<Value> sums(columns, b.zero(f32()));
      for (int64_t p = 0; p < pieces; ++p)
        for (auto [w, element] : llvm::enumerate(b.unpack(own[p])))
          for (int64_t c = 0; c < columns; ++c)
            sums[c] = b.make<math::FmaOp>(element, state[p * width + w][c], sums[c]);
      Value sum = b.make<arith::AddFOp>(sumOverLanes(sums), own.back());
      Row row = rowOfBatch(firstRow, i);
      b.onlyIf(b.both(row.exists, isWriter), [&] {
        b.store(sum, shared(b.add(next, b.add(b.mul(row.number, columns), column))));
      });
    }
  };
  if (loadsAhead())
    return multiplyBatch(b.i32(0), loaded);
  b.loop(b.i32(0), b.i32(keys), rowsOfBatch * kWarps, ValueRange(),
         [&](Value firstRow, ValueRange) {
           multiplyBatch(firstRow, load(place, firstRow));
           return SmallVector<Value>();
         });
}

Kernel CombineEmitter::emit() {
  sharedBase = b.make<LLVM::AddressOfOp>(global);
  thread = b.threadId();
  lane = b.rem(thread, kWarpSize);
  warp = b.div(thread, kWarpSize);
  Value block = b.blockId(), item = b.div(block, kernel.gridFactor);
  firstColumn = b.mul(b.rem(block, kernel.gridFactor), columns);
  Value heads = b.narrow(arg(op.getTotals(), 1));
  Value n = b.div(item, heads), head = b.rem(item, heads);
  auto onlyColumns = [&](Value column) {
    return values % columns ? b.less(column, values) : Value();
  };
  forEachElement([&](Value row, Value column, Value element) {
    Value initial = b.zero(f32());
    if (op.getInitial())
      initial = b.loadIf(onlyColumns(column), f32(),
                         [&] { return elementOf(op.getInitial(), item, row, column); });
    b.store(initial, shared(element));
  });
  Value first, end;
  std::tie(first, end) = segmentsOf(n);
  auto storeTo = [&](Value states, Value place, Value buffer) {
    forEachElement([&](Value row, Value column, Value element) {
      b.onlyIf(onlyColumns(column), [&] {
        b.store(b.load(f32(), shared(b.add(buffer, element))),
                elementOf(states, place, row, column));
      });
    });
  };
  locateKeys();
  auto placeOf = [&](Value j) {
    Value segment = op.getReverse() ? b.sub(b.sub(b.add(first, end), 1), j) : j;
    return b.add(b.mul(segment, heads), head);
  };
  // Whether a segment keeps nothing of its start; null where all keep something.
  auto forgets = [&](Value place) -> Value {
    if (!op.getRemembered())
      return {};
    Value number = b.load(f32(), b.at(arg(op.getRemembered()), f32(), b.wide(place)));
    return b.make<arith::CmpFOp>(arith::CmpFPredicate::OLT, number, b.f32(1));
  };
  SmallVector<Value> carried = {b.i32(0), b.i32(keys * columns)};
  if (loadsAhead()) // where there are no segments, nothing can be loaded
    llvm::append_range(carried, loadWhere(b.less(first, end), placeOf(first)));
  carried = b.loop(first, end, 1, carried, [&](Value j, ValueRange in) {
    Value current = in[0], next = in[1], place = placeOf(j);
    SmallVector<Value> out = {next, current};
    if (loadsAhead())
      llvm::append_range(out, load(placeOf(b.min(b.add(j, 1), b.sub(end, 1))), b.i32(0)));
    b.make<gpu::BarrierOp>();
    storeTo(op.getStarts(), place, current);
    Value isForgetful = forgets(place);
    if (!isForgetful) {
      multiply(place, current, next, in.drop_front(2));
      return out;
    }
    auto branch = b.make<scf::IfOp>(TypeRange(), isForgetful, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    forEachElement([&](Value row, Value column, Value element) {
      Value total = b.loadIf(onlyColumns(column), f32(),
                             [&] { return elementOf(op.getTotals(), place, row, column); });
      b.store(total, shared(b.add(next, element)));
    });
    b.setInsertionPointToStart(branch.elseBlock());
    multiply(place, current, next, in.drop_front(2));
    return out;
  });
  b.make<gpu::BarrierOp>();
  storeTo(op.getFinalState(), item, carried[0]);
  b.make<gpu::ReturnOp>();
  return kernel;
}

Kernel ejk::emitCombineSegmentsKernel(CombineSegmentsOp op, gpu::GPUModuleOp module,
                                      StringRef name) {
  return CombineEmitter(op, module, name).emit();
}
