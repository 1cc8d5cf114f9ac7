//===- JoinPartitions.cpp - two halves of a program as partitions -----------===//
//
// The halves have loops over the same chunks. What the front stores becomes puts, what the state
// loads of that becomes takes, and rows that both load are copied once, by the state's warps, into
// rings from which both take.
//
//===----------------------------------------------------------------------===//
#include "lowering/select/JoinPartitions.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/DeferStores.h"
#include "lowering/pipeline/LiveRanges.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/pipeline/TmaTiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// Joins the halves of one program.
class Partitioner {
public:
  Partitioner(ProgramOp whole, const ProgramsByState &parts, cost::PartitionRegisters registers)
      : whole(whole), front(parts.front), state(parts.state), parts(parts), registers(registers),
        b(whole.getContext()), loc(whole.getLoc()) {}

  /// Returns the program with partitions, or why there is none.
  FailureOr<ProgramOp> run(unsigned stages, StringRef &why) {
    frontLoop = loopOverChunks(front);
    stateLoop = loopOverChunks(state);
    if (!loadAlike() || !takeComputedTiles(stages)) {
      why = "the two sides load other rows of a tensor, or have a tile in other places or "
            "orientations";
      return failure();
    }
    useResultsEarly(*stateLoop.getBody());
    multistageLoads(state, kRowStages, /*apart=*/false, /*wide=*/true,
                    /*refills=*/cost::refillsAtEnd(!whole.getOutputs().empty()));
    stateLoop = loopOverChunks(state);
    if (!usesTmaLoads(state, /*forPartitions=*/true)) {
      why = "its rows do not arrive by TMA";
      return failure();
    }
    deferStores(state, /*always=*/true);
    stateLoop = loopOverChunks(state);
    if (!takeRowsOfFront()) {
      why = "rows are in two rings";
      return failure();
    }
    ProgramOp program = join();
    multistageLoads(program, kRowStages); // of the front's own rows
    return program;
  }

private:
  static constexpr unsigned kRowStages = 2;

  //===--------------------------------------------------------------------===//
  // The ring of computed tiles
  //===--------------------------------------------------------------------===//

  /// What is handed over together: tiles that the front makes one after the other.
  struct Handed {
    MakeRingOp ring; // in the state's program
    SmallVector<Value> tiles;
    SmallVector<LoadOp> loads;
  };

  /// Replaces the state's loads of the front's outputs by takes. The front's stores become puts.
  bool takeComputedTiles(unsigned stages) {
    auto outputs = front.getOutputArgs();
    auto loaded = state.getSequenceArgs().take_back(outputs.size());
    SmallVector<std::pair<Value, LoadOp>> all;
    for (auto [arg, output] : llvm::zip(loaded, outputs)) {
      LoadOp load;
      for (Operation *user : arg.getUsers()) {
        if (load || !isa<LoadOp>(user) || user->getBlock() != stateLoop.getBody())
          return false;
        load = cast<LoadOp>(user);
      }
      SmallVector<StoreOp> stores = storesTo(output);
      if (!load || !isInShared(layoutOf(load)) || stores.size() != 1)
        return false;
      Value tile = stores.front().getTile();
      auto convert = tile.getDefiningOp<ConvertOp>();
      if (convert && isInShared(convert.getLayout()))
        tile = convert.getTile();
      if (isInShared(layoutOf(tile)) || tile.getParentBlock() != frontLoop.getBody() ||
          (isSwizzledF32(load) && !canBeSwizzledF32(layoutOf(tile), layoutOf(load))))
        return false;
      all.push_back({tile, load});
    }
    llvm::sort(all, [](auto &a, auto &b) {
      return a.first.getDefiningOp()->isBeforeInBlock(b.first.getDefiningOp());
    });
    for (auto &[tile, load] : all) {
      if (handed.empty() || !areTogether(handed.back().tiles.back(), tile))
        handed.emplace_back();
      handed.back().tiles.push_back(tile);
      handed.back().loads.push_back(load);
    }
    for (Handed &each : handed)
      take(each, stages);
    return true;
  }

  /// What `tile` is a term of, where it is one (ejk-split-operands); otherwise the tile.
  static Value wholeOf(Value tile) {
    auto rounded = tile.getDefiningOp<arith::TruncFOp>();
    if (!rounded)
      return tile;
    auto rest = rounded.getIn().getDefiningOp<arith::SubFOp>();
    return rest && rest.getRhs().getDefiningOp<arith::ExtFOp>() ? rest.getLhs() : rounded.getIn();
  }
  /// Whether two tiles that the front makes one after the other are handed over at once: vectors,
  /// and the terms of one tile.
  static bool areTogether(Value one, Value next) {
    auto rankOf = [](Value tile) { return cast<VectorType>(tile.getType()).getRank(); };
    return (rankOf(one) == 1 && rankOf(next) == 1) || wholeOf(one) == wholeOf(next);
  }

  void take(Handed &each, unsigned stages) {
    SmallVector<Type> types;
    SmallVector<Attribute> layouts;
    Operation *first = nullptr, *last = nullptr;
    for (LoadOp load : each.loads) {
      types.push_back(load.getType());
      layouts.push_back(layoutOf(load));
      for (Operation *user : load->getUsers()) {
        Operation *here = stateLoop.getBody()->findAncestorOpInBlock(*user);
        if (!first || here->isBeforeInBlock(first))
          first = here;
        if (!last || last->isBeforeInBlock(here))
          last = here;
      }
    }
    b.setInsertionPointToStart(&state.getBlock());
    each.ring = MakeRingOp::create(b, loc, RingType::get(b.getContext(), stages, types),
                                   /*tma=*/false, /*place=*/IntegerAttr(),
                                   /*mbarriers=*/IntegerAttr());
    b.setInsertionPoint(first);
    auto take = TakeOp::create(b, loc, types, each.ring, stateLoop.getInductionVar());
    take->setAttr(kLayoutsAttr, b.getArrayAttr(layouts));
    b.setInsertionPointAfter(last);
    ReleaseOp::create(b, loc, each.ring, stateLoop.getInductionVar());
    for (auto [load, tile] : llvm::zip(each.loads, take.getTiles())) {
      load.getResult().replaceAllUsesWith(tile);
      load.erase();
    }
  }

  //===--------------------------------------------------------------------===//
  // The rows of both
  //===--------------------------------------------------------------------===//

  /// The state's argument for rows of the front.
  Value rowsInState(Value rows) {
    auto args = front.getSequenceArgs();
    auto place = llvm::find(args, rows);
    return place == args.end()
               ? Value()
               : state.getSequenceArgs()[parts.sequencesOfFront[place - args.begin()]];
  }

  /// Whether an index of the front and one of the state are the same, in the same iteration.
  bool isSameIndex(Value ofFront, Value ofState) {
    if (ofFront == frontLoop.getInductionVar())
      return ofState == stateLoop.getInductionVar();
    for (auto [one, other] : llvm::zip(front.getScalars(), state.getScalars()))
      if (ofFront == one)
        return ofState == other;
    Operation *one = ofFront.getDefiningOp(), *other = ofState.getDefiningOp();
    auto same = [&](Value a, Value b) { return success(isSameIndex(a, b)); };
    return one && other && isPure(one) && one->getNumRegions() == 0 &&
           OperationEquivalence::isEquivalentTo(one, other, same, /*markEquivalent=*/nullptr,
                                                OperationEquivalence::IgnoreLocations);
  }

  /// Whether all that both load of one tensor are the same rows and columns, and lie alike in
  /// shared memory.
  bool loadAlike() {
    for (auto load : frontLoop.getBody()->getOps<LoadOp>())
      for (auto own : stateLoop.getBody()->getOps<LoadOp>())
        if (own.getRows() == rowsInState(load.getRows()) &&
            (own.getType() != load.getType() || layoutOf(own) != layoutOf(load) ||
             !isSameIndex(load.getFirst(), own.getFirst()) ||
             !isSameIndex(load.getChannel(), own.getChannel())))
          return false;
    return true;
  }

  /// Notes which tile of which ring of the state each load of the front is; none for what the front
  /// alone loads.
  bool takeRowsOfFront() {
    for (auto load : frontLoop.getBody()->getOps<LoadOp>()) {
      Value rows = rowsInState(load.getRows());
      std::optional<std::pair<MakeRingOp, unsigned>> found;
      for (auto ring : state.getBlock().getOps<MakeRingOp>())
        if (SmallVector<FillOp> fills = fillsOf(ring); !fills.empty())
          for (auto [i, filled] : llvm::enumerate(fills.front().getRows())) {
            if (filled != rows || ring.getType().getTiles()[i] != load.getType())
              continue;
            if (found)
              return false;
            found = {ring, i};
          }
      if (found)
        places[load] = *found;
    }
    return true;
  }

  //===--------------------------------------------------------------------===//
  // One program
  //===--------------------------------------------------------------------===//

  ProgramOp join() {
    b.setInsertionPoint(whole);
    auto program = ProgramOp::create(
        b, loc, whole.getOutputs().getTypes(), whole.getFinalStates().getTypes(),
        whole.getSaves().getTypes(), whole.getSequences(), whole.getParameters(),
        whole.getInitialStates(), whole.getSavedStates(), whole.getCuSeqlens(), whole.getTurns(),
        whole.getRemembered(), whole.getSkipped(), whole.getInto(), whole.getChunk(),
        whole.getSaveEveryAttr(), whole.getSegmentsAttr(), whole.getSlices(), whole.getCorrects(),
        whole.getTrailingAttr(), whole.getTrailingReverse(), whole.getIntoResultsAttr());
    program->setDiscardableAttrs(state->getDiscardableAttrDictionary());
    Block &block = program.getBody().emplaceBlock();
    for (Type type : program.argumentTypes(whole.getParameterArgs().getTypes()))
      block.addArgument(type, loc);
    IRMapping inState, inFront;
    inState.map(state.getSequenceArgs().drop_back(front.getOutputs().size()),
                program.getSequenceArgs());
    for (auto [arg, i] : llvm::zip(front.getSequenceArgs(), parts.sequencesOfFront))
      inFront.map(arg, program.getSequenceArgs()[i]);
    for (auto [map, half] : {std::pair(&inState, state), std::pair(&inFront, front)}) {
      map->map(half.getParameterArgs(), program.getParameterArgs());
      map->map(half.getScalars(), program.getScalars());
    }
    inState.map(state.getInitialArgs(), program.getInitialArgs());
    inState.map(state.getSavedArgs(), program.getSavedArgs());
    inState.map(state.getOutputArgs(), program.getOutputArgs());
    inState.map(state.getFinalArgs(), program.getFinalArgs());
    inState.map(state.getSaveArgs(), program.getSaveArgs());

    b.setInsertionPointToEnd(&block);
    cloneBefore(state, inState);
    cloneBefore(front, inFront);
    auto partitions = WarpSpecializeOp::create(b, loc);
    b.createBlock(&partitions.getBody());
    b.setInsertionPointToEnd(&partitions.getBody().front());
    auto partition = [&](StringRef name, int64_t warps, int64_t registers) {
      auto made = PartitionOp::create(b, loc, b.getStringAttr(name), b.getI64IntegerAttr(warps),
                                      b.getI64IntegerAttr(registers));
      made.getBody().emplaceBlock();
      return made;
    };
    PartitionOp ofFront = partition("front", cost::kFrontWarps, registers.front);
    PartitionOp forState = partition("state", cost::kManyWarps, registers.state);
    b.setInsertionPointToEnd(&ofFront.getBody().front());
    cloneFront(inFront, inState);
    b.setInsertionPointToEnd(&forState.getBody().front());
    for (Operation &op : state.getBlock().without_terminator())
      if (!inState.contains(&op))
        b.clone(op, inState);
    b.setInsertionPointToEnd(&block);
    EndOp::create(b, loc);
    return program;
  }

  /// Whether `op` stays before the partitions: rings, and scalars computed from scalars.
  static bool isBefore(Operation *op, IRMapping &map) {
    if (isa<MakeRingOp>(op))
      return true;
    return op->getNumRegions() == 0 && isPure(op) && !isa<TileDialect>(op->getDialect()) &&
           llvm::none_of(op->getResultTypes(), llvm::IsaPred<VectorType>) &&
           llvm::all_of(op->getOperands(), [&](Value v) { return map.contains(v); });
  }

  /// Clones such ops of a half; scalars that the program has already are found there.
  void cloneBefore(ProgramOp half, IRMapping &map) {
    for (Operation &op : half.getBlock().without_terminator()) {
      if (!isBefore(&op, map))
        continue;
      Operation *own = b.clone(op, map);
      for (Operation &other : *own->getBlock()) {
        if (&other == own || isa<MakeRingOp>(own))
          break;
        if (!OperationEquivalence::isEquivalentTo(&other, own,
                                                  OperationEquivalence::IgnoreLocations))
          continue;
        map.map(op.getResults(), other.getResults());
        map.map(&op, &other);
        own->erase();
        break;
      }
    }
  }

  void cloneFront(IRMapping &map, IRMapping &inState) {
    for (Operation &op : front.getBlock().without_terminator())
      if (!map.contains(&op) && &op != frontLoop)
        b.clone(op, map);
    auto loop =
        scf::ForOp::create(b, loc, map.lookup(frontLoop.getLowerBound()),
                           map.lookup(frontLoop.getUpperBound()), map.lookup(frontLoop.getStep()));
    Value counter = loop.getInductionVar();
    map.map(frontLoop.getInductionVar(), counter);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    // A take of each ring that has rows of the front, where these are used first.
    llvm::DenseMap<Value, TakeOp> takes;
    llvm::MapVector<Value, Operation *> lastUses;
    auto takeRows = [&](Value tile) {
      auto place = places.find(tile.getDefiningOp());
      if (place == places.end() || map.contains(tile))
        return;
      auto [maker, number] = place->second;
      Value ring = inState.lookup(maker.getRing());
      TakeOp &take = takes[ring];
      if (!take) {
        TakeOp like = takeOf(maker);
        take = TakeOp::create(b, loc, like.getResultTypes(), ring, counter);
        take->setAttr(kLayoutsAttr, like->getAttr(kLayoutsAttr));
      }
      map.map(tile, take.getTiles()[number]);
    };
    for (Operation &op : frontLoop.getBody()->without_terminator()) {
      if (places.contains(&op) || isa<StoreOp>(op) || isForStore(&op))
        continue;
      op.walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), takeRows); });
      Operation *own = b.clone(op, map);
      for (Value operand : own->getOperands())
        if (auto take = operand.getDefiningOp<TakeOp>())
          lastUses[take.getRing()] = own;
    }
    for (Handed &each : handed) {
      Value ring = inState.lookup(each.ring.getRing());
      SmallVector<Value> tiles =
          llvm::map_to_vector(each.tiles, [&](Value tile) { return map.lookup(tile); });
      b.setInsertionPointAfterValue(tiles.back());
      AcquireOp::create(b, loc, ring, counter);
      PutOp::create(b, loc, ring, counter, tiles);
    }
    for (auto &[ring, last] : lastUses) {
      b.setInsertionPointAfter(last);
      ReleaseOp::create(b, loc, ring, counter);
    }
  }

  /// Whether only stores use `op`'s result.
  static bool isForStore(Operation *op) {
    return isa<ConvertOp>(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<StoreOp>);
  }

  ProgramOp whole, front, state;
  const ProgramsByState &parts;
  cost::PartitionRegisters registers;
  OpBuilder b;
  Location loc;
  scf::ForOp frontLoop, stateLoop;
  SmallVector<Handed> handed;
  /// The ring, and the number there, of each tile that the front loads.
  llvm::MapVector<Operation *, std::pair<MakeRingOp, unsigned>> places;
};
} // namespace

FailureOr<ProgramOp> ejk::joinPartitions(ProgramOp whole, const ProgramsByState &parts,
                                         cost::PartitionRegisters registers, unsigned stages,
                                         StringRef &why) {
  return Partitioner(whole, parts, registers).run(stages, why);
}
