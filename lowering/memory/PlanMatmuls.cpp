//===- PlanMatmuls.cpp - matmuls, cumsums and sums -------------------------===//
#include "lowering/layout/MatmulOperands.h"
#include "lowering/layout/SummedParts.h"
#include "lowering/memory/Accesses.h"
#include "lowering/memory/MemoryPlanner.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

/// The loop's value that `sum`, or what matmuls add to it, is the next one of; null if of none.
static BlockArgument replacedBy(Value sum) {
  for (OpOperand &use : sum.getUses()) {
    Operation *user = use.getOwner();
    auto dot = dyn_cast<DotOp>(user);
    Value next;
    if (dot && dot.getAcc() == sum)
      next = dot.getResult();
    else if (Branch::isEnd(user))
      next = user->getParentOp()->getResult(use.getOperandNumber());
    else if (auto loop = dyn_cast<scf::ForOp>(user->getParentOp()); loop && isa<scf::YieldOp>(user))
      return loop.getRegionIterArg(use.getOperandNumber());
    if (BlockArgument found = next ? replacedBy(next) : BlockArgument())
      return found;
  }
  return {};
}

/// Whether the loop's old value, which the sum of matmuls `acc` replaces, is still used after the
/// first of these matmuls has its accumulators. Then both are live at once and need registers of
/// their own, and LLVM may copy one to the other between two of the matmuls. A product of the old
/// value that LLVM contracts with a later addition to an fma uses the old value at that addition.
static bool outlivesFirstSum(Value acc) {
  BlockArgument old = replacedBy(acc);
  if (!old)
    return false;
  Operation *first = acc.getDefiningOp();
  while (auto dot = acc.getDefiningOp<DotOp>()) {
    first = dot;
    acc = dot.getAcc();
  }
  if (matchPattern(acc, m_Constant()))
    return false; // made by the first matmul
  if (Operation *maker = acc.getDefiningOp())
    first = maker;
  if (isa<arith::MulFOp>(first) && llvm::is_contained(first->getOperands(), old) &&
      llvm::any_of(acc.getUsers(), llvm::IsaPred<arith::AddFOp, arith::SubFOp>))
    return true;
  return llvm::any_of(old.getUsers(), [&](Operation *user) {
    Operation *inBlock = first->getBlock()->findAncestorOpInBlock(*user);
    return inBlock && first->isBeforeInBlock(inBlock);
  });
}

/// A group of asynchronous matmuls that adds to `acc`. If `acc` comes from an outstanding matmul
/// that nothing else uses, no wait is needed, because `wgmma` accumulates in order.
void MemoryPlanner::visitMatmul(Value result, Value acc, bool fromZero, SmallVector<Range> reads) {
  // A matmul that takes over the accumulators of an outstanding one also keeps that one's reads
  // pending; a barrier in between would drop them.
  SmallVector<Range> all;
  if (!fromZero) {
    auto it = llvm::find_if(inFlight, [&](const InFlight &dot) { return dot.matmul == acc; });
    if (it != inFlight.end() && acc.hasOneUse() &&
        acc.getParentBlock() == b.getInsertionBlock() && !outlivesFirstSum(acc)) {
      all = it->reads;
      inFlight.erase(it);
    } else {
      use(acc);
    }
  }
  all.append(reads);
  makeInRegisters(result);
  tiles[result].group = ++groupsIssued;
  inFlight.push_back({result, groupsIssued, all});
}

void MemoryPlanner::visitDot(DotOp op) {
  MatmulOperands operands = MatmulOperands::of(op);
  bool isAsynchronous = isByWarpgroups(op);
  if (!isAsynchronous)
    use(op.getAcc());
  use(operands.left);
  use(operands.right);
  SmallVector<Range> reads = readsOf(op);
  beforeRead(reads);
  if (!isAsynchronous)
    return makeInRegisters(op);
  DenseElementsAttr constant;
  bool fromZero = operands.columns.empty() && matchPattern(op.getAcc(), m_Constant(&constant)) &&
                  constant.isSplat() && constant.getSplatValue<APFloat>().isPosZero();
  visitMatmul(op, op.getAcc(), fromZero, reads);
}

//===----------------------------------------------------------------------===//
// Cumsums
//===----------------------------------------------------------------------===//

MemoryPlanner::TriangleKey MemoryPlanner::triangleKey(CumsumOp op, Type element) {
  return {op.getReverse(), op.getExclusive(), cast<VectorType>(op.getType()).getDimSize(0),
          op.getFrom().value_or(-1), element.getAsOpaquePointer()};
}

/// Makes the triangles that the program's cumsums need, once per kernel.
void MemoryPlanner::makeTriangles() {
  b.setInsertionPointToStart(&program.getBlock());
  program.walk([&](CumsumOp op) {
    if (!warpgroups || !hasWarpgroupSums(op.getType(), layoutOf(op)))
      return;
    int64_t rows = cast<VectorType>(op.getType()).getDimSize(0);
    Type element = summedType(op);
    Value &triangle = triangles[triangleKey(op, element)];
    if (triangle)
      return;
    Tile stored = newShared(VectorType::get({rows, rows}, element),
                            LayoutAttr::get(b.getContext(), LayoutKind::swizzled, 0, 0));
    beforeWrite(stored.range);
    triangle = TriangleOp::create(b, loc, stored.type, op.getReverse(), op.getExclusive(),
                                  op.getFromAttr());
    setPlace(triangle, stored.layout);
    tiles[triangle] = stored;
  });
}

/// The triangle for what `op` sums; null if there is none.
Value MemoryPlanner::triangleOf(CumsumOp op) const {
  auto it = triangles.find(triangleKey(op, summedType(op)));
  return it == triangles.end() ? Value() : it->second;
}

/// A matrix stored transposed is summed along its stored rows: the tile times a triangle.
void MemoryPlanner::visitTransposedCumsum(CumsumOp op) {
  Value triangle = triangleOf(op);
  op.getTriangleMutable().assign(triangle);
  SmallVector<Range> reads = readsOf(op);
  bool isInShared = reads.size() > 1;
  auto widened = op.getTile().getDefiningOp<arith::ExtFOp>();
  if (!isInShared)
    use(widened ? widened.getIn() : op.getTile());
  beforeRead(reads);
  makeInRegisters(op);
  groupsIssued += groupsOf(op);
  tiles[op].group = groupsIssued;
  inFlight.push_back({op, groupsIssued, reads});
}

/// Adds the cumsum of `term`, a tile in shared memory, to `acc`.
Value MemoryPlanner::addCumsum(CumsumOp op, Value term, Value acc) {
  Tile tile = tiles[term];
  LayoutAttr layout = layoutOf(op);
  Value triangle = triangleOf(op);
  if (!isSwizzled(tile.layout) ||
      !endsSwizzled(Fragments::of(op.getType(), layout).partColumns()))
    triangle = {};
  auto sum = AddCumsumOp::create(b, loc, op.getType(), term, acc, triangle, op.getReverse(),
                                 op.getExclusive(), op.getFromAttr());
  setPlace(sum, layout);
  b.setInsertionPoint(sum);
  beforeRead(readsOf(sum));
  b.setInsertionPoint(op);
  makeInRegisters(sum);
  if (!triangle)
    return sum;
  // The next term takes over the accumulators: nothing else uses them.
  SmallVector<Range> all;
  if (tiles[acc].group) {
    auto it = llvm::find_if(inFlight, [&](const InFlight &sums) { return sums.matmul == acc; });
    all = it->reads;
    inFlight.erase(it);
  }
  all.push_back(tile.range);
  tiles[sum].group = ++groupsIssued;
  inFlight.push_back({sum, groupsIssued, all});
  return sum;
}

/// An f32 tile is split into three bf16 terms, whose cumsums are accumulated. A tile that was
/// widened from 16 bits needs only one.
void MemoryPlanner::visitCumsum(CumsumOp op) {
  LayoutAttr layout = layoutOf(op);
  if (layout.getKind() == LayoutKind::lanes) {
    use(op.getTile());
    return makeInRegisters(op);
  }
  if (isTransposed(layout))
    return visitTransposedCumsum(op);
  use(op.getTile());
  auto type = cast<VectorType>(op.getType());
  Value sum = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, Attribute(b.getF32FloatAttr(0))));
  setPlace(sum, LayoutAttr::get(b.getContext(), LayoutKind::uniform, 0, 0));
  makeInRegisters(sum);
  SmallVector<Value> terms;
  auto addTerms = [&] {
    for (Value term : terms) {
      sum = addCumsum(op, term, sum);
      memory.release(tiles[term].range);
    }
    terms.clear();
  };
  auto layoutOfTerm = [&](Type term) {
    return LayoutAttr::get(b.getContext(),
                           warpgroups && fitsSwizzled(term) ? LayoutKind::swizzled
                                                            : LayoutKind::shared,
                           0, 0);
  };
  auto store = [&](Value term) {
    bool byUnits = warpgroups && hasWarpgroupSums(op.getType(), layoutOf(op));
    Tile tile = newShared(term.getType(), layoutOfTerm(term.getType()),
                          byUnits ? Readers::units : Readers::warpMatmuls);
    beforeWrite(tile.range);
    terms.push_back(ConvertOp::create(b, loc, term.getType(), term, tile.layout));
    tiles[terms.back()] = tile;
  };
  if (auto widened = op.getTile().getDefiningOp<arith::ExtFOp>()) {
    if (Value inShared = summedInShared(op)) {
      sum = addCumsum(op, inShared, sum);
    } else {
      use(widened.getIn());
      store(widened.getIn());
      addTerms();
    }
  } else {
    auto termType = VectorType::get(type.getShape(), b.getBF16Type());
    Value rest = op.getTile();
    for (unsigned i = 0; i < kSplitTerms; ++i) {
      auto split = SplitTermOp::create(b, loc, termType, type, rest);
      for (Value result : split.getResults()) {
        setPlace(result, layout);
        makeInRegisters(result);
      }
      rest = split.getRest();
      // Keep all terms in shared memory at once if that needs no more memory; then their matmuls
      // run without a wait between them.
      if (!terms.empty() && !fitsFreely(termType, tiles[terms.back()].layout)) {
        addTerms();
        use(sum);
      }
      store(split.getTerm());
    }
    addTerms();
  }
  op.replaceAllUsesWith(sum);
  op.erase();
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Whether only the total of a square matrix's sums is used.
static bool isOnlyAddedUp(tile::SumOp op) {
  VectorType type = op.getTile().getType();
  return type.getDimSize(0) == type.getDimSize(1) && llvm::all_of(op->getUsers(), [](auto *user) {
           auto sums = dyn_cast<CumsumOp>(user);
           return sums && isTotal(sums);
         });
}

/// A sum of elements that several warps have is stored in parts. They are added at the first use:
/// another barrier may pass before.
void MemoryPlanner::visitSum(tile::SumOp op) {
  // What is computed block by block stands here, with the loads from shared memory.
  SmallVector<Operation *> inParts;
  for (auto [member, sum] : summedInParts)
    if (sum == op)
      inParts.push_back(member);
  llvm::sort(inParts, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
  for (Operation *member : inParts)
    member->moveBefore(op);
  Vector<std::pair<Value, Range>> partLoads;
  if (inParts.empty()) {
    use(op.getTile());
  } else {
    b.setInsertionPoint(inParts.front());
    SmallVector<Range> ranges;
    auto find = [&](auto &&find, Value value) -> void {
      Operation *maker = value.getDefiningOp();
      if (!maker || !llvm::is_contained(inParts, maker)) {
        if (isTile(value))
          use(value);
      } else if (auto convert = dyn_cast<ConvertOp>(maker)) {
        ranges.push_back(use(convert.getTile()).range);
        partLoads.push_back({convert.getResult(), ranges.back()});
      } else {
        for (unsigned i = 0; i < maker->getNumOperands(); ++i)
          find(find, maker->getOperand(i));
      }
    };
    find(find, op.getTile());
    beforeRead(ranges);
    loadsSinceBarrier.append(partLoads);
    for (Operation *member : inParts)
      makeInRegisters(member->getResult(0));
    b.setInsertionPoint(op);
  }
  makeInRegisters(op);
  if (isRows(layoutOf(op)))
    return;
  Fragments f = Fragments::of(op.getTile().getType(), layoutOf(op.getTile()));
  // For the total of a square matrix, summing over either dimension is right.
  bool overColumns = f.storedDim(op.getDim()) == 1 || isOnlyAddedUp(op);
  int64_t parts = overColumns ? f.columnParts : f.rowParts;
  auto type = VectorType::get({parts * op.getType().getDimSize(0)}, b.getF32Type());
  Tile stored = newShared(type);
  if (!inParts.empty())
    b.setInsertionPoint(inParts.front());
  beforeWrite(stored.range);
  // A barrier that this took stands before those loads, which it does not order.
  if (loadsSinceBarrier.empty()) {
    for (auto &[value, range] : partLoads)
      memory.noteRead(range);
    loadsSinceBarrier.append(partLoads);
  }
  b.setInsertionPoint(op);
  Value partial =
      PartialSumOp::create(b, loc, type, op.getTile(), f.storedDim(overColumns ? 1 : 0));
  setPlace(partial, stored.layout);
  tiles[partial] = stored;
  partialSums.insert({op.getResult(), partial});
}

/// Adds the parts of `sum`. Returns what takes its place.
Value MemoryPlanner::finishSum(Value sum) {
  Value partial = partialSums.lookup(sum);
  partialSums.erase(sum);
  auto added = AddPartsOp::create(b, loc, sum.getType(), partial);
  setPlace(added, layoutOf(sum));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(added);
    beforeRead(readsOf(added));
  }
  makeInRegisters(added);
  memory.release(tiles[partial].range);
  sum.replaceAllUsesWith(added);
  sum.getDefiningOp()->erase();
  return added;
}

void MemoryPlanner::finishSums() {
  while (!partialSums.empty())
    finishSum(partialSums.begin()->first);
}
