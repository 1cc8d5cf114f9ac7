//===- Chunk.cpp - a scan as a block program over chunks -------------------===//
//
// Writes the block program of a scan: loads of initial states, a loop over chunks whose
// body computes reads, outputs and the next states as tiles, and stores of final states.
// ChunkPlan.h analyses the scan; ChunkedState.h has the formulas for a K×V state.
//
//===----------------------------------------------------------------------===//
#include "passes/chunk/Chunk.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "passes/chunk/ChunkedState.h"
#include "passes/FloatBounds.h"
#include "passes/NumericRange.h"
#include "passes/Passes.h"
#include "passes/scan/ScanGroups.h"
#include "passes/scan/ScanProperties.h"

namespace ejk {
#define GEN_PASS_DEF_CHUNK
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// A last chunk of a sequence with at most so many rows takes the exact path, if gates per channel
/// make two paths.
static constexpr int64_t kExactPathRows = 4;

namespace {
/// Writes the block program of one scan.
class ChunkWriter {
public:
  ChunkWriter(ScanOp scan, const ChunkPlan &plan)
      : scan(scan), plan(plan), loc(scan.getLoc()), outer(scan->getContext()),
        inner(scan.getContext()), within(scan.getContext()), prologue(inner, loc),
        body(within, loc) {
    outer.setInsertionPointAfter(scan);
  }
  /// Returns the program, which follows the scan.
  tile::ProgramOp write();

private:
  void createProgram();
  void createLoop();
  /// `carried` are the loop's iter_args: the states of chains, then those of accumulators.
  void writeChunk(Value first, ValueRange carried);
  void storeOutputs(Value first);
  void storeFinals();
  /// The type of the tile of a state or of its slice.
  Type paddedState(Type type, bool sliceRows, bool sliceColumns);
  /// The initial value of a state, divided by `scale`.
  Value initialValue(unsigned number, bool sliceRows, bool sliceColumns, double scale = 1);
  SmallVector<Value> slotOffsets(Type slot, bool sliceRows, bool sliceColumns);
  unsigned initialArgument(unsigned number) {
    return llvm::count(scan.getHasInitial().take_front(number), true);
  }
  /// The state slot of a chunk among the saved states.
  Value slotOf(TileBuilder &e);
  /// Whether this chunk is the first, or the last, in scan order of the chunks of a state slot;
  /// null if every chunk has its own slot.
  Value isSlotBoundary(bool entering, Value count);
  ChunkedSaves savesOf(const StateChain &chain, ValueRange carried);
  /// Stores `value` times `scale`.
  void storeFinal(unsigned number, Value value, bool sliceRows, bool sliceColumns,
                  double scale = 1);

  ScanOp scan;
  const ChunkPlan &plan;
  Location loc;
  OpBuilder outer, inner, within;
  TileBuilder prologue, body;
  tile::ProgramOp program;
  std::unique_ptr<ChunkTiles> tiles;
  scf::ForOp loop;
  Value chunkNumber, entersSaved, leavesSaved;
  /// Outputs and final states that are used.
  SmallVector<unsigned> outputs, finals;
};
} // namespace

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

void ChunkWriter::createProgram() {
  SmallVector<Type> outputTypes, finalTypes, parameterTypes;
  for (auto [i, output] : llvm::enumerate(scan.getOutputs()))
    if (!output.use_empty()) {
      outputs.push_back(i);
      outputTypes.push_back(output.getType());
    }
  for (auto [i, state] : llvm::enumerate(scan.getFinalStates()))
    if (!state.use_empty()) {
      finals.push_back(i);
      finalTypes.push_back(state.getType());
    }
  for (Value arg : scan.getParameterArgs())
    parameterTypes.push_back(isa<VectorType>(arg.getType())
                                 ? tile::SlotsType::get(scan.getContext(), arg.getType())
                                 : arg.getType());
  program = tile::ProgramOp::create(
      outer, loc, outputTypes, finalTypes, scan.getSaves().getTypes(), scan.getSequences(),
      scan.getParameters(), scan.getInitialStates(), scan.getSavedStates(), scan.getCuSeqlens(),
      /*turns=*/Value(), scan.getRemembered(), /*skipped=*/Value(), /*into=*/ValueRange(),
      plan.chunk, scan.getSaveEveryAttr(), scan.getSegmentsAttr(), plan.slices,
      plan.options.corrects, scan.getTrailingAttr(), scan.getTrailing() && scan.getReverse(),
      /*into_results=*/nullptr);
  // A column is read as one number, which may be small beside its terms, and divide whole rows.
  auto isColumn = [](Value state) {
    return isMatrix(state) && llvm::is_contained(cast<VectorType>(state.getType()).getShape(), 1);
  };
  if (llvm::any_of(scan.getStateArgs(), isColumn))
    program->setAttr(kTwoTermsAttr, inner.getUnitAttr());
  Block &block = program.getBody().emplaceBlock();
  for (Type type : program.argumentTypes(parameterTypes))
    block.addArgument(type, loc);
  inner.setInsertionPointToEnd(&block);
  inner.setInsertionPoint(tile::EndOp::create(inner, loc));
}

tile::ProgramOp ChunkWriter::write() {
  createProgram();
  tiles = std::make_unique<ChunkTiles>(plan, program, prologue, body);
  createLoop();
  storeFinals();
  return program;
}

//===----------------------------------------------------------------------===//
// States in memory
//===----------------------------------------------------------------------===//

SmallVector<Value> ChunkWriter::slotOffsets(Type slot, bool sliceRows, bool sliceColumns) {
  SmallVector<Value> offsets;
  auto vector = dyn_cast<VectorType>(slot);
  for (int64_t dim = 0; vector && dim < vector.getRank(); ++dim)
    offsets.push_back(tiles->channelOffset(vector.getDimSize(dim), dim ? sliceColumns : sliceRows));
  return offsets;
}

Type ChunkWriter::paddedState(Type type, bool sliceRows, bool sliceColumns) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return type;
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(vector.getShape()))
    shape.push_back(plan.width(size, dim ? sliceColumns : sliceRows));
  return VectorType::get(shape, vector.getElementType());
}

Value ChunkWriter::initialValue(unsigned number, bool sliceRows, bool sliceColumns, double scale) {
  Type type = scan.getStateArgs()[number].getType();
  Type padded = paddedState(type, sliceRows, sliceColumns);
  if (!scan.getHasInitial()[number])
    return prologue.constant(padded, 0.0);
  Value loaded = tile::LoadSlotOp::create(
      inner, loc, padded, program.getInitialArgs()[initialArgument(number)], prologue.index(0),
      slotOffsets(type, sliceRows, sliceColumns));
  return scale == 1 ? loaded : prologue.div(loaded, prologue.constant(padded, scale));
}

void ChunkWriter::storeFinal(unsigned number, Value value, bool sliceRows, bool sliceColumns,
                             double scale) {
  auto place = llvm::find(finals, number);
  if (place == finals.end())
    return;
  Type type = scan.getStateArgs()[number].getType();
  tile::StoreSlotOp::create(inner, loc, prologue.scale(value, scale),
                            program.getFinalArgs()[place - finals.begin()], prologue.index(0),
                            slotOffsets(type, sliceRows, sliceColumns));
}

void ChunkWriter::storeFinals() {
  unsigned i = 0;
  for (const StateChain &chain : plan.chains)
    storeFinal(chain.number, loop.getResult(i++), chain.freeDim == 0, chain.freeDim == 1,
               chain.scale);
  for (const Accumulator &accumulator : plan.accumulators)
    storeFinal(accumulator.number, loop.getResult(i++), accumulator.isSliced, false);
}

Value ChunkWriter::slotOf(TileBuilder &e) {
  int64_t chunks = *scan.getSaveEvery() / plan.chunk;
  return chunks == 1 ? chunkNumber : e.divIndex(chunkNumber, prologue.index(chunks));
}

Value ChunkWriter::isSlotBoundary(bool entering, Value count) {
  int64_t chunks = *scan.getSaveEvery() / plan.chunk;
  if (chunks == 1)
    return {};
  auto isEqual = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(within, loc, arith::CmpIPredicate::eq, x, y);
  };
  Value position = body.remIndex(chunkNumber, prologue.index(chunks));
  if (entering != bool(scan.getReverse()))
    return isEqual(position, prologue.index(0));
  Value lastChunk = prologue.subIndex(count, prologue.index(1));
  int64_t together = 1;
  if (!entering && plan.options.saveEntries)
    together = std::max<int64_t>(plan.options.savedChunk / plan.chunk, 1);
  if (together > 1) {
    Value number = prologue.index(together);
    lastChunk = prologue.mulIndex(prologue.divIndex(lastChunk, number), number);
  }
  Value last = isEqual(position, prologue.index(chunks - together));
  Value end = isEqual(chunkNumber, lastChunk);
  return arith::OrIOp::create(within, loc, last, end);
}

/// `carried`: one value for each accumulator.
ChunkedSaves ChunkWriter::savesOf(const StateChain &chain, ValueRange carried) {
  ChunkedSaves saved;
  saved.enters = entersSaved;
  saved.leaves = leavesSaved;
  for (CheckpointOp checkpoint : chain.checkpoints)
    for (auto [accumulator, entry] : llvm::zip(plan.accumulators, carried))
      if (accumulator.checkpoint == checkpoint)
        saved.carried.push_back(entry);
  bool sliceRows = chain.freeDim == 0, sliceColumns = chain.freeDim == 1;
  saved.store = [=](TileBuilder &e, const StateChain::Save &save, Value value) {
    Value slots = program.getSaveArgs()[save.number];
    Type slot = cast<tile::SlotsType>(slots.getType()).getSlot();
    tile::StoreSlotOp::create(e.b, loc, e.round(value, getElementTypeOrSelf(slot)), slots,
                              slotOf(e), slotOffsets(slot, sliceRows, sliceColumns));
  };
  saved.load = [=](TileBuilder &e, CheckpointOp checkpoint) {
    ValueRange args = scan.getSavedArgs();
    Value slots = program.getSavedArgs()[llvm::find(args, checkpoint.getSaved()) - args.begin()];
    Type slot = cast<tile::SlotsType>(slots.getType()).getSlot();
    return e.widen(tile::LoadSlotOp::create(e.b, loc, paddedState(slot, sliceRows, sliceColumns),
                                            slots, slotOf(e),
                                            slotOffsets(slot, sliceRows, sliceColumns)));
  };
  return saved;
}

//===----------------------------------------------------------------------===//
// The loop over chunks
//===----------------------------------------------------------------------===//

void ChunkWriter::createLoop() {
  SmallVector<Value> initial;
  for (const StateChain &chain : plan.chains)
    initial.push_back(
        initialValue(chain.number, chain.freeDim == 0, chain.freeDim == 1, chain.scale));
  for (const Accumulator &accumulator : plan.accumulators)
    initial.push_back(initialValue(accumulator.number, accumulator.isSliced, false));
  Value zero = prologue.index(0), one = prologue.index(1);
  Value size = prologue.index(plan.chunk), length = program.getLength();
  Value count = arith::CeilDivUIOp::create(inner, loc, length, size);
  loop = scf::ForOp::create(inner, loc, zero, count, one, initial);
  within.setInsertionPointToEnd(loop.getBody());
  OpBuilder::InsertionGuard guard(inner);
  inner.setInsertionPoint(loop);
  Value number = loop.getInductionVar(), chunk = number;
  if (scan.getReverse())
    chunk = body.subIndex(prologue.subIndex(count, one), number);
  chunkNumber = chunk;
  Value first = body.mulIndex(chunk, size);
  if (scan.getSaveEvery()) {
    entersSaved = isSlotBoundary(/*entering=*/true, count);
    leavesSaved = isSlotBoundary(/*entering=*/false, count);
  }
  tiles->beginChunk(first, body.subIndex(length, first), entersSaved);
  writeChunk(first, loop.getRegionIterArgs());
}

void ChunkWriter::writeChunk(Value first, ValueRange carried) {
  Value rows = body.subIndex(program.getLength(), first);
  // Compares chunk numbers instead of row counts, so that no register for the count is live.
  Value more =
      prologue.addIndex(program.getLength(), prologue.index(plan.chunk - 1 - kExactPathRows));
  Value hasFewRows = arith::CmpIOp::create(within, loc, arith::CmpIPredicate::sge, chunkNumber,
                                           prologue.divIndex(more, prologue.index(plan.chunk)));
  llvm::DenseMap<const StateChain *, Value> states;
  for (auto [chain, state] : llvm::zip(plan.chains, carried))
    states[&chain] = state;
  ValueRange sums = carried.drop_front(plan.chains.size());
  for (auto [accumulator, entry] : llvm::zip(plan.accumulators, sums))
    if (!accumulator.checkpoint)
      tiles->setEntry(accumulator, entry);
  llvm::DenseMap<const StateChain *, Value> after;
  tiles->computeChain = [&](const StateChain &chain) {
    if (after.contains(&chain))
      return;
    ChunkedState computed(plan, chain, *tiles, body, rows, hasFewRows);
    ChunkedSaves saves = savesOf(chain, sums);
    after[&chain] = computed.compute(states[&chain], saves);
    computed.saveEnd(body, after[&chain], saves);
    for (auto [checkpoint, entry] : llvm::zip(chain.checkpoints, computed.entries()))
      for (const Accumulator &accumulator : plan.accumulators)
        if (accumulator.checkpoint == checkpoint)
          tiles->setEntry(accumulator, entry);
  };
  for (const StateChain &chain : plan.chains)
    tiles->computeChain(chain);
  storeOutputs(first);
  SmallVector<Value> next;
  for (const StateChain &chain : plan.chains)
    next.push_back(after[&chain]);
  for (const Accumulator &accumulator : plan.accumulators)
    next.push_back(tiles->exitOf(accumulator));
  scf::YieldOp::create(within, loc, next);
}

void ChunkWriter::storeOutputs(Value first) {
  for (auto [i, number] : llvm::enumerate(outputs)) {
    Value value = scan.getYield().getOutputs()[number];
    bool sliced = plan.isSliced(value);
    auto vector = dyn_cast<VectorType>(value.getType());
    Value channel = tiles->channelOffset(vector ? vector.getDimSize(0) : 1, sliced);
    tile::StoreOp::create(within, loc, tiles->tile(value, sliced), program.getOutputArgs()[i],
                          first, channel);
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

std::optional<tile::DotAlgorithm> ejk::algorithmOf(F32Matmuls matmuls) {
  switch (matmuls) {
  case F32Matmuls::none:
    return std::nullopt;
  case F32Matmuls::bf16x3:
    return tile::DotAlgorithm::bf16x3;
  case F32Matmuls::bf16x6:
    return tile::DotAlgorithm::bf16x6;
  }
  llvm_unreachable("unknown algorithm");
}

FailureOr<tile::ProgramOp> ejk::chunkScan(ScanOp scan, const ChunkSettings &settings) {
  ChunkPlan plan(scan, settings);
  if (failed(plan.analyze()))
    return failure();
  auto hasBlocks = [&](const StateChain &chain) {
    bool isGated = chain.isGated(Axis::key) || chain.isGated(Axis::value);
    return !isGated || ChunkedState::blockForm(plan, chain);
  };
  if (settings.strongGate && !llvm::all_of(plan.chains, hasBlocks))
    return failure();
  tile::ProgramOp program = ChunkWriter(scan, plan).write();
  if (settings.f32Matmuls)
    program.walk([&](Operation *op) {
      if (auto dot = dyn_cast<tile::DotOp>(op))
        dot.setAlgorithm(settings.f32Matmuls);
      else if (auto solve = dyn_cast<tile::SolveOp>(op))
        solve.setAlgorithm(settings.f32Matmuls);
    });
  // Tiles that several formulas use are computed once.
  IRRewriter rewriter(program.getContext());
  DominanceInfo dominance(program);
  eliminateCommonSubExpressions(rewriter, dominance, program);
  return program;
}

bool ejk::mayLeaveRange(ScanOp scan, int64_t chunk) {
  FloatBounds bounds;
  double least[2] = {}; // of a step, for keys and values
  for (auto decay : scan.getStep().getOps<DecayOp>())
    if (decay.getAxis() != Axis::head) {
      Bounds gate = bounds.of(decay.getGate());
      if (gate.most > 0)
        return true;
      least[decay.getAxis() == Axis::value] += gate.least;
    }
  return std::min(least[0], least[1]) * double(chunk / 2) < -range::kGuardNatsOfTwoAxes;
}

bool ejk::savesEntries(ArrayRef<ScanOp> group, int64_t chunk, std::optional<bool> may) {
  auto hasStates = [](ScanOp scan) { return bool(scan.getSaveEvery()); };
  return llvm::any_of(group, hasStates) &&
         llvm::all_of(group,
                      [&](ScanOp scan) { return scan.getSaveEvery().value_or(0) % chunk == 0; }) &&
         (may ? *may : maySaveEntries(group));
}

void ejk::replaceScan(ScanOp scan, tile::ProgramOp program) {
  auto replaceUsed = [&](ValueRange results, ValueRange made) {
    for (Value result : results)
      if (!result.use_empty()) {
        result.replaceAllUsesWith(made.front());
        made = made.drop_front();
      }
  };
  replaceUsed(scan.getOutputs(), program.getOutputs());
  replaceUsed(scan.getFinalStates(), program.getFinalStates());
  scan.getSaves().replaceAllUsesWith(program.getSaves());
  scan.erase();
}

namespace {
struct ChunkPass : ejk::impl::ChunkBase<ChunkPass> {
  using ChunkBase::ChunkBase;

  void runOnOperation() override {
    if (chunk < 16 || chunk > 128 || chunk % 16) {
      getOperation()->emitError("'chunk' must be a multiple of 16 from 16 to 128, but is ")
          << int64_t(chunk);
      return signalPassFailure();
    }
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    Correcting correcting = findCorrecting(getOperation());
    for (ArrayRef<ScanOp> group : groupScans(scans)) {
      SmallVector<std::pair<ScanOp, tile::ProgramOp>> made;
      ChunkSettings settings;
      settings.chunk = chunk;
      settings.force = force;
      settings.f32Matmuls = algorithmOf(f32Matmuls);
      settings.drift = drift;
      settings.saveEntries = savesEntries(group, chunk);
      settings.inExponents = inExponents;
      settings.roundComputed = roundComputed;
      settings.corrects = correcting.contains(group.front());
      for (ScanOp scan : group)
        if (FailureOr<tile::ProgramOp> program = chunkScan(scan, settings); succeeded(program))
          made.push_back({scan, *program});
      // Scans that share saved states must agree on what a saved state is.
      if (settings.saveEntries && made.size() < group.size()) {
        for (auto [scan, program] : made)
          program.erase();
        made.clear();
      }
      numDeclined += group.size() - made.size();
      numChunked += made.size();
      for (auto [scan, program] : made)
        replaceScan(scan, program);
    }
  }
};
} // namespace
