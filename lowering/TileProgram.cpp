//===- TileProgram.cpp - a block program's control flow and scalars --------===//
#include "lowering/SharedByChoice.h"
#include "lowering/TileEmitter.h"
#include "lowering/TileMemory.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static bool isTile(Value value) { return isa<VectorType>(value.getType()); }

/// How many scalars a thread holds of a tile; of one in shared memory none, for no value moves
/// it.
static unsigned sizeOf(Type type, LayoutAttr layout) {
  switch (layout.getKind()) {
  case LayoutKind::fragments:
  case LayoutKind::transposed_fragments:
    return Fragments::of(type, layout).size();
  case LayoutKind::lanes:
    return lanesSize(lanesLength(type));
  case LayoutKind::rows:
    return 2 * Fragments::ofRows(type, layout).rowTiles();
  case LayoutKind::uniform:
    return 1;
  case LayoutKind::shared:
  case LayoutKind::panels:
  case LayoutKind::transposed_panels:
    return 0;
  }
  llvm_unreachable("unknown layout");
}

Placed &TileEmitter::placed(Value value) {
  if (partialSums.contains(value))
    finishSum(value);
  auto it = tiles.find(value);
  assert(it != tiles.end() && "a tile is made before it is used");
  if (it->second.group)
    awaitGroup(it->second.group);
  return it->second;
}

/// `index` of the program as an i64 of the kernel.
Value TileEmitter::wideIndex(Value index) {
  Value value = scalar(index);
  return value.getType().isInteger(64) ? value
                                       : b.make<arith::ExtSIOp>(b.getI64Type(), value).getResult();
}

/// The same as an i32, where it is known to fit.
Value TileEmitter::narrowIndex(Value index) { return b.narrow(scalar(index)); }

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

/// Who uses what lies where `value` does: what a loop carries stays where it starts.
static SmallVector<Operation *> usersOfPlace(Value value) {
  SmallVector<Operation *> users(value.getUsers());
  for (OpOperand &use : value.getUses())
    if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
      llvm::append_range(users, loop.getTiedLoopResult(&use).getUsers());
  return users;
}

void TileEmitter::findLastUses() {
  auto note = [&](Value value) {
    Operation *last = value.getDefiningOp();
    for (Operation *user : usersOfPlace(value)) {
      if (tile::SumOp sum = summedInParts.lookup(user))
        user = sum;
      Operation *inBlock = value.getParentBlock()->findAncestorOpInBlock(*user);
      if (last->isBeforeInBlock(inBlock))
        last = inBlock;
    }
    lastUses[last].push_back(value);
  };
  program.walk([&](Operation *op) {
    if (isa<TakeOp>(op))
      return; // the ring's
    for (Value result : op->getResults())
      if (isa<MakeRingOp>(op) || (isTile(result) && isInShared(layoutOf(result)) &&
                                  !isa<scf::ForOp, vector::InsertOp>(op)))
        note(result);
  });
}

void TileEmitter::emitBlock(Block &block) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break; // a role's block has none
    b.loc = op.getLoc();
    emit(&op);
    for (Value value : lastUses[&op])
      if (rings.contains(value)) {
        endRing(value);
      } else if (SharedMemory::Range range = placed(value).range; range.end) {
        memory.release(range);
        tiles.erase(value);
      }
  }
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void TileEmitter::emit(Operation *op) {
  if (summedInParts.contains(op))
    return;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](LoadOp o) { emitLoad(o); })
      .Case([&](StoreOp o) { emitStore(o); })
      .Case([&](MakeRingOp o) { emitMakeRing(o); })
      .Case([&](AcquireOp o) { emitAcquire(o); })
      .Case([&](FillOp o) { emitFill(o); })
      .Case([&](TakeOp o) { emitTake(o); })
      .Case([&](ReleaseOp o) { emitRelease(o); })
      .Case([&](RolesOp o) { emitRoles(o); })
      .Case([&](CellRowsOp o) { emitCellRows(o); })
      .Case([&](LoadCellOp o) { emitLoadCell(o); })
      .Case([&](StoreCellOp o) { emitStoreCell(o); })
      .Case([&](ConvertOp o) { emitConvert(o); })
      .Case([&](DotOp o) { emitDot(o); })
      .Case([&](CumsumOp o) { emitCumsum(o); })
      .Case([&](KeepOp o) { emitKeep(o); })
      .Case([&](WindowOp o) { emitWindow(o); })
      .Case([&](SpreadOp o) { emitSpread(o); })
      .Case([&](tile::SumOp o) { emitSum(o); })
      .Case([&](WithinOp o) { emitWithin(o); })
      .Case([&](vector::ExtractOp o) { emitExtract(o); })
      .Case([&](vector::InsertOp o) { emitInsert(o); })
      .Case([&](scf::ForOp o) { emitFor(o); })
      .Case([&](scf::IfOp o) { emitIf(o); })
      .Default([&](Operation *o) { emitElementwise(o); });
  if (op->getNumRegions() == 0)
    for (Value result : op->getResults())
      if (isTile(result))
        memory.noteWork(sizeOf(result.getType(), layoutOf(result)));
}

void TileEmitter::findLongBlocks() {
  program.walk([&](Block *block) { isLong |= hasManyProducts(*block); });
}

/// Roundings to 16 bits go two at a time, as one instruction has it.
SmallVector<Value> TileEmitter::roundPairs(ArrayRef<Value> elements, Type to) {
  SmallVector<Value> result;
  for (unsigned i = 0; i < elements.size(); i += 2) {
    Value pair = b.pack(elements.slice(i, 2));
    result.append(b.unpack(b.make<arith::TruncFOp>(VectorType::get({2}, to), pair)));
  }
  return result;
}

/// bf16 is the upper half of f32: two at a time, of the word that they came in.
SmallVector<Value> TileEmitter::widenPairs(ArrayRef<Value> elements) {
  SmallVector<Value> result;
  for (unsigned i = 0; i < elements.size(); i += 2) {
    Value word = b.make<LLVM::BitcastOp>(b.getI32Type(), b.pack(elements.slice(i, 2)));
    for (Value bits : {Value(b.make<arith::ShLIOp>(word, b.i32(16))),
                       Value(b.make<arith::AndIOp>(word, b.i32(int32_t(0xFFFF0000))))})
      result.push_back(b.make<arith::BitcastOp>(b.getF32Type(), bits));
  }
  return result;
}

/// What a division by a constant multiplies by instead: a division takes a dozen
/// instructions, and a call for what is not ordinary. Off by a unit in the last place.
static std::optional<double> inverseOfDivisor(Operation *op) {
  APFloat divisor(0.0);
  if (!isa<arith::DivFOp>(op) || !matchPattern(op->getOperand(1), m_ConstantFloat(&divisor)))
    return std::nullopt;
  double inverse = 1 / divisor.convertToDouble();
  if (!std::isnormal(float(inverse)))
    return std::nullopt;
  return inverse;
}

/// Whether `op` multiplies, on the other side of a branch, and something else than sums takes what
/// it makes. A sum that took the factors in its place would spare no multiplication, and keep them
/// until it is made: a state that is scaled in place would be copied before the branch.
static bool isUsedAsProduct(Operation *op) {
  return isa<arith::MulFOp>(op) && isOnOtherSide(op) &&
         !llvm::all_of(op->getUsers(), llvm::IsaPred<arith::AddFOp, arith::SubFOp>);
}

/// `count` elements of `op`'s result, of as many of its operands or of one that is all of
/// them.
SmallVector<Value> TileEmitter::elementwise(Operation *op, ArrayRef<ArrayRef<Value>> operands,
                                            unsigned count) {
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  if (isa<arith::ExtFOp>(op) && type.isF32() && operands[0].size() % 2 == 0 &&
      operands[0].front().getType().isBF16())
    return widenPairs(operands[0]);
  if (isa<math::ExpOp, math::Exp2Op>(op) && type.isF32())
    return exponentials(op, operands[0], count);
  SmallVector<Value> elements;
  std::optional<double> inverse = type.isF32() ? inverseOfDivisor(op) : std::nullopt;
  for (unsigned i = 0; i < count; ++i) {
    auto element = [&](ArrayRef<Value> all) { return all.size() == 1 ? all[0] : all[i]; };
    if (inverse) {
      elements.push_back(b.make<arith::MulFOp>(element(operands[0]), b.f32(*inverse)));
      continue;
    }
    if (isa<vector::BroadcastOp>(op)) {
      elements.push_back(element(operands[0]));
      continue;
    }
    IRMapping mapping;
    for (auto [operand, all] : llvm::zip(op->getOperands(), operands))
      mapping.map(operand, element(all));
    Operation *clone = b.clone(*op, mapping);
    clone->removeAttr(kLayoutsAttr);
    if (isa<arith::MulFOp, arith::AddFOp, arith::SubFOp>(clone) && !isUsedAsProduct(op))
      cast<arith::ArithFastMathInterface>(clone)->setAttr(
          "fastmath",
          arith::FastMathFlagsAttr::get(b.getContext(), arith::FastMathFlags::contract));
    clone->getResult(0).setType(type);
    elements.push_back(clone->getResult(0));
  }
  return elements;
}

/// An index is an i32 where it is a counter, a number of chunks, or what sums and differences
/// of those make, and else an i64. Each register counts in what goes on all through a loop.
Value TileEmitter::emitIndex(Operation *op) {
  Value result = op->getResult(0);
  APInt number;
  // No sums of counters and of constants so small leave 32 bits.
  constexpr unsigned kSmallBits = 20;
  if (matchPattern(op, m_ConstantInt(&number)))
    return number.isSignedIntN(kSmallBits) ? b.i32(number.getSExtValue())
                                           : b.i64(number.getSExtValue());
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
    Value from = op->getOperand(0);
    if (!from.getType().isIndex())
      return b.resize(scalar(from), b.getI64Type(), isa<arith::IndexCastOp>(op));
    return b.resize(wideIndex(from), result.getType(), isa<arith::IndexCastOp>(op));
  }
  bool staysNarrow = isa<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp>(op) &&
                     llvm::all_of(op->getOperands(), [&](Value operand) {
                       return scalar(operand).getType().isInteger(32);
                     });
  // Of rows that are left it only counts whether they are fewer than a chunk's, and by how many:
  // no chunk starts far behind the end. For a branch that is one register, not two.
  auto isBound = [&](Operation *user) {
    return isa<WindowOp>(user) || (isa<arith::MinSIOp>(user) &&
                                   matchPattern(user->getOperand(1), m_ConstantInt(&number)) &&
                                   number.isSignedIntN(kSmallBits));
  };
  if (isa<arith::SubIOp>(op) && op->getOperand(0) == program.getLength() && !staysNarrow &&
      llvm::all_of(op->getUsers(), isBound) && op->isUsedOutsideOfBlock(op->getBlock())) {
    Value left = b.sub(wideIndex(op->getOperand(0)), wideIndex(op->getOperand(1)));
    constexpr int64_t most = int64_t(1) << 30;
    return b.narrow(b.min(b.max(left, b.i64(-most)), b.i64(most)));
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand,
                operand.getType().isIndex() && !staysNarrow ? wideIndex(operand) : scalar(operand));
  Operation *clone = b.clone(*op, mapping);
  if (!result.getType().isIndex())
    return clone->getResult(0);
  clone->getResult(0).setType(staysNarrow ? b.getI32Type() : b.getI64Type());
  // A sequence has fewer than 2^31 chunks of 16 rows or more.
  constexpr int64_t kFewestRows = 16;
  bool isCount = isa<arith::CeilDivUIOp>(op) && op->getOperand(0) == program.getLength() &&
                 matchPattern(op->getOperand(1), m_ConstantInt(&number)) && number.sge(kFewestRows);
  return isCount ? b.narrow(clone->getResult(0)) : clone->getResult(0);
}

static bool isOfIndices(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), [](Type type) { return type.isIndex(); }) ||
         op->getResult(0).getType().isIndex();
}

void TileEmitter::emitElementwise(Operation *op) {
  Value result = op->getResult(0);
  if (isOfIndices(op))
    return scalars.map(result, emitIndex(op));
  Type type = getElementTypeOrSelf(result.getType());
  LayoutAttr layout = isTile(result) ? layoutOf(result) : LayoutAttr();
  SmallVector<ArrayRef<Value>> operands;
  SmallVector<Value> single(op->getNumOperands());
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isTile(operand))
      single[i] = scalar(operand);
    operands.push_back(isTile(operand) ? ArrayRef<Value>(placed(operand).elements) : single[i]);
  }
  SmallVector<Value> elements;
  DenseElementsAttr constant;
  unsigned count = layout ? sizeOf(result.getType(), layout) : 1;
  if (isTile(result) && matchPattern(op, m_Constant(&constant))) {
    elements.push_back(
        b.make<arith::ConstantOp>(cast<TypedAttr>(constant.getSplatValue<Attribute>())));
  } else if (isa<arith::TruncFOp>(op) && operands[0].size() % 2 == 0 && operands[0].size() > 1) {
    elements = roundPairs(operands[0], type);
    // Accumulators of the iteration before are read where this stands, not behind products.
    if (warpgroups && isTile(result) && isFragments(layout) && isa<scf::ForOp>(op->getParentOp()))
      elements = heldHere(elements);
  } else {
    elements = elementwise(op, operands, count);
  }
  if (!layout) {
    scalars.map(result, elements.front());
    return;
  }
  Placed tile;
  tile.layout = layout;
  tile.type = result.getType();
  tile.elements = elements;
  tiles[result] = tile;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

/// Takes values of `program`'s `values` from the front of `from`.
void TileEmitter::bind(ValueRange values, ValueRange from) {
  for (Value value : values) {
    if (!isTile(value)) {
      scalars.map(value, from.front());
      from = from.drop_front();
      continue;
    }
    Placed tile;
    tile.layout = layoutOf(value);
    tile.type = value.getType();
    unsigned size = sizeOf(tile.type, tile.layout);
    tile.elements.assign(from.begin(), from.begin() + size);
    from = from.drop_front(size);
    tiles[value] = tile;
  }
}

SmallVector<Value> TileEmitter::flatten(ValueRange values) {
  SmallVector<Value> flat;
  for (Value value : values)
    if (isTile(value))
      flat.append(placed(value).elements);
    else
      flat.push_back(value.getType().isIndex() ? wideIndex(value) : scalar(value));
  return flat;
}

/// Whether ops under `op` read or write shared memory. In roles, those on rings wait for
/// each other by other means than barriers.
static bool touchesShared(Operation *op) {
  bool inRole = op->getParentOfType<RoleOp>() != nullptr;
  return op
      ->walk([&](Operation *inner) {
        // There is nothing to wait for.
        if (auto take = dyn_cast<TakeOp>(inner); take && take.getHeld())
          return WalkResult::advance();
        if (inRole && isa<AcquireOp, FillOp, TakeOp, ReleaseOp>(inner))
          return WalkResult::advance();
        return isa<TileDialect, vector::VectorDialect>(inner->getDialect())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the first op of `body` that touches shared memory has a barrier anyway.
bool TileEmitter::beginsWithBarrier(Block &body) const {
  for (Operation &op : body)
    if (touchesShared(&op)) {
      auto take = dyn_cast<TakeOp>(op);
      return take && !take.getHeld() && !rings.lookup(take.getRing()).mbarriers.end;
    }
  return false;
}

/// Where a loop counts from, to and by: i32 where all of it is.
std::array<Value, 3> TileEmitter::boundsOf(scf::ForOp op) {
  Value from = scalar(op.getLowerBound()), to = scalar(op.getUpperBound()),
        step = scalar(op.getStep());
  auto isNarrow = [](Value value) { return value.getType().isInteger(32); };
  if (from.getType() == step.getType() && to.getType() == step.getType())
    return {from, to, step};
  auto least = op.getUpperBound().getDefiningOp<arith::MinSIOp>();
  auto any = [&](llvm::function_ref<bool(Value)> is) {
    return least && llvm::any_of(least->getOperands(), is);
  };
  if (!isNarrow(from) || !isNarrow(step) ||
      !any([&](Value operand) { return isNarrow(scalar(operand)); }))
    return {wideIndex(op.getLowerBound()), wideIndex(op.getUpperBound()), wideIndex(op.getStep())};
  // What is no more than something narrow may be far below 0; but of rows that are left no
  // chunk's start is 2^31 rows behind the end.
  bool isLeft = any([&](Value operand) {
    auto left = operand.getDefiningOp<arith::SubIOp>();
    return left && left.getLhs() == program.getLength();
  });
  if (!isLeft)
    to = b.max(to, b.i64(std::numeric_limits<int32_t>::min()));
  return {from, b.narrow(to), step};
}

/// Vectors that are made before `loop` and used behind it are made no later than here: else the
/// compiler would make them there, and have all that they are made of in registers meanwhile.
void TileEmitter::holdVectorsOver(scf::ForOp loop) {
  Block &block = *loop->getBlock();
  for (Operation &op : llvm::make_range(block.begin(), loop->getIterator()))
    for (Value result : op.getResults()) {
      auto type = dyn_cast<VectorType>(result.getType());
      auto tile = tiles.find(result);
      bool isHeld = type && type.getRank() == 1 && type.getElementType().isF32() &&
                    tile != tiles.end() && tile->second.elements.size() > 1 &&
                    llvm::any_of(result.getUsers(), [&](Operation *user) {
                      return loop->isBeforeInBlock(block.findAncestorOpInBlock(*user));
                    });
      if (isHeld)
        tile->second.elements = heldHere(tile->second.elements);
    }
}

/// Iterations are ordered by a barrier at each one's head, or those that they need where it
/// is known what they touch.
void TileEmitter::emitFor(scf::ForOp op) {
  awaitAll();
  finishSums();
  holdVectorsOver(op);
  auto [from, to, step] = boundsOf(op);
  SmallVector<Value> inits = flatten(op.getInitArgs());
  SharedMemory::Pending before = memory.pending;
  auto loop = b.make<scf::ForOp>(from, to, step, inits);
  {
    OpBuilder::InsertionGuard guard(b);
    Location outer = b.loc;
    b.setInsertionPointToStart(loop.getBody());
    ValueRange args = loop.getRegionIterArgs();
    scalars.map(op.getInductionVar(), loop.getInductionVar());
    bind(op.getRegionIterArgs(), args);
    for (auto [arg, init] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
      if (isTile(arg) && isInShared(layoutOf(arg)))
        tiles[arg] = placed(init);
    bool isOrdered = !touchesShared(op) || beginsWithBarrier(*op.getBody());
    auto known = loopEnds.known.find(op);
    bool isKnown = known != loopEnds.known.end();
    if (isKnown)
      memory.pending.add(known->second, /*isOld=*/loopEnds.areInPlace);
    if (!isOrdered && (!isKnown || loopEnds.haveBarriers))
      barrier();
    emitBlock(*op.getBody());
    SmallVector<Value> next = flatten(op.getBody()->getTerminator()->getOperands());
    awaitAll();
    finishSums();
    // The barrier at the head does not know what it must fence.
    if (warpgroups && !isOrdered && (!isKnown || loopEnds.haveBarriers) && memory.pending.unfenced)
      fenceForProducts();
    if (!isOrdered)
      loopEnds.found[op] = memory.pending;
    if (isKnown)
      loopEnds.wrong |= !(loopEnds.haveBarriers ? known->second.coversSent(memory.pending)
                                                : known->second.covers(memory.pending));
    // The next iteration does not know.
    if (!isKnown)
      awaitSent();
    // A loop made with no values to carry comes with its terminator.
    if (!next.empty())
      b.make<scf::YieldOp>(next);
    b.loc = outer;
  }
  memory.pending.add(before);
  bind(op.getResults(), loop.getResults());
  for (auto [result, init] : llvm::zip(op.getResults(), op.getInitArgs()))
    if (isTile(result) && isInShared(layoutOf(result)))
      tiles[result] = placed(init);
}

static bool isUsedIn(Value value, Region &region) {
  return llvm::any_of(usersOfPlace(value),
                      [&](Operation *user) { return region.isAncestor(user->getParentRegion()); });
}

void TileEmitter::emitIf(scf::IfOp op) {
  awaitAll();
  finishSums();
  SmallVector<Type> types;
  for (Value result : op.getResults()) {
    Type type = getElementTypeOrSelf(result.getType());
    types.append(isTile(result) ? sizeOf(result.getType(), layoutOf(result)) : 1,
                 type.isIndex() ? b.getI64Type() : type);
  }
  auto branch =
      b.make<scf::IfOp>(types, scalar(op.getCondition()), /*withElseRegion=*/!!op.elseBlock());
  // Behind it is what either side has left.
  SharedMemory::Pending before = memory.pending, after;
  if (!op.elseBlock())
    after = before;
  auto emitBranch = [&](Block &from, Block *to) {
    OpBuilder::InsertionGuard guard(b);
    // What only the other side uses lies here for nothing.
    SmallVector<SharedMemory::Range> unused;
    for (Value value : lastUses.lookup(op))
      if (auto it = tiles.find(value);
          it != tiles.end() && it->second.range.end && !isUsedIn(value, *from.getParent()))
        unused.push_back(it->second.range);
    for (const SharedMemory::Range &range : unused)
      memory.release(range);
    if (types.empty())
      b.setInsertionPoint(to->getTerminator());
    else
      b.setInsertionPointToStart(to);
    memory.pending = before;
    // What follows from a thread's place is made where it is used: for the other side, and for
    // many products, it would take registers all through the loop around.
    auto outside = std::make_tuple(thread, lane, warp, warpgroup, group, member, inBranch);
    inBranch = op.elseBlock() != nullptr;
    if (warpgroups && inBranch && (&from == op.elseBlock() || hasManyProducts(from)))
      locateThread(heldHere(thread).front());
    emitBlock(from);
    std::tie(thread, lane, warp, warpgroup, group, member, inBranch) = outside;
    SmallVector<Value> results = flatten(from.getTerminator()->getOperands());
    awaitAll();
    finishSums();
    if (!types.empty())
      b.make<scf::YieldOp>(results);
    after.add(memory.pending);
    for (const SharedMemory::Range &range : unused)
      memory.occupy(range);
  };
  emitBranch(*op.thenBlock(), branch.thenBlock());
  if (op.elseBlock())
    emitBranch(*op.elseBlock(), branch.elseBlock());
  memory.pending = after;
  bind(op.getResults(), branch.getResults());
}
