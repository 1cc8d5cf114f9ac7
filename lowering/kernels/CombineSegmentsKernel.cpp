//===- CombineSegmentsKernel.cpp - the kernel of ejk.combine_segments -----===//
//
// A block goes through the segments of one sequence and head, with a few columns of the state,
// which it keeps in shared memory: it reads one buffer and writes the other. A warp multiplies 16
// rows of the transition at a time, on tensor cores. The rows of a transition do not depend on the
// state, so those of the next segment are loaded while this one's are multiplied, where registers
// last. A segment whose start is zero, or that keeps nothing of it, has no product.
//
// A lane has the elements (g, 16 s + 4 t + i) of 16 rows and keys, with g = lane / 4, t = lane mod
// 4 and i < 4: so it loads 16 bytes. A product sums over keys in any order, so i = 2 e + p stands
// for place t + 4 p of the e-th of two matmuls. The state lies column by column, so that a lane
// loads the four keys of a column at once.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/CombineSegmentsKernel.h"
#include "lowering/kernels/DynamicShared.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/kernels/Tf32Product.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

static constexpr unsigned kWarps = cost::kElementThreads / kWarpSize;
/// Columns of the state that a block has. With 16 and 32 fewer blocks split a transition into
/// terms, but a segment takes longer. H200, states of 128×128, in all: 8 heads of 16 segments 23,
/// 36 and 55 µs, 32 of 4 29, 21 and 16.
static constexpr int64_t kColumns = 8;
/// Elements of a load of 16 bytes.
static constexpr int64_t kWide = 4;
/// Rows of a tile of a transition, and keys of two matmuls.
static constexpr int64_t kTile = 16;
/// How often such keys are unrolled, and the most times that a thread has registers to load them
/// ahead.
static constexpr int64_t kUnrolled = 4, kMostAhead = 8;

namespace {
class CombineEmitter {
public:
  CombineEmitter(CombineSegmentsOp op, gpu::GPUModuleOp module, StringRef name)
      : op(op), b(OpBuilder(op.getContext()), op.getLoc()) {
    auto type = cast<RankedTensorType>(op.getTotals().getType());
    keys = type.getDimSize(2);
    values = type.getDimSize(3);
    rowTiles = llvm::divideCeil(keys, kTile);
    steps = llvm::divideCeil(keys, kTile);
    if (steps > kUnrolled)
      steps = llvm::alignTo(steps, kUnrolled);
    // Lanes that load at one time two columns' keys then do so from different banks.
    pitch = llvm::alignTo(steps * kTile, kWarpSize) + kTile;
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
  /// The first segment of sequence `n`, and the one after its last.
  std::pair<Value, Value> segmentsOf(Value n);

  /// A lane's elements of a tile of the state: of its row g + 8 h, column 2 t + p at 2 h + p.
  using Fragment = SmallVector<Value>;
  static constexpr unsigned kFragment = 4;
  /// Calls `visit` with each pair of a lane's columns of a tile: its row, its first column in the
  /// block, and its place in a fragment.
  void forEachPair(Value tile, llvm::function_ref<void(Value, Value, unsigned)> visit);
  /// Whether a warp has a tile, where none has two; null if each has one.
  Value hasTile() { return rowTiles < kWarps ? b.less(warp, rowTiles) : Value(); }
  /// Calls `body` with the number of each tile of the warp.
  void forEachTile(llvm::function_ref<void(Value)> body);
  /// Element [`row`, `column`] of state `place` of `states`; columns are the block's.
  Value elementOf(Value states, Value place, Value row, Value column) {
    Value rows = b.add(b.mul(b.wide(place), keys), b.wide(row));
    return b.at(arg(states), f32(), b.add(b.mul(rows, values), b.wide(b.add(firstColumn, column))));
  }
  /// Whether a row, or the p-th of a pair of columns, is there; null if it always is.
  Value hasRow(Value row) { return keys % kTile ? b.less(row, keys) : Value(); }
  Value hasColumn(Value column, unsigned p) {
    return values % kColumns ? b.less(b.add(b.add(firstColumn, column), p), values) : Value();
  }
  Fragment loadFragment(Value states, Value place, Value tile);
  void storeFragment(const Fragment &fragment, Value states, Value place, Value tile);
  /// From and to a buffer in shared memory.
  Fragment takeFragment(Value buffer, Value tile);
  void putFragment(const Fragment &fragment, Value buffer, Value tile);

  /// What `make` gives where `condition` holds, else `otherwise`. Null means that it holds.
  SmallVector<Value> choose(Value condition, ValueRange otherwise,
                            llvm::function_ref<SmallVector<Value>()> make);

  /// Whether the rows of a warp's one tile are loaded while those of the segment before are
  /// multiplied. It takes the registers of a second block of a multiprocessor, which is more where
  /// most segments load nothing.
  bool loadsAhead() { return rowTiles <= kWarps && steps <= kMostAhead && !op.getRemembered(); }
  /// A lane's elements of step `s` of a tile of the transition of `place`: those of row g + 8 h at
  /// h.
  SmallVector<Value> load(Value place, Value tile, Value s);
  /// Parts of a sum: of matmul e of each step, the products of first terms at 2 e, of the others at
  /// 2 e + 1. So chains of matmuls are shorter.
  using Sums = std::array<Tf32Product::Sums, 4>;
  Sums noSums();
  Fragment total(const Sums &sums, const Fragment &others);
  /// sums += the transition's elements · the keys of step `s` in `buffer`
  void multiplyStep(Sums &sums, ValueRange elements, Value buffer, Value s);
  /// totals + the transition of `place` · `current`, for `tile`
  Fragment multiply(Value place, Value tile, Value current, const Fragment &totals);
  /// The same for the warp's one tile, of which the transition's elements are loaded.
  Fragment multiply(Value current, ValueRange loaded, const Fragment &totals);
  SmallVector<Value> loadTile(Value place);

  CombineSegmentsOp op;
  KernelBuilder b;
  Kernel kernel;
  gpu::GPUFuncOp function;
  LLVM::GlobalOp global;
  int64_t keys, values, rowTiles, steps, pitch;
  Value sharedBase, thread, warp, firstColumn;
  /// The lane's g and t.
  Value group, member;
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
  kernel.gridFactor = llvm::divideCeil(values, kColumns);
  kernel.sharedBytes = 2 * kColumns * pitch * KernelBuilder::bytesOf(b.getF32Type());
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

//===----------------------------------------------------------------------===//
// Tiles of the state
//===----------------------------------------------------------------------===//

void CombineEmitter::forEachPair(Value tile,
                                 llvm::function_ref<void(Value, Value, unsigned)> visit) {
  for (int64_t h : {0, 1})
    visit(b.add(b.add(b.mul(tile, kTile), group), 8 * h), b.mul(member, 2), 2 * h);
}

void CombineEmitter::forEachTile(llvm::function_ref<void(Value)> body) {
  if (rowTiles <= kWarps)
    return b.onlyIf(hasTile(), [&] { body(warp); });
  b.loop(warp, b.i32(rowTiles), kWarps, ValueRange(), [&](Value tile, ValueRange) {
    body(tile);
    return SmallVector<Value>();
  });
}

CombineEmitter::Fragment CombineEmitter::loadFragment(Value states, Value place, Value tile) {
  Fragment fragment;
  forEachPair(tile, [&](Value row, Value column, unsigned) {
    Value exists = hasRow(row);
    if (values % kColumns == 0)
      return llvm::append_range(
          fragment, b.unpack(b.loadIf(exists, KernelBuilder::withCount(f32(), 2),
                                      [&] { return elementOf(states, place, row, column); })));
    for (unsigned p : {0, 1})
      fragment.push_back(b.loadIf(b.both(exists, hasColumn(column, p)), f32(),
                                  [&] { return elementOf(states, place, row, b.add(column, p)); }));
  });
  return fragment;
}

void CombineEmitter::storeFragment(const Fragment &fragment, Value states, Value place,
                                   Value tile) {
  forEachPair(tile, [&](Value row, Value column, unsigned at) {
    Value exists = hasRow(row);
    if (values % kColumns == 0)
      return b.onlyIf(exists, [&] {
        b.store(b.pack({fragment[at], fragment[at + 1]}), elementOf(states, place, row, column));
      });
    for (unsigned p : {0, 1})
      b.onlyIf(b.both(exists, hasColumn(column, p)),
               [&] { b.store(fragment[at + p], elementOf(states, place, row, b.add(column, p))); });
  });
}

CombineEmitter::Fragment CombineEmitter::takeFragment(Value buffer, Value tile) {
  Fragment fragment;
  forEachPair(tile, [&](Value row, Value column, unsigned) {
    for (unsigned p : {0, 1})
      fragment.push_back(
          b.load(f32(), shared(b.add(buffer, b.add(b.mul(b.add(column, p), pitch), row)))));
  });
  return fragment;
}

void CombineEmitter::putFragment(const Fragment &fragment, Value buffer, Value tile) {
  forEachPair(tile, [&](Value row, Value column, unsigned at) {
    for (unsigned p : {0, 1})
      b.store(fragment[at + p], shared(b.add(buffer, b.add(b.mul(b.add(column, p), pitch), row))));
  });
}

SmallVector<Value> CombineEmitter::choose(Value condition, ValueRange otherwise,
                                          llvm::function_ref<SmallVector<Value>()> make) {
  if (!condition)
    return make();
  auto branch = b.make<scf::IfOp>(otherwise.getTypes(), condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  b.make<scf::YieldOp>(make());
  b.setInsertionPointToStart(branch.elseBlock());
  b.make<scf::YieldOp>(otherwise);
  return SmallVector<Value>(branch.getResults());
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

SmallVector<Value> CombineEmitter::load(Value place, Value tile, Value s) {
  SmallVector<Value> loaded;
  Value key = b.add(b.mul(s, kTile), b.mul(member, kWide));
  bool isMasked = keys % kTile || steps * kTile > keys;
  for (int64_t h : {0, 1}) {
    Value row = b.add(b.add(b.mul(tile, kTile), group), 8 * h);
    if (keys % kTile)
      row = b.min(row, b.i32(keys - 1)); // what it gives is not stored
    Value start = b.mul(b.add(b.mul(b.wide(place), keys), b.wide(row)), keys);
    auto at = [&](Value own) {
      return b.at(arg(op.getTransitions()), f32(), b.add(start, b.wide(own)));
    };
    if (keys % kWide == 0) {
      Value exists = isMasked ? b.less(key, keys) : Value();
      llvm::append_range(loaded, b.unpack(b.loadIf(exists, KernelBuilder::withCount(f32(), kWide),
                                                   [&] { return at(key); })));
      continue;
    }
    for (int64_t i = 0; i < kWide; ++i) {
      Value own = b.add(key, i);
      loaded.push_back(b.loadIf(b.less(own, keys), f32(), [&] { return at(own); }));
    }
  }
  return loaded;
}

CombineEmitter::Sums CombineEmitter::noSums() {
  Sums sums;
  for (Tf32Product::Sums &part : sums)
    part.fill(b.zero(f32()));
  return sums;
}

CombineEmitter::Fragment CombineEmitter::total(const Sums &sums, const Fragment &others) {
  Fragment all;
  auto add = [&](Value x, Value y) { return b.make<arith::AddFOp>(x, y); };
  for (auto [i, other] : llvm::enumerate(others)) {
    Value firsts = add(sums[0][i], sums[2][i]), rests = add(sums[1][i], sums[3][i]);
    all.push_back(add(add(firsts, rests), other));
  }
  return all;
}

void CombineEmitter::multiplyStep(Sums &sums, ValueRange elements, Value buffer, Value s) {
  Tf32Product product{b};
  std::array<Tf32Product::Left, 2> left;
  for (unsigned h : {0, 1})
    for (unsigned i = 0; i < kWide; ++i)
      left[i / 2][h][i % 2] = termsInTf32(b, elements[kWide * h + i]);
  Value key = b.add(b.mul(s, kTile), b.mul(member, kWide));
  SmallVector<Value> state =
      b.unpack(b.load(KernelBuilder::withCount(f32(), kWide),
                      shared(b.add(buffer, b.add(b.mul(group, pitch), key)))));
  for (unsigned e : {0, 1}) {
    Tf32Product::Right right;
    for (unsigned p : {0, 1})
      right[p] = termsInTf32(b, state[2 * e + p]);
    product.addFirsts(sums[2 * e], left[e], right);
    product.addRests(sums[2 * e + 1], left[e], right);
  }
}

CombineEmitter::Fragment CombineEmitter::multiply(Value place, Value tile, Value current,
                                                  const Fragment &totals) {
  int64_t unrolled = std::min(steps, kUnrolled);
  auto multiplySome = [&](Sums sums, Value first) {
    for (int64_t i = 0; i < unrolled; ++i) {
      Value s = b.add(first, i);
      multiplyStep(sums, load(place, tile, s), current, s);
    }
    return sums;
  };
  if (steps == unrolled)
    return total(multiplySome(noSums(), b.i32(0)), totals);
  auto flat = [](const Sums &sums) {
    SmallVector<Value> all;
    for (const Tf32Product::Sums &part : sums)
      llvm::append_range(all, part);
    return all;
  };
  auto unflat = [](ValueRange all) {
    Sums sums;
    for (auto [i, part] : llvm::enumerate(sums))
      llvm::copy(all.slice(i * part.size(), part.size()), part.begin());
    return sums;
  };
  Sums sums = unflat(
      b.loop(b.i32(0), b.i32(steps), unrolled, flat(noSums()),
             [&](Value first, ValueRange in) { return flat(multiplySome(unflat(in), first)); }));
  return total(sums, totals);
}

CombineEmitter::Fragment CombineEmitter::multiply(Value current, ValueRange loaded,
                                                  const Fragment &totals) {
  Sums sums = noSums();
  for (int64_t i = 0; i < steps; ++i)
    multiplyStep(sums, loaded.slice(2 * kWide * i, 2 * kWide), current, b.i32(i));
  return total(sums, totals);
}

SmallVector<Value> CombineEmitter::loadTile(Value place) {
  SmallVector<Value> loaded;
  for (int64_t i = 0; i < steps; ++i)
    llvm::append_range(loaded, load(place, warp, b.i32(i)));
  return loaded;
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

Kernel CombineEmitter::emit() {
  sharedBase = b.make<LLVM::AddressOfOp>(global);
  thread = b.threadId();
  Value lane = b.rem(thread, kWarpSize);
  warp = b.div(thread, kWarpSize);
  group = b.div(lane, 4);
  member = b.rem(lane, 4);
  Value block = b.blockId(), item = b.div(block, kernel.gridFactor);
  firstColumn = b.mul(b.rem(block, kernel.gridFactor), kColumns);
  Value heads = b.narrow(arg(op.getTotals(), 1));
  Value n = b.div(item, heads), head = b.rem(item, heads);
  // Also keys past the last one, which are multiplied by zero.
  Value size = b.i32(kColumns * pitch);
  b.loop(thread, b.i32(2 * kColumns * pitch), cost::kElementThreads, ValueRange(),
         [&](Value element, ValueRange) {
           b.store(b.zero(f32()), shared(element));
           return SmallVector<Value>();
         });
  if (op.getInitial()) {
    b.make<gpu::BarrierOp>();
    forEachTile([&](Value tile) {
      putFragment(loadFragment(op.getInitial(), item, tile), b.i32(0), tile);
    });
  }
  Value first, end;
  std::tie(first, end) = segmentsOf(n);
  auto placeOf = [&](Value j) {
    Value segment = op.getReverse() ? b.sub(b.sub(b.add(first, end), 1), j) : j;
    return b.add(b.mul(segment, heads), head);
  };
  // Whether the end of segment `j` is needed and more than its total. The first one's start is zero without an
  // initial state, and nobody may take the last one's end. Null where all ends are.
  bool hasEnd = !op.getFinalState().use_empty();
  auto needsProduct = [&](Value j, Value place) {
    auto differs = [&](Value x, Value y) {
      return b.make<arith::CmpIOp>(arith::CmpIPredicate::ne, x, y);
    };
    Value needs;
    if (!op.getInitial())
      needs = differs(j, first);
    if (!hasEnd)
      needs = b.both(needs, differs(b.add(j, 1), end));
    if (!op.getRemembered())
      return needs;
    Value number = b.load(f32(), b.at(arg(op.getRemembered()), f32(), b.wide(place)));
    return b.both(needs, b.make<arith::CmpFOp>(arith::CmpFPredicate::UGE, number, b.f32(1)));
  };
  SmallVector<Value> carried = {b.i32(0), size};
  if (loadsAhead()) { // where there are no segments, nothing can be loaded
    SmallVector<Value> none(2 * kWide * steps, b.zero(f32()));
    llvm::append_range(carried, op.getInitial()
                                    ? choose(b.both(b.less(first, end), hasTile()), none,
                                             [&] { return loadTile(placeOf(first)); })
                                    : none);
  }
  carried = b.loop(first, end, 1, carried, [&](Value j, ValueRange in) {
    Value current = in[0], next = in[1], place = placeOf(j), needs = needsProduct(j, place);
    SmallVector<Value> out = {next, current};
    auto storeStart = [&](Value tile) {
      storeFragment(takeFragment(current, tile), op.getStarts(), place, tile);
    };
    if (loadsAhead()) {
      // Issued before the barrier, behind which ptxas would put them after the matmuls.
      ValueRange loaded = in.drop_front(2);
      Value after = b.add(j, 1), isNeeded = b.less(hasEnd ? after : b.add(after, 1), end);
      SmallVector<Value> zeros(kFragment, b.zero(f32()));
      SmallVector<Value> rows =
          choose(b.both(isNeeded, hasTile()), loaded, [&] { return loadTile(placeOf(after)); });
      Fragment totals =
          choose(hasTile(), zeros, [&] { return loadFragment(op.getTotals(), place, warp); });
      b.make<gpu::BarrierOp>();
      forEachTile([&](Value tile) {
        storeStart(tile);
        putFragment(choose(needs, totals, [&] { return multiply(current, loaded, totals); }), next,
                    tile);
      });
      llvm::append_range(out, rows);
      return out;
    }
    b.make<gpu::BarrierOp>();
    forEachTile([&](Value tile) {
      storeStart(tile);
      // Loaded in any case: a product starts from it.
      Fragment totals = loadFragment(op.getTotals(), place, tile);
      putFragment(choose(needs, totals, [&] { return multiply(place, tile, current, totals); }),
                  next, tile);
    });
    return out;
  });
  if (hasEnd) {
    b.make<gpu::BarrierOp>();
    forEachTile([&](Value tile) {
      storeFragment(takeFragment(carried[0], tile), op.getFinalState(), item, tile);
    });
  }
  b.make<gpu::ReturnOp>();
  return kernel;
}

Kernel ejk::emitCombineSegmentsKernel(CombineSegmentsOp op, gpu::GPUModuleOp module,
                                      StringRef name) {
  return CombineEmitter(op, module, name).emit();
}
