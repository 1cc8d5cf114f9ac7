//===- StateDivider.cpp - a chunk's front, and what has the state ----------===//
#include "passes/program/StateDivider.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/program/SimplifyProgram.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

std::optional<ProgramsByState> StateDivider::run() {
  first = firstRowOfChunk();
  if (!first || !carriesMatrix())
    return {};
  classify();
  for (Value value : handedOver)
    (goesByRows(value) ? byRows : bySlot).push_back(value);
  bool areOfChunk = llvm::all_of(byRows, [&](Value tile) { return isOfChunk(tile); });
  if (byRows.empty() || !areOfChunk || !findOps() || !suits())
    return {};
  ProgramsByState result;
  makeFront(result);
  makeState(result);
  finish(result);
  return result;
}

VectorType StateDivider::typeOfPart(Value value) { return cast<VectorType>(value.getType()); }

bool StateDivider::isMatrix(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getRank() == 2;
}

bool StateDivider::isOfChunk(Value tile) {
  return cast<VectorType>(tile.getType()).getDimSize(0) == int64_t(program.getChunk());
}

bool StateDivider::carriesMatrix() {
  return llvm::any_of(loop.getRegionIterArgs(), [](Value arg) { return isMatrix(arg.getType()); });
}

/// The chunk's first row, from which a tile of all of its rows is stored or loaded; null if none
/// is.
Value StateDivider::firstRowOfChunk() {
  for (auto store : loop.getBody()->getOps<StoreOp>())
    if (llvm::is_contained(program.getOutputArgs(), store.getRows()) && isOfChunk(store.getTile()))
      return store.getFirst();
  for (auto load : loop.getBody()->getOps<LoadOp>())
    if (llvm::is_contained(program.getSequenceArgs(), load.getRows()) &&
        isOfChunk(load.getResult()))
      return load.getFirst();
  return {};
}

/// Calls `visit` with the values from the loop's body that `op` and its regions use.
void StateDivider::forEachOperand(Operation *op, llvm::function_ref<void(Value)> visit) {
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (operand.getParentBlock() == loop.getBody())
        visit(operand);
  });
}

void StateDivider::classify() {
  for (Operation &op : *loop.getBody()) {
    bool isPureOp = isMemoryEffectFree(&op) || isa<LoadOp, LoadSlotOp, SlotRowsOp>(op);
    bool needsState = !isPureOp || op.hasTrait<OpTrait::IsTerminator>() || isOfState(&op),
         isWorth = false;
    forEachOperand(&op, [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      needsState |= def ? onState.contains(def) : operand != loop.getInductionVar();
      isWorth |= def && worth.contains(def);
    });
    if (needsState)
      onState.insert(&op);
    else if (isWorth || isCostly(&op))
      worth.insert(&op);
  }
  // What the state's side computes again is on it, too.
  llvm::SetVector<Operation *> onSide(onState.begin(), onState.end());
  for (unsigned i = 0; i < onSide.size(); ++i)
    forEachOperand(onSide[i], [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      if (!def || onState.contains(def))
        return;
      if (isHandedOver(operand))
        handedOver.insert(operand);
      else
        onSide.insert(def);
    });
}

/// What the front computes of the program, with all that this needs. False if it would need a slot
/// or a slice.
bool StateDivider::findOps() {
  SmallVector<Value> left(handedOver.begin(), handedOver.end());
  left.append({first, loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
  while (!left.empty()) {
    Value value = left.pop_back_val();
    Operation *def = value.getDefiningOp();
    if (value == program.getSlice())
      return false;
    if (!def || !program.getBody().isAncestor(value.getParentRegion()) || !ops.insert(def).second)
      continue;
    def->walk([&](Operation *inner) { left.append(inner->operand_begin(), inner->operand_end()); });
  }
  return llvm::none_of(ops, [](Operation *op) { return isa<LoadSlotOp, SlotRowsOp>(op); });
}

ProgramOp StateDivider::create(TypeRange outputs, TypeRange finals, TypeRange saves,
                               ValueRange sequences, ValueRange initials, ValueRange saved,
                               IntegerAttr saveEvery, int64_t slices, SegmentsAttr segments) {
  auto made = ProgramOp::create(b, program.getLoc(), outputs, finals, saves, sequences,
                                program.getParameters(), initials, saved, program.getCuSeqlens(),
                                program.getTurns(), program.getRemembered(), program.getSkipped(),
                                /*into=*/ValueRange(), program.getChunk(), saveEvery, segments,
                                slices, program.getCorrects(), program.getTrailingAttr(),
                                program.getTrailingReverse(),
                                /*into_results=*/nullptr);
  Block &block = made.getBody().emplaceBlock();
  for (Type type : made.argumentTypes(program.getParameterArgs().getTypes()))
    block.addArgument(type, program.getLoc());
  return made;
}

void StateDivider::makeFront(ProgramsByState &result) {
  // The first sequence says how many heads there are.
  SmallVector<Value> sequences;
  auto isLoaded = [&](Value arg) {
    return llvm::any_of(arg.getUsers(), [&](Operation *user) { return ops.contains(user); });
  };
  for (auto [i, arg] : llvm::enumerate(program.getSequenceArgs()))
    if (i == 0 || isLoaded(arg)) {
      result.sequencesOfFront.push_back(i);
      sequences.push_back(program.getSequences()[i]);
    }
  // The tensor that has a tile of each chunk as rows, and the one that has a vector in a slot of
  // each.
  auto like = cast<RankedTensorType>(program.getSequences().front().getType());
  SmallVector<Type> rows, slots;
  for (Value tile : byRows) {
    auto type = cast<VectorType>(tile.getType());
    SmallVector<int64_t> shape(like.getShape().take_front(3));
    llvm::append_range(shape, type.getShape().drop_front());
    rows.push_back(RankedTensorType::get(shape, type.getElementType()));
  }
  for (Value value : bySlot) {
    VectorType part = typeOfPart(value);
    slots.push_back(RankedTensorType::get(
        {ShapedType::kDynamic, like.getDimSize(2), part.getDimSize(0)}, part.getElementType()));
  }
  auto saveEvery = slots.empty() ? IntegerAttr() : b.getI64IntegerAttr(program.getChunk());
  ProgramOp front =
      create(rows, {}, slots, sequences, {}, {}, saveEvery, slicesOfFront(), segmentsOfFront());
  IRMapping map;
  for (auto [own, i] : llvm::zip(front.getSequenceArgs(), result.sequencesOfFront))
    map.map(program.getSequenceArgs()[i], own);
  map.map(program.getParameterArgs(), front.getParameterArgs());
  map.map(program.getScalars(), front.getScalars().take_front(program.getNumScalars()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&front.getBlock());
  for (Operation &op : program.getBlock())
    if (ops.contains(&op) && op.isBeforeInBlock(loop))
      b.clone(op, map);
  Location loc = loop.getLoc();
  auto own = scf::ForOp::create(b, loc, map.lookup(loop.getLowerBound()),
                                map.lookup(loop.getUpperBound()), map.lookup(loop.getStep()));
  map.map(loop.getInductionVar(), own.getInductionVar());
  b.setInsertionPoint(own.getBody()->getTerminator());
  cloneBody(map);
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), start = map.lookup(first);
  for (auto [tile, to] : llvm::zip(byRows, front.getOutputArgs()))
    StoreOp::create(b, tile.getLoc(), map.lookup(tile), to, start, zero);
  Value every = bySlot.empty()
                    ? Value()
                    : arith::ConstantIndexOp::create(b, loc, program.getChunk()).getResult();
  Value slot = every ? arith::DivUIOp::create(b, loc, start, every).getResult() : Value();
  for (auto [value, to] : llvm::zip(bySlot, front.getSaveArgs()))
    StoreSlotOp::create(b, loc, partOf(value, map.lookup(value)), to, slot, zero);
  b.setInsertionPointToEnd(&front.getBlock());
  EndOp::create(b, program.getLoc());
  result.front = front;
}

void StateDivider::makeState(ProgramsByState &result) {
  SmallVector<Value> sequences(program.getSequences()), saved(program.getSavedStates());
  llvm::append_range(sequences, result.front.getOutputs());
  llvm::append_range(saved, result.front.getSaves());
  IntegerAttr saveEvery =
      bySlot.empty() ? program.getSaveEveryAttr() : result.front.getSaveEveryAttr();
  ProgramOp state = create(program.getOutputs().getTypes(), program.getFinalStates().getTypes(),
                           program.getSaves().getTypes(), sequences, program.getInitialStates(),
                           saved, saveEvery, program.getSlices(), program.getSegmentsAttr());
  IRMapping map;
  map.map(program.getSequenceArgs(),
          state.getSequenceArgs().take_front(program.getSequences().size()));
  map.map(program.getParameterArgs(), state.getParameterArgs());
  map.map(program.getInitialArgs(), state.getInitialArgs());
  map.map(program.getSavedArgs(), state.getSavedArgs().take_front(program.getSavedStates().size()));
  map.map(program.getOutputArgs(), state.getOutputArgs());
  map.map(program.getFinalArgs(), state.getFinalArgs());
  map.map(program.getSaveArgs(), state.getSaveArgs());
  map.map(program.getScalars(), state.getScalars());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&state.getBlock());
  for (Operation &op : program.getBlock())
    b.clone(op, map);
  auto takeInPlace = [&](Value value, llvm::function_ref<Value(Location, Value)> load) {
    Value made = map.lookup(value), start = map.lookup(first);
    Operation *maker = made.getDefiningOp(), *def = start.getDefiningOp();
    bool isInBody = def && def->getBlock() == maker->getBlock();
    if (isInBody && (takesEarly(value) || maker->isBeforeInBlock(def)))
      b.setInsertionPointAfter(def);
    else if (takesEarly(value))
      b.setInsertionPointToStart(maker->getBlock());
    else
      b.setInsertionPoint(maker);
    made.replaceAllUsesWith(load(value.getLoc(), start));
  };
  auto index = [&](Location loc, int64_t number) -> Value {
    return arith::ConstantIndexOp::create(b, loc, number);
  };
  for (auto [tile, arg] : llvm::zip(byRows, state.getSequenceArgs().take_back(byRows.size())))
    takeInPlace(tile, [&, arg = arg, type = tile.getType()](Location loc, Value start) {
      return LoadOp::create(b, loc, type, arg, start, index(loc, 0));
    });
  for (auto [value, arg] : llvm::zip(bySlot, state.getSavedArgs().take_back(bySlot.size())))
    takeInPlace(value, [&, value = value, arg = arg](Location loc, Value start) {
      VectorType part = typeOfPart(value);
      Value slot = arith::DivUIOp::create(b, loc, start, index(loc, program.getChunk()));
      auto numbers = RowsType::get(b.getContext(), part.getElementType());
      Value elements = SlotRowsOp::create(b, loc, numbers, arg, slot);
      return fromPart(value, LoadOp::create(b, loc, part, elements, index(loc, 0), index(loc, 0)));
    });
  simplifyProgram(state);
  result.state = state;
}
