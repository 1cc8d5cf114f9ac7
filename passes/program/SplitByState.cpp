//===- SplitByState.cpp - what a chunk has of its rows alone ---------------===//
//
// An op of the loop over chunks depends on the state if it uses a tile that the loop carries, or
// what depends on one. Of the others, matmuls and inverses are worth handing over, with all that is
// computed from them, and so are vectors, whose sums and exponentials are chains of latencies, and
// whose loads take registers for their addresses. What the state's side uses of those goes through a
// tensor; everything else that both sides need is computed in both.
//
//===----------------------------------------------------------------------===//
#include "passes/program/SplitByState.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/program/SimplifyProgram.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

scf::ForOp ejk::loopOverChunks(ProgramOp program) {
  auto loops = program.getBlock().getOps<scf::ForOp>();
  return !loops.empty() && llvm::hasSingleElement(loops) ? *loops.begin() : scf::ForOp();
}

/// The operand of `mul` that spreads a vector over a matrix, and the other one; null if there is none.
static std::pair<BroadcastOp, Value> scaleOf(arith::MulFOp mul) {
  for (unsigned i : {0, 1})
    if (auto spread = mul->getOperand(i).getDefiningOp<BroadcastOp>())
      return {spread, mul->getOperand(1 - i)};
  return {};
}

/// Multiplies vectors that scale a matrix one after the other with each other. The front then has two
/// vectors to multiply, and the state's side one matrix to scale.
static void combineScales(scf::ForOp loop) {
  for (auto mul : llvm::make_early_inc_range(loop.getBody()->getOps<arith::MulFOp>())) {
    auto [outer, scaled] = scaleOf(mul);
    auto inner = scaled ? scaled.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!inner || !inner->hasOneUse() || inner->getBlock() != mul->getBlock())
      continue;
    auto [other, matrix] = scaleOf(inner);
    if (!other || other.getDim() != outer.getDim())
      continue;
    OpBuilder b(mul);
    Value vector =
        arith::MulFOp::create(b, mul.getLoc(), other.getVector(), outer.getVector());
    Value spread =
        BroadcastOp::create(b, mul.getLoc(), outer.getType(), vector, outer.getDimAttr());
    mul->setOperands({matrix, spread});
    inner.erase();
  }
}

namespace {
class Divider {
public:
  Divider(ProgramOp program, scf::ForOp loop) : program(program), loop(loop), b(program) {}

  std::optional<ProgramsByState> run() {
    first = firstRowOfChunk();
    if (!first || !carriesMatrix())
      return {};
    classify();
    if (!hasMatmul || handedOver.empty() ||
        !llvm::all_of(handedOver, [&](Value tile) { return isOfChunk(tile); }))
      return {};
    auto like = cast<RankedTensorType>(program.getSequences().front().getType());
    for (Value tile : handedOver)
      tensors.push_back(rowsOf(cast<VectorType>(tile.getType()), like));
    ProgramsByState result;
    if (!makeFront(result))
      return {};
    makeState(result);
    return result;
  }

private:
  bool carriesMatrix() {
    return llvm::any_of(loop.getRegionIterArgs(), [](Value arg) {
      auto type = dyn_cast<VectorType>(arg.getType());
      return type && type.getRank() == 2;
    });
  }

  /// The chunk's first row, from which a tile of all of its rows is stored or loaded; null if none
  /// is.
  Value firstRowOfChunk() {
    auto isWhole = [&](Value tile) {
      return cast<VectorType>(tile.getType()).getDimSize(0) == int64_t(program.getChunk());
    };
    for (auto store : loop.getBody()->getOps<StoreOp>())
      if (llvm::is_contained(program.getOutputArgs(), store.getRows()) && isWhole(store.getTile()))
        return store.getFirst();
    for (auto load : loop.getBody()->getOps<LoadOp>())
      if (llvm::is_contained(program.getSequenceArgs(), load.getRows()) &&
          isWhole(load.getResult()))
        return load.getFirst();
    return {};
  }

  /// Whether row i of `tile` can be row i of the chunk.
  bool isOfChunk(Value tile) {
    return cast<VectorType>(tile.getType()).getDimSize(0) == int64_t(program.getChunk());
  }

  /// Calls `visit` with the values from the loop's body that `op` and its regions use.
  void forEachOperand(Operation *op, llvm::function_ref<void(Value)> visit) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == loop.getBody())
          visit(operand);
    });
  }

  void classify() {
    for (Operation &op : *loop.getBody()) {
      bool isPureOp = isMemoryEffectFree(&op) || isa<LoadOp, LoadSlotOp, SlotRowsOp>(op);
      bool needsState = !isPureOp || op.hasTrait<OpTrait::IsTerminator>(), isWorth = false;
      forEachOperand(&op, [&](Value operand) {
        Operation *def = operand.getDefiningOp();
        needsState |= def ? onState.contains(def) : operand != loop.getInductionVar();
        isWorth |= def && worth.contains(def);
      });
      if (needsState) {
        onState.insert(&op);
      } else if (isWorth || isa<DotOp, SolveOp, InvertDiagonalOp, MergeInversesOp>(op)) {
        worth.insert(&op);
        hasMatmul |= isa<DotOp>(op);
      }
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

  /// Whether the state's side takes `value`, which depends on no state, instead of computing it.
  bool isHandedOver(Value value) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (!type)
      return false;
    Operation *def = value.getDefiningOp();
    if (type.getRank() == 2)
      return worth.contains(def);
    return !isa<vector::BroadcastOp>(def) && !def->hasTrait<OpTrait::ConstantLike>();
  }

  /// The tensor that has `tile` of each chunk as rows.
  RankedTensorType rowsOf(VectorType tile, RankedTensorType like) {
    SmallVector<int64_t> shape(like.getShape().take_front(3));
    if (tile.getRank() == 2)
      shape.push_back(tile.getDimSize(1));
    return RankedTensorType::get(shape, tile.getElementType());
  }

  ProgramOp create(TypeRange outputs, TypeRange finals, TypeRange saves, ValueRange sequences,
                   ValueRange initials, ValueRange saved, IntegerAttr saveEvery, int64_t slices) {
    auto made = ProgramOp::create(
        b, program.getLoc(), outputs, finals, saves, sequences, program.getParameters(), initials,
        saved, program.getCuSeqlens(), program.getTurns(), program.getRemembered(),
        program.getChunk(), saveEvery, program.getSegmentsAttr(), slices, program.getCorrects(),
        program.getTrailingAttr(), program.getTrailingReverse());
    Block &block = made.getBody().emplaceBlock();
    for (Type type : made.argumentTypes(program.getParameterArgs().getTypes()))
      block.addArgument(type, program.getLoc());
    return made;
  }

  /// What the front computes of the program, with all that this needs.
  bool findFront(llvm::DenseSet<Operation *> &ops) {
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

  bool makeFront(ProgramsByState &result) {
    llvm::DenseSet<Operation *> ops;
    if (!findFront(ops))
      return false;
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
    ProgramOp front = create(tensors, {}, {}, sequences, {}, {}, {}, /*slices=*/1);
    IRMapping map;
    for (auto [own, i] : llvm::zip(front.getSequenceArgs(), result.sequencesOfFront))
      map.map(program.getSequenceArgs()[i], own);
    map.map(program.getParameterArgs(), front.getParameterArgs());
    map.map(program.getScalars(), front.getScalars());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&front.getBlock());
    for (Operation &op : program.getBlock())
      if (ops.contains(&op) && op.isBeforeInBlock(loop))
        b.clone(op, map);
    auto own = scf::ForOp::create(b, loop.getLoc(), map.lookup(loop.getLowerBound()),
                                  map.lookup(loop.getUpperBound()), map.lookup(loop.getStep()));
    map.map(loop.getInductionVar(), own.getInductionVar());
    b.setInsertionPoint(own.getBody()->getTerminator());
    // The state's side waits for vectors first.
    llvm::DenseSet<Operation *> early;
    SmallVector<Value> left = llvm::filter_to_vector(handedOver, [](Value tile) {
      return cast<VectorType>(tile.getType()).getRank() == 1;
    });
    while (!left.empty())
      if (Operation *def = left.pop_back_val().getDefiningOp();
          def && def->getBlock() == loop.getBody() && early.insert(def).second)
        left.append(def->operand_begin(), def->operand_end());
    for (bool isEarly : {true, false})
      for (Operation &op : *loop.getBody())
        if (ops.contains(&op) && early.contains(&op) == isEarly)
          b.clone(op, map);
    Value zero = arith::ConstantIndexOp::create(b, loop.getLoc(), 0);
    for (auto [tile, rows] : llvm::zip(handedOver, front.getOutputArgs()))
      StoreOp::create(b, tile.getLoc(), map.lookup(tile), rows, map.lookup(first), zero);
    b.setInsertionPointToEnd(&front.getBlock());
    EndOp::create(b, program.getLoc());
    result.front = front;
    return true;
  }

  void makeState(ProgramsByState &result) {
    SmallVector<Value> sequences(program.getSequences());
    llvm::append_range(sequences, result.front.getOutputs());
    ProgramOp state = create(program.getOutputs().getTypes(), program.getFinalStates().getTypes(),
                             program.getSaves().getTypes(), sequences, program.getInitialStates(),
                             program.getSavedStates(), program.getSaveEveryAttr(),
                             program.getSlices());
    IRMapping map;
    map.map(program.getSequenceArgs(),
            state.getSequenceArgs().take_front(program.getSequences().size()));
    map.map(program.getParameterArgs(), state.getParameterArgs());
    map.map(program.getInitialArgs(), state.getInitialArgs());
    map.map(program.getSavedArgs(), state.getSavedArgs());
    map.map(program.getOutputArgs(), state.getOutputArgs());
    map.map(program.getFinalArgs(), state.getFinalArgs());
    map.map(program.getSaveArgs(), state.getSaveArgs());
    map.map(program.getScalars(), state.getScalars());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&state.getBlock());
    for (Operation &op : program.getBlock())
      b.clone(op, map);
    auto rows = state.getSequenceArgs().take_back(handedOver.size());
    for (auto [tile, arg] : llvm::zip(handedOver, rows)) {
      Value made = map.lookup(tile);
      b.setInsertionPoint(made.getDefiningOp());
      Value start = map.lookup(first);
      if (Operation *def = start.getDefiningOp();
          def && def->getBlock() == b.getInsertionBlock() && !def->isBeforeInBlock(made.getDefiningOp()))
        b.setInsertionPointAfter(def);
      Value zero = arith::ConstantIndexOp::create(b, tile.getLoc(), 0);
      made.replaceAllUsesWith(LoadOp::create(b, tile.getLoc(), made.getType(), arg, start, zero));
    }
    simplifyProgram(state);
    result.state = state;
  }

  ProgramOp program;
  scf::ForOp loop;
  OpBuilder b;
  llvm::SetVector<Operation *> onState;
  llvm::DenseSet<Operation *> worth;
  /// Tiles of rows alone that the state's side takes.
  llvm::SetVector<Value> handedOver;
  SmallVector<Type> tensors;
  bool hasMatmul = false;
  Value first;
};
} // namespace

std::optional<ProgramsByState> ejk::splitByState(ProgramOp program) {
  scf::ForOp loop = loopOverChunks(program);
  if (!loop || !program.getBlock().getOps<MakeRingOp>().empty())
    return {};
  OpBuilder b(program);
  auto copy = cast<ProgramOp>(b.clone(*program));
  combineScales(loopOverChunks(copy));
  std::optional<ProgramsByState> parts = Divider(copy, loopOverChunks(copy)).run();
  copy.erase();
  return parts;
}
