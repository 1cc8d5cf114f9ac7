//===- ChunkSaves.cpp - what a chunk takes of saved states, and saves -----===//
#include "passes/chunk/ChunkedState.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace ejk;

Value ChunkedState::savedTile(TileBuilder &e, unsigned number) {
  return savedTiles.empty() ? saved->load(e, chain.checkpoints[number]) : savedTiles[number];
}

/// Σ A ⊙ S.
Value ChunkedState::sumOfProducts(TileBuilder &e, unsigned number, Value state, bool inBasis) {
  CheckpointOp checkpoint = chain.checkpoints[number];
  if (inBasis)
    state = e.widen(e.round(state, plan.operandType));
  Value terms = e.mul(state, savedTile(e, number));
  for (unsigned dim = 0; dim < 2; ++dim)
    if (inBasis && !byBlocks && isGated(dim) && bases[dim].middle)
      terms = times(e, terms, e.exp(e.neg(bases[dim].middle)), dim);
  if (checkpoint.getAxis() == Axis::head)
    return e.scale(e.total(terms), chain.scale);
  return e.scale(e.sum(terms, checkpoint.getAxis() == Axis::value), chain.scale);
}

Value ChunkedState::paired(TileBuilder &e, unsigned r, Value partner, Value read, bool inBasis) {
  const StateChain::Read &op = chain.reads[r];
  unsigned other = 1 - op.along;
  if (isGated(other))
    partner =
        e.mul(partner, e.exp(inBasis ? readExponent(e, other, op)
                                     : raisedGates(e, other).upTo(e, op.decays[other + 1])));
  return e.mul(inBasis && !pairsCorrect(op) ? asRead(e, partner) : partner, read);
}

Value ChunkedState::productWithEntry(TileBuilder &e, unsigned number, Value state, bool inBasis) {
  CheckpointOp checkpoint = chain.checkpoints[number];
  Axis axis = checkpoint.getAxis();
  Value terms = e.mul(state, savedTile(e, number));
  auto decay = [&](unsigned dim) {
    const Basis &basis = bases[dim];
    if (byBlocks)
      return e.exp(blocks[dim].starts.back());
    return e.exp(inBasis ? basis.gates->restOf(e, basis.around) : raisedGates(e, dim).total(e));
  };
  // The decay along the remaining axis factors out of the sum.
  for (unsigned dim = 0; dim < 2; ++dim)
    if (isGated(dim) && (axis == Axis::head || dim == (axis == Axis::value)))
      terms = times(e, terms, decay(dim), dim);
  Value sum = axis == Axis::head ? e.total(terms) : e.sum(terms, axis == Axis::value);
  sum = e.scale(sum, chain.scale);
  unsigned kept = axis == Axis::key;
  if (axis != Axis::head && isGated(kept))
    sum = e.mul(sum, decay(kept));
  return sum;
}

Value ChunkedState::sumFromEntry(TileBuilder &e, unsigned number, Value state, bool inBasis) {
  CheckpointOp checkpoint = chain.checkpoints[number];
  Value carried = saved->carried[number];
  auto make = [&](TileBuilder &at) {
    return inBasis ? productWithEntry(at, number, state, inBasis) : entrySums[number];
  };
  // A branch within the fast or exact path would cost registers.
  bool always = isGated(0) || isGated(1);
  Value sum = always ? make(e) : ifEntering(e, carried, make);
  // Computed for every chunk, because the inputs are available and no branch is needed.
  Value whole = sum;
  if (head) {
    Value total = head->total(e);
    auto vector = dyn_cast<VectorType>(sum.getType());
    whole = e.mul(sum, vector ? e.broadcast(total, vector) : total);
  }
  for (auto [r, read] : llvm::enumerate(chain.reads))
    for (auto [pairing, partner] : llvm::zip(read.pairings, pairingTiles[r])) {
      if (!llvm::is_contained(plan.takenBefore(checkpoint), pairing.op))
        continue;
      Value terms = byBlocks ? pairedParts(e, r, partner, entryPart(e, r, state))
                             : paired(e, r, partner, readEntry(e, r, state, inBasis), inBasis);
      bool isOfHead = checkpoint.getAxis() == Axis::head;
      Value taken = isOfHead ? e.totalOf(e.sum(terms, 1)) : e.sum(terms, 0);
      whole = e.add(whole, e.scale(taken, scalesOf(read, pairing)));
    }
  return saved->enters ? e.select(saved->enters, whole, carried) : whole;
}

Value ChunkedState::ifEntering(TileBuilder &e, Value carried,
                               llvm::function_ref<Value(TileBuilder &)> make) {
  if (!saved->enters)
    return make(e);
  auto choice = scf::IfOp::create(e.b, e.loc, carried.getType(), saved->enters,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder b = OpBuilder::atBlockEnd(choice.thenBlock());
  TileBuilder entering(b, e.loc);
  scf::YieldOp::create(b, e.loc, make(entering));
  b.setInsertionPointToEnd(choice.elseBlock());
  scf::YieldOp::create(b, e.loc, carried);
  return choice.getResult(0);
}

Value ChunkedState::atCheckpoint(TileBuilder &e, unsigned number, Value state, bool inBasis) {
  if (plan.options.saveEntries)
    return sumFromEntry(e, number, state, inBasis);
  return ifEntering(e, saved->carried[number], [&](TileBuilder &entering) {
    return sumOfProducts(entering, number, state, inBasis);
  });
}

void ChunkedState::save(TileBuilder &e, Value state, bool inBasis) {
  if (plan.options.saveEntries)
    return;
  saveAt(e, [&](TileBuilder &leaving) {
    for (const StateChain::Save &save : chain.saves) {
      Value before = beforeAdds(leaving, save, state, inBasis);
      saved->store(leaving, save,
                   leaving.scale(inBasis && !byBlocks ? toEnd(leaving, before) : before,
                                 chain.scale));
    }
  });
}

void ChunkedState::saveEnd(TileBuilder &e, Value state, const ChunkedSaves &saves) {
  if (chain.savesOfEnd.empty())
    return;
  saved = &saves;
  whereLeaving(e, [&](TileBuilder &leaving) {
    for (const StateChain::Save &save : chain.savesOfEnd)
      saved->store(leaving, save, leaving.scale(state, chain.scale));
  });
}

void ChunkedState::saveAt(TileBuilder &e, llvm::function_ref<void(TileBuilder &)> saveAll) {
  if (!chain.saves.empty())
    whereLeaving(e, saveAll);
}

void ChunkedState::whereLeaving(TileBuilder &e, llvm::function_ref<void(TileBuilder &)> saveAll) {
  if (!saved->leaves)
    return saveAll(e);
  auto branch = scf::IfOp::create(e.b, e.loc, saved->leaves, /*withElseRegion=*/false);
  OpBuilder b = branch.getThenBodyBuilder();
  TileBuilder leaving(b, e.loc);
  saveAll(leaving);
}
