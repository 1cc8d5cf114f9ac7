//===- FusePrograms.cpp - two programs in one loop over a sequence ---------===//
//
// Fuses two programs over one sequence. The first program saves the state at the start of each
// chunk. From the saved states its chunks can be computed in any order. So the second program
// computes them in its own order, in the iteration that has the same rows, and results that passed
// from one to the other through memory stay on chip. The first program is reduced to computing and
// saving the states.
//
// For example, a backward pass over a sequence recomputes the outputs' gradients from the saved
// states in the same loop that computes the gradient of the state.
//
//===----------------------------------------------------------------------===//
#include "passes/program/FusePrograms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Passes.h"
#include "passes/program/ChunkSums.h"
#include "passes/program/SimplifyProgram.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {
#define GEN_PASS_DEF_FUSEPROGRAMS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

//===----------------------------------------------------------------------===//
// Recognising
//===----------------------------------------------------------------------===//

namespace {
/// A program that consists of one loop over chunks.
struct ChunkLoop {
  ProgramOp program;
  scf::ForOp loop;
  Value chunk, firstRow;

  static FailureOr<ChunkLoop> of(ProgramOp program) {
    auto loops = program.getBlock().getOps<scf::ForOp>();
    if (!llvm::hasSingleElement(loops) || program.getSlices() != 1 ||
        program.getSaveEvery() != program.getChunk())
      return failure();
    ChunkLoop result{program, *loops.begin(), {}, {}};
    // There is one state slot per chunk, so a slot's index is the chunk's.
    result.loop.walk([&](Operation *op) {
      Value slots = op->getNumOperands() ? op->getOperand(isa<StoreSlotOp>(op) ? 1 : 0) : Value();
      if (isa<StoreSlotOp>(op) && llvm::is_contained(program.getSaveArgs(), slots))
        result.chunk = cast<StoreSlotOp>(op).getIndex();
      if (isa<LoadSlotOp>(op) && llvm::is_contained(program.getSavedArgs(), slots))
        result.chunk = cast<LoadSlotOp>(op).getIndex();
    });
    if (!result.chunk)
      return failure();
    for (Operation *user : result.chunk.getUsers())
      if (auto mul = dyn_cast<arith::MulIOp>(user))
        result.firstRow = mul;
    if (!result.firstRow)
      return failure();
    return result;
  }
};

/// The ops between two programs that depend on the first.
SmallVector<Operation *> dependentsOf(ProgramOp first, ProgramOp second) {
  llvm::SmallSetVector<Operation *, 4> needers;
  auto isNeeded = [&](Value value) {
    Operation *maker = value.getDefiningOp();
    return maker && (maker == first || needers.contains(maker));
  };
  for (Operation *op = first->getNextNode(); op && op != second; op = op->getNextNode()) {
    WalkResult walked = op->walk([&](Operation *inner) {
      return llvm::any_of(inner->getOperands(), isNeeded) ? WalkResult::interrupt()
                                                          : WalkResult::advance();
    });
    if (walked.wasInterrupted())
      needers.insert(op);
  }
  return needers.takeVector();
}

class Fuser {
public:
  Fuser(ChunkLoop first, ChunkLoop second) : first(first), second(second) {}

  bool isPossible() {
    ProgramOp a = first.program, b = second.program;
    if (a.getChunk() != b.getChunk() || a.getCuSeqlens() != b.getCuSeqlens() ||
        bool(a.getSegments()) != bool(b.getSegments()) || a.getTrailing() || b.getTrailing() ||
        a.getSkipped() || b.getSkipped() || !a.getInto().empty() || !b.getInto().empty() ||
        a.getSequences().front() != b.getSequences().front() || !b.getSaves().empty())
      return false;
    auto isFirst = [&](Value tensor) { return tensor.getDefiningOp() == a; };
    if (llvm::none_of(b.getSavedStates(), isFirst) || llvm::none_of(b.getSequences(), isFirst))
      return false;
    // Ops that depend on the first program move after both.
    SmallVector<Operation *> needers = dependentsOf(a, b);
    auto isLater = [&](Value value) { return llvm::is_contained(needers, value.getDefiningOp()); };
    if (a->getBlock() != b->getBlock() || llvm::any_of(b->getOperands(), isLater))
      return false;
    return findStates() && findRows() && findForwarded();
  }

  FusedPrograms run() {
    FusedPrograms fused;
    for (const ChunkSum &sum : sums)
      fused.sums.push_back(sum.finalState(first.program));
    OpBuilder after(second.program);
    after.setInsertionPointAfter(second.program);
    fused.states = makeStates(after);
    fused.all = makeAll(after, fused.states);
    return fused;
  }

private:
  static bool isWhole(OperandRange offsets) {
    return llvm::all_of(offsets, [](Value v) { return isConstantIntValue(v, 0); });
  }

  /// Finds the store that saves each carried value at the start of a chunk.
  bool findStates() {
    for (auto [number, carried] : llvm::enumerate(first.loop.getRegionIterArgs())) {
      if (std::optional<ChunkSum> sum = ChunkSum::of(first.program, first.loop, number)) {
        sums.push_back(*sum);
        continue;
      }
      StoreSlotOp found;
      for (auto store : first.loop.getBody()->getOps<StoreSlotOp>()) {
        Value tile = store.getTile();
        if (auto rounded = tile.getDefiningOp<arith::TruncFOp>())
          tile = rounded.getIn();
        if (tile == carried && isWhole(store.getOffsets()) && store.getIndex() == first.chunk)
          found = store;
      }
      if (!found)
        return false;
      states.push_back({carried, found});
    }
    return true;
  }

  /// Finds the only store of each output of the first program.
  bool findRows() {
    unsigned count = 0;
    for (auto store : first.loop.getBody()->getOps<StoreOp>()) {
      if (store.getFirst() != first.firstRow || !isConstantIntValue(store.getChannel(), 0) ||
          rows.contains(store.getRows()))
        return false;
      rows[store.getRows()] = store;
      ++count;
    }
    return count == first.program.getOutputs().size();
  }

  /// Checks that the second program loads the first's outputs exactly as they were stored.
  bool findForwarded() {
    for (auto [arg, tensor] :
         llvm::zip(second.program.getSequenceArgs(), second.program.getSequences())) {
      auto number = llvm::find(first.program.getOutputs(), tensor);
      if (number == first.program.getOutputs().end())
        continue;
      StoreOp store =
          rows[first.program.getOutputArgs()[number - first.program.getOutputs().begin()]];
      for (Operation *user : arg.getUsers()) {
        auto load = dyn_cast<LoadOp>(user);
        if (!load || load.getFirst() != second.firstRow ||
            !isConstantIntValue(load.getChannel(), 0) ||
            load.getType() != store.getTile().getType() ||
            load->getBlock() != second.loop.getBody())
          return false;
      }
    }
    return true;
  }

  /// Clones the whole body of a program.
  static void cloneBody(ProgramOp from, ProgramOp to, IRMapping &mapping) {
    OpBuilder b = OpBuilder::atBlockEnd(&to.getBlock());
    for (Operation &op : from.getBlock())
      b.clone(op, mapping);
  }

  static void mapScalars(ProgramOp from, ProgramOp to, IRMapping &mapping) {
    mapping.map(from.getScalars(), to.getScalars());
  }

  static ProgramOp create(OpBuilder &b, ProgramOp like, TypeRange outputs, TypeRange finals,
                          ArrayRef<Value> sequences, ArrayRef<Value> parameters,
                          ArrayRef<Type> parameterTypes, ValueRange saved) {
    auto program = ProgramOp::create(
        b, like.getLoc(), outputs, finals, like.getSaves().getTypes(), sequences, parameters,
        like.getInitialStates(), saved, like.getCuSeqlens(), like.getTurns(), like.getRemembered(),
        /*skipped=*/Value(), /*into=*/ValueRange(), like.getChunk(), like.getSaveEveryAttr(),
        like.getSegmentsAttr(), like.getSlices(), like.getCorrects(), like.getTrailingAttr(),
        like.getTrailingReverse(), /*into_results=*/nullptr);
    Block &block = program.getBody().emplaceBlock();
    for (Type type : program.argumentTypes(parameterTypes))
      block.addArgument(type, like.getLoc());
    return program;
  }

  /// Creates the first program without its outputs and what only they need.
  ProgramOp makeStates(OpBuilder &b) {
    ProgramOp from = first.program;
    // Which sequences are still read shows after simplifying a trial copy.
    auto trial = cast<ProgramOp>(b.clone(*from));
    scf::ForOp loop = *trial.getBlock().getOps<scf::ForOp>().begin();
    for (auto store : llvm::make_early_inc_range(loop.getBody()->getOps<StoreOp>()))
      store.erase();
    for (const ChunkSum &sum : sums)
      sum.removeFrom(loop);
    simplifyProgram(trial);
    SmallVector<Value> sequences, parameters(from.getParameters());
    SmallVector<unsigned> kept;
    int64_t heads = headsOf(from.getSequences().front());
    auto isNeeded = [&](unsigned i) { return !trial.getSequenceArgs()[i].use_empty(); };
    // The first sequence determines the number of heads.
    for (unsigned i = 0; i < from.getSequences().size(); ++i)
      if (isNeeded(i) &&
          (!i || (!ShapedType::isDynamic(heads) && headsOf(from.getSequences()[i]) == heads))) {
        kept.push_back(i);
        break;
      }
    if (kept.empty())
      kept.push_back(0);
    for (unsigned i = 0; i < from.getSequences().size(); ++i)
      if (isNeeded(i) && !llvm::is_contained(kept, i))
        kept.push_back(i);
    for (unsigned i : kept)
      sequences.push_back(from.getSequences()[i]);
    SmallVector<Type> parameterTypes(trial.getParameterArgs().getTypes());
    SmallVector<Type> finals;
    SmallVector<Value> finalArgs;
    for (auto [i, type] : llvm::enumerate(from.getFinalStates().getTypes()))
      if (llvm::none_of(sums, [&](const ChunkSum &sum) { return sum.finalState(from) == i; })) {
        finals.push_back(type);
        finalArgs.push_back(trial.getFinalArgs()[i]);
      }
    ProgramOp made = create(b, from, {}, finals, sequences, parameters, parameterTypes, {});
    IRMapping mapping;
    for (auto [k, i] : llvm::enumerate(kept))
      mapping.map(trial.getSequenceArgs()[i], made.getSequenceArgs()[k]);
    mapping.map(trial.getParameterArgs(), made.getParameterArgs());
    mapping.map(trial.getInitialArgs(), made.getInitialArgs());
    mapping.map(finalArgs, made.getFinalArgs());
    mapping.map(trial.getSaveArgs(), made.getSaveArgs());
    mapScalars(trial, made, mapping);
    cloneBody(trial, made, mapping);
    trial.erase();
    return made;
  }

  static int64_t headsOf(Value sequence) {
    return cast<RankedTensorType>(sequence.getType()).getDimSize(2);
  }

  /// Creates the second program with the first's outputs.
  ProgramOp makeAll(OpBuilder &b, ProgramOp states) {
    ProgramOp a = first.program, from = second.program;
    // Sequences and parameters of both programs, without those that passed between them.
    SmallVector<Value> sequences, parameters(from.getParameters());
    SmallVector<Type> parameterTypes(from.getParameterArgs().getTypes());
    auto addSequence = [&](Value tensor) {
      if (!llvm::is_contained(sequences, tensor) && tensor.getDefiningOp() != a)
        sequences.push_back(tensor);
    };
    llvm::for_each(from.getSequences(), addSequence);
    llvm::for_each(a.getSequences(), addSequence);
    SmallVector<unsigned> placeOfParameter;
    for (auto [tensor, arg] : llvm::zip(a.getParameters(), a.getParameterArgs())) {
      unsigned place = 0;
      while (place < parameters.size() &&
             (parameters[place] != tensor || parameterTypes[place] != arg.getType()))
        ++place;
      if (place == parameters.size()) {
        parameters.push_back(tensor);
        parameterTypes.push_back(arg.getType());
      }
      placeOfParameter.push_back(place);
    }
    SmallVector<Type> outputs(from.getOutputs().getTypes());
    SmallVector<unsigned> given;
    for (auto [i, output] : llvm::enumerate(a.getOutputs()))
      if (llvm::any_of(output.getUsers(), [&](Operation *user) { return user != from; })) {
        given.push_back(i);
        outputs.push_back(output.getType());
      }
    SmallVector<Value> saved(from.getSavedStates());
    SmallVector<unsigned> placeOfSave;
    for (auto [save, made] : llvm::zip(a.getSaves(), states.getSaves())) {
      auto it = llvm::find(saved, save);
      placeOfSave.push_back(it - saved.begin());
      if (it == saved.end())
        saved.push_back(save);
      llvm::replace(saved, save, made);
    }
    SmallVector<Type> finals(from.getFinalStates().getTypes());
    for (const ChunkSum &sum : sums)
      finals.push_back(a.getFinalStates()[sum.finalState(a)].getType());
    ProgramOp made = create(b, from, outputs, finals, sequences, parameters, parameterTypes, saved);

    auto sequenceArg = [&](Value tensor) {
      return made.getSequenceArgs()[llvm::find(sequences, tensor) - sequences.begin()];
    };
    IRMapping mapping;
    // The second program's body; loads of the first's outputs are replaced below.
    for (auto [arg, tensor] : llvm::zip(from.getSequenceArgs(), from.getSequences()))
      if (tensor.getDefiningOp() != a)
        mapping.map(arg, sequenceArg(tensor));
    mapping.map(from.getParameterArgs(),
                made.getParameterArgs().take_front(from.getParameters().size()));
    mapping.map(from.getInitialArgs(), made.getInitialArgs());
    mapping.map(from.getSavedArgs(), made.getSavedArgs().take_front(from.getSavedStates().size()));
    mapping.map(from.getOutputArgs(), made.getOutputArgs().take_front(from.getOutputs().size()));
    mapping.map(from.getFinalArgs(), made.getFinalArgs().take_front(from.getFinalStates().size()));
    mapScalars(from, made, mapping);
    cloneBody(from, made, mapping);
    auto loop = cast<scf::ForOp>(mapping.lookup(second.loop.getOperation()));
    Value chunk = mapping.lookup(second.chunk), firstRow = mapping.lookup(second.firstRow);

    // Rows that both programs read are loaded before either one's stores.
    Operation *place = firstRow.getDefiningOp();
    auto isForwarded = [&](LoadOp load) {
      return isa<BlockArgument>(load.getRows()) &&
             cast<BlockArgument>(load.getRows()).getOwner() == &from.getBlock();
    };
    SmallVector<LoadOp> forwarded;
    for (auto load : llvm::make_early_inc_range(loop.getBody()->getOps<LoadOp>())) {
      if (isForwarded(load)) {
        forwarded.push_back(load);
      } else if (load.getFirst() == firstRow && isConstantIntValue(load.getChannel(), 0)) {
        load->moveAfter(place);
        place = load;
      }
    }

    // The first program's chunk, computed from the saved state.
    IRMapping inner;
    for (auto [arg, tensor] : llvm::zip(a.getSequenceArgs(), a.getSequences()))
      inner.map(arg, sequenceArg(tensor));
    for (auto [arg, number] : llvm::zip(a.getParameterArgs(), placeOfParameter))
      inner.map(arg, made.getParameterArgs()[number]);
    mapScalars(a, made, inner);
    for (auto [k, i] : llvm::enumerate(given))
      inner.map(a.getOutputArgs()[i], made.getOutputArgs()[from.getOutputs().size() + k]);
    OpBuilder prologue(loop), body(loop->getContext());
    for (Operation &op : a.getBlock()) {
      if (&op == first.loop)
        break;
      if (!isa<LoadSlotOp>(op) || !llvm::is_contained(a.getInitialArgs(), op.getOperand(0)))
        prologue.clone(op, inner);
    }
    inner.map(first.chunk, chunk);
    inner.map(first.firstRow, firstRow);
    loop = carrySums(sums, first.loop, loop, inner);
    body.setInsertionPointAfter(place);
    for (auto [carried, store] : this->states) {
      unsigned number = llvm::find(a.getSaveArgs(), store.getSlots()) - a.getSaveArgs().begin();
      SmallVector<Value> offsets(store.getOffsets().size());
      for (auto [offset, zero] : llvm::zip(offsets, store.getOffsets()))
        offset = inner.lookup(zero);
      Value state =
          loadState(loop, body, store, made.getSavedArgs()[placeOfSave[number]], chunk, offsets);
      if (state.getType() != carried.getType())
        state = arith::ExtFOp::create(body, store.getLoc(), carried.getType(), state);
      inner.map(carried, state);
    }
    for (Operation &op : first.loop.getBody()->without_terminator()) {
      if (op.getNumResults() == 1 && inner.contains(op.getResult(0)))
        continue;
      auto store = dyn_cast<StoreOp>(op);
      if (isa<StoreSlotOp>(op) || (store && !inner.contains(store.getRows())))
        continue;
      body.clone(op, inner);
    }
    finishSums(sums, first.loop, made, loop, inner);
    for (LoadOp load : forwarded) {
      unsigned number =
          llvm::find(from.getSequenceArgs(), load.getRows()) - from.getSequenceArgs().begin();
      Value tensor = from.getSequences()[number];
      unsigned output = llvm::find(a.getOutputs(), tensor) - a.getOutputs().begin();
      load.replaceAllUsesWith(inner.lookup(rows[a.getOutputArgs()[output]].getTile()));
      load.erase();
    }
    simplifyProgram(made);
    return made;
  }

  /// Loads what `store` saved; reuses the second program's load if it has one.
  static Value loadState(scf::ForOp loop, OpBuilder &body, StoreSlotOp store, Value slots,
                         Value chunk, ValueRange offsets) {
    for (auto load : loop.getBody()->getOps<LoadSlotOp>())
      if (load.getSlots() == slots && load.getIndex() == chunk &&
          load.getType() == store.getTile().getType() && isWhole(load.getOffsets())) {
        Operation *before = &*body.getInsertionPoint();
        if (before->isBeforeInBlock(load))
          load->moveBefore(before);
        return load;
      }
    return LoadSlotOp::create(body, store.getLoc(), store.getTile().getType(), slots, chunk,
                              offsets);
  }

  ChunkLoop first, second;
  /// The values that the first loop carries: states with the stores that save them, and sums.
  SmallVector<std::pair<Value, StoreSlotOp>> states;
  SmallVector<ChunkSum> sums;
  /// By output argument of the first program.
  llvm::DenseMap<Value, StoreOp> rows;
};
} // namespace

FailureOr<FusedPrograms> ejk::fusePrograms(ProgramOp first, ProgramOp second) {
  FailureOr<ChunkLoop> a = ChunkLoop::of(first), b = ChunkLoop::of(second);
  if (failed(a) || failed(b))
    return failure();
  Fuser fuser(*a, *b);
  if (!fuser.isPossible())
    return failure();
  return fuser.run();
}

void ejk::replacePrograms(ProgramOp first, ProgramOp second, FusedPrograms fused) {
  Operation *last = fused.all;
  for (Operation *needer : dependentsOf(first, second)) {
    needer->moveAfter(last);
    last = needer;
  }
  ResultRange outputs = fused.all.getOutputs();
  unsigned own = second.getOutputs().size();
  second.getOutputs().replaceAllUsesWith(outputs.take_front(own));
  ResultRange finals = fused.all.getFinalStates();
  ValueRange sums = finals.take_back(fused.sums.size());
  second.getFinalStates().replaceAllUsesWith(finals.drop_back(fused.sums.size()));
  second.erase();
  ValueRange given = outputs.drop_front(own);
  for (Value output : first.getOutputs())
    if (!output.use_empty()) {
      output.replaceAllUsesWith(given.front());
      given = given.drop_front();
    }
  ValueRange states = fused.states.getFinalStates();
  for (auto [i, final] : llvm::enumerate(first.getFinalStates())) {
    ValueRange &from = llvm::is_contained(fused.sums, i) ? sums : states;
    final.replaceAllUsesWith(from.front());
    from = from.drop_front();
  }
  first.getSaves().replaceAllUsesWith(fused.states.getSaves());
  first.erase();
}

namespace {
struct FuseProgramsPass : ejk::impl::FuseProgramsBase<FuseProgramsPass> {
  void runOnOperation() override {
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) { programs.push_back(program); });
    for (ProgramOp second : programs)
      for (Value saved : second.getSavedStates()) {
        auto first = saved.getDefiningOp<ProgramOp>();
        if (!first)
          continue;
        if (FailureOr<FusedPrograms> fused = fusePrograms(first, second); succeeded(fused)) {
          replacePrograms(first, second, *fused);
          ++numFused;
          break;
        }
        ++numDeclined;
      }
  }
};
} // namespace
