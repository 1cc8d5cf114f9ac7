//===- ChunkPlan.cpp - analysis of a scan's step for chunking --------------===//
#include "passes/chunk/ChunkPlan.h"
#include "dialect/ejk/Searches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/chunk/CommonScale.h"
#include "passes/scan/ScanGroups.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

LogicalResult ChunkPlan::decline(Operation *op, const Twine &why) {
  op->emitRemark("not chunked: ") << why;
  return failure();
}

LogicalResult ChunkPlan::analyze() {
  if (!scan.getQueries().empty())
    return decline(scan, "it has queries; run --ejk-expand-queries first");
  if (failed(findCorrections()) || failed(findStates()) || failed(checkSaves()))
    return failure();
  if (chains.empty())
    return decline(scan, "it has no K×V state that is read or given");
  return success(succeeded(checkElementwise()) && succeeded(checkOrder()) &&
                 succeeded(checkTypes()) && succeeded(checkDrift()) && succeeded(chooseSlices()) &&
                 succeeded(checkForms()));
}

const StateChain *ChunkPlan::chainOf(ReadOp read) const {
  auto it = chainOfRead.find(read);
  return it == chainOfRead.end() ? nullptr : &chains[it->second];
}

const StateChain *ChunkPlan::chainOfWhole(Operation *whole) const {
  auto it = llvm::find_if(chains, [&](const StateChain &chain) {
    return llvm::any_of(chain.corrections,
                        [&](auto &correction) {
                          return correction.isUsed && correction.vector.getDefiningOp() == whole;
                        }) ||
           llvm::any_of(chain.reads, [&](auto &read) { return read.whole == whole; });
  });
  return it == chains.end() ? nullptr : &*it;
}

const StateChain *ChunkPlan::chainFrom(Value state) const {
  auto it = llvm::find_if(chains, [&](const StateChain &chain) { return chain.arg == state; });
  return it == chains.end() ? nullptr : &*it;
}

std::pair<const Accumulator *, unsigned> ChunkPlan::sumOf(Value value) const {
  auto it = sums.find(value);
  if (it == sums.end())
    return {nullptr, 0};
  return {&accumulators[it->second.first], it->second.second};
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

LogicalResult ChunkPlan::findCorrections() {
  std::string why;
  if (Operation *op = corrections.find(scan, why))
    return decline(op, why + ": a chunk solves for what its steps add where that is a sum of reads "
                             "of the state, each times one number of the head, and of what does "
                             "not depend on them");
  return success();
}

LogicalResult ChunkPlan::addCorrections(StateChain &chain) {
  for (auto [number, place] : llvm::enumerate(chain.adds))
    for (unsigned dim : {0, 1}) {
      OuterAddOp add = place.op;
      const CorrectionParts *parts = corrections.of(add, dim);
      if (!parts)
        continue;
      if (!chain.corrections.empty() && chain.corrections.front().dim != dim)
        return decline(add, "vectors along both axes that a step adds depend on what it reads; a "
                            "chunk solves for those along one");
      Value vector = dim ? add.getValue() : add.getKey();
      auto isOther = [op = add.getOperation()](Operation *user) { return user != op; };
      StateChain::Correction correction{
          unsigned(number), dim, {}, vector, llvm::any_of(vector.getUsers(), isOther),
          parts->factors.size() == 1 && !vector.getDefiningOp<ReadOp>() &&
              matchPattern(parts->rest, m_AnyZeroFloat())};
      if (parts->shift)
        solveForGivenSum(chain, correction, parts->shift,
                         cast<ReadOp>(parts->factors.front().first));
      for (const auto &part : parts->factors) {
        Operation *op = part.first;
        auto read = llvm::find_if(chain.reads, [&](auto &read) { return read.op == op; });
        // A gate along the vector would make a coefficient of each channel.
        if (read->decays[dim + 1] != place.decays[dim + 1])
          return decline(op, "what is read is added after a gate per channel along it, and so "
                             "has no one number of the head");
        correction.terms.push_back({unsigned(read - chain.reads.begin()), part.second});
      }
      if (!chain.checkpoints.empty() || llvm::any_of(chain.reads, [](auto &r) {
            return !r.pairings.empty();
          }))
        return decline(add, "a gate's gradient is made of what a step adds that depends on its "
                            "reads");
      if (!options.saveEntries) {
        Value end = scan.getYield().getStates()[chain.number];
        llvm::copy_if(chain.saves, std::back_inserter(chain.savesOfEnd),
                      [&](const StateChain::Save &save) {
                        return scan.getYield().getSaves()[save.number] == end;
                      });
        if (chain.savesOfEnd.size() == chain.saves.size())
          chain.saves.clear();
      }
      if (!chain.saves.empty() && !options.saveEntries)
        return decline(add, "a state that depends on reads is saved where no chunk ends");
      chain.corrections.push_back(std::move(correction));
    }
  return success();
}

LogicalResult ChunkPlan::findStates() {
  for (auto [i, arg, next] : llvm::enumerate(scan.getStateArgs(), scan.getYield().getStates())) {
    auto state = cast<BlockArgument>(arg);
    // A state that nothing but itself uses is dropped.
    if (!isMatrix(arg)) {
      if (failed(followSum(i, state)))
        return failure();
    } else if (failed(followChain(i, state))) {
      return failure();
    }
  }
  for (auto [i, chain] : llvm::enumerate(chains))
    for (StateChain::Read &read : chain.reads)
      chainOfRead[read.op] = i;
  for (auto [i, accumulator] : llvm::enumerate(accumulators))
    for (auto [k, sum] : llvm::enumerate(accumulator.sums))
      sums[sum] = {i, k};
  return success();
}

LogicalResult ChunkPlan::checkSaves() {
  for (const Accumulator &accumulator : accumulators)
    if (accumulator.checkpoint && !chainFrom(accumulator.checkpoint.getState()))
      return decline(accumulator.checkpoint,
                     "the state of an 'ejk.checkpoint' must be the one that the "
                     "step starts from");
  size_t saves = 0;
  for (const StateChain &chain : chains)
    saves += chain.saves.size() + chain.savesOfEnd.size();
  if (saves != scan.getSaves().size())
    return decline(scan, "it saves what is no state of its own");
  for (CheckpointOp checkpoint : scan.getStep().getOps<CheckpointOp>())
    if (llvm::none_of(accumulators, [&](auto &sum) { return sum.checkpoint == checkpoint; }))
      return decline(checkpoint, "a saved state may only start a sum anew");
  if (auto every = scan.getSaveEvery()) {
    if (*every % 16)
      return decline(scan, "states are saved every " + Twine(*every) +
                               " rows, which is no multiple of 16 for chunks to divide");
    while (*every % chunk)
      chunk -= 16;
  }
  return success();
}

void ChunkPlan::findAddVectors(StateChain &chain) {
  if (!chain.corrections.empty()) {
    // The state as it is: what is read of it is added to it.
    for (const StateChain::Correction &correction : chain.corrections) {
      StateChain::Add &add = chain.adds[correction.add];
      add.vectors[correction.dim] = corrections.of(add.op, correction.dim)->rest;
    }
    return;
  }
  SmallVector<Factors> products;
  for (StateChain::Add &add : chain.adds)
    products.push_back(add.vectors);
  std::optional<double> scale = takeCommonScale(products);
  if (!scale)
    return;
  chain.scale = *scale;
  for (auto [add, vectors] : llvm::zip(chain.adds, products))
    add.vectors = vectors;
}

void ChunkPlan::findPairedVectors(StateChain &chain) {
  SmallVector<Factors> products;
  for (StateChain::Read &read : chain.reads)
    for (StateChain::Read::Pairing &pairing : read.pairings)
      products.push_back(read.along ? Factors{pairing.vector, read.vector}
                                    : Factors{read.vector, pairing.vector});
  std::optional<double> scale = takeCommonScale(products);
  // What is added to the state that it was read from takes the read as it is.
  auto isAdded = [&](auto &read) { return !read.pairings.empty() && corrections.feeds(read.op); };
  if (!scale || llvm::any_of(chain.reads, isAdded))
    return;
  ArrayRef<Factors> rest = products;
  for (StateChain::Read &read : chain.reads) {
    Value vector = read.vector;
    for (StateChain::Read::Pairing &pairing : read.pairings) {
      read.vector = rest.front()[read.along];
      if (read.vector == vector)
        pairing.scale = *scale;
      pairing.vector = rest.front()[!read.along];
      rest = rest.drop_front();
    }
    if (read.vector != vector)
      read.scale *= *scale;
  }
}

StateChain::Place ChunkPlan::placeAfter(const StateChain &chain) {
  StateChain::Place place;
  for (unsigned axis = 0; axis < 3; ++axis)
    place[axis] = chain.decays[axis].size();
  return place;
}

void ChunkPlan::addRead(StateChain &chain, ReadOp op) {
  StateChain::Read read;
  read.op = op;
  read.whole = op;
  bool isAdded = corrections.feeds(op);
  if (auto mul = op->hasOneUse() ? dyn_cast<arith::MulFOp>(*op->user_begin()) : arith::MulFOp();
      mul && !isAdded) {
    Value rest = mul.getResult();
    if (splitConstant(rest, read.scale))
      read.whole = mul;
  }
  read.along = op.getAxis() == Axis::value;
  read.vector = op.getVector();
  read.decays = placeAfter(chain);
  read.adds = chain.adds.size();
  for (Operation *user : op->getUsers())
    if (auto pair = dyn_cast<CancellingPairOp>(user); pair && pair.getReadOp() == op)
      read.pairings.push_back({pair, pair.getVector(), 1});
  auto isNumber = [](Value multiplier) {
    if (auto broadcast = multiplier.getDefiningOp<vector::BroadcastOp>())
      return broadcast.getSourceType().isF32();
    auto constant = multiplier.getDefiningOp<arith::ConstantOp>();
    return constant && isa<SplatElementsAttr>(constant.getValue());
  };
  if (isAdded) {
    chain.reads.push_back(std::move(read));
    return;
  }
  if (read.pairings.empty())
    splitConstant(read.vector, read.scale);
  // The other scan of a cancelling pair rounds the vector with these multipliers, so they must
  // stay.
  while (auto mul =
             read.pairings.empty() ? read.vector.getDefiningOp<arith::MulFOp>() : arith::MulFOp()) {
    Value lhs = mul.getLhs(), rhs = mul.getRhs();
    if (!isNumber(lhs) && !isNumber(rhs))
      break;
    read.multipliers.push_back(isNumber(rhs) ? rhs : lhs);
    read.vector = isNumber(rhs) ? lhs : rhs;
  }
  chain.reads.push_back(std::move(read));
}

LogicalResult ChunkPlan::followChain(unsigned number, BlockArgument arg) {
  StateChain chain;
  chain.number = number;
  chain.arg = arg;
  ejk::YieldOp yield = scan.getYield();
  unsigned firstSave = yield.getStates().size() + yield.getOutputs().size();
  for (Value value = arg; value;) {
    // Reads first: they see the state so far.
    SmallVector<OpOperand *> others;
    for (OpOperand &use : value.getUses())
      if (auto read = dyn_cast<ReadOp>(use.getOwner()))
        addRead(chain, read);
      else if (use.getOwner() == yield && use.getOperandNumber() >= firstSave)
        chain.saves.push_back({use.getOperandNumber() - firstSave, unsigned(chain.adds.size())});
      else if (isa<CheckpointOp>(use.getOwner()) && value == arg)
        chain.checkpoints.push_back(cast<CheckpointOp>(use.getOwner()));
      else
        others.push_back(&use);
    if (others.size() != 1)
      return decline(others.empty() ? yield.getOperation() : others.front()->getOwner(),
                     "a K×V state must have one successor in a step, but has " +
                         Twine(others.size()));
    Operation *user = others.front()->getOwner();
    if (user == yield && others.front()->getOperandNumber() == number)
      break;
    if (!isa<DecayOp, OuterAddOp>(user))
      return decline(user, "a K×V state goes elsewhere than through 'ejk.decay', "
                           "'ejk.outer_add' and 'ejk.read' to its own next value");
    chain.links.push_back(user);
    if (auto decay = dyn_cast<DecayOp>(user)) {
      if (!chain.saves.empty())
        return decline(decay, "a state that is saved decays afterwards, in the same step");
      unsigned axis = unsigned(decay.getAxis());
      chain.decayFirst[axis] &= chain.adds.empty();
      chain.decays[axis].push_back(decay);
    } else {
      auto add = cast<OuterAddOp>(user);
      chain.adds.push_back({add, {add.getKey(), add.getValue()}, placeAfter(chain)});
    }
    value = user->getResult(0);
  }
  if (failed(addCorrections(chain)))
    return failure();
  findAddVectors(chain);
  findPairedVectors(chain);
  bool gatesChannels = chain.isGated(Axis::key) || chain.isGated(Axis::value);
  for (StateChain::Read &read : chain.reads) {
    read.sumsPairs = !gatesChannels && llvm::all_of(read.pairings, [](auto &pairing) {
      return isSummedPairing(pairing.op);
    });
    read.isOnlySummed = read.sumsPairs && llvm::all_of(read.op->getUsers(), isSummedPairing);
  }
  bool readAlong[2] = {};
  for (CheckpointOp checkpoint : chain.checkpoints) {
    readAlong[0] |= checkpoint.getAxis() != Axis::value;
    readAlong[1] |= checkpoint.getAxis() != Axis::key;
  }
  for (StateChain::Read &read : chain.reads)
    readAlong[read.along] = true;
  if (!readAlong[1] || !readAlong[0])
    chain.freeDim = readAlong[1] ? 0 : 1;
  if (!chain.reads.empty() || !chain.saves.empty() || !chain.savesOfEnd.empty() ||
      !chain.checkpoints.empty() || !scan.getFinalStates()[number].use_empty())
    chains.push_back(std::move(chain));
  return success();
}

LogicalResult ChunkPlan::followSum(unsigned number, BlockArgument arg) {
  Accumulator accumulator;
  accumulator.number = number;
  accumulator.arg = arg;
  // The values of this step that depend on the state.
  llvm::DenseSet<Value> dependent = {arg};
  for (Operation &op : scan.getStep().without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return dependent.contains(v); }))
      dependent.insert(op.getResult(0));
  Value value = scan.getYield().getStates()[number];
  auto refuse = [&](Operation *op) {
    return decline(op, "a state that is a number or a vector may only add up: its next value "
                       "must be the state and terms that do not depend on it");
  };
  while (true) {
    accumulator.sums.push_back(value);
    if (auto checkpoint = value.getDefiningOp<CheckpointOp>()) {
      if (accumulator.checkpoint)
        return refuse(checkpoint);
      accumulator.checkpoint = checkpoint;
      accumulator.termsBeforeCheckpoint = accumulator.terms.size();
      value = checkpoint.getVector();
    }
    if (value == arg)
      break;
    Operation *op = value.getDefiningOp();
    if (!op || !isa<arith::AddFOp, arith::SubFOp>(op) || !dependent.contains(value))
      return refuse(op ? op : scan.getYield().getOperation());
    bool onRight = dependent.contains(op->getOperand(1));
    if (dependent.contains(op->getOperand(0)) == onRight || (isa<arith::SubFOp>(op) && onRight))
      return refuse(op);
    accumulator.terms.push_back({op->getOperand(!onRight), isa<arith::SubFOp>(op)});
    value = op->getOperand(onRight);
  }
  std::reverse(accumulator.sums.begin(), accumulator.sums.end());
  std::reverse(accumulator.terms.begin(), accumulator.terms.end());
  if (accumulator.checkpoint) {
    accumulator.termsBeforeCheckpoint =
        accumulator.terms.size() - accumulator.termsBeforeCheckpoint;
    // If the sum restarts, its earlier value must be unused.
    Value before = accumulator.checkpoint.getVector();
    for (unsigned k = 0; k < accumulator.termsBeforeCheckpoint; ++k)
      if (!accumulator.sums[k].hasOneUse())
        return decline(accumulator.checkpoint, "what is summed up before 'ejk.checkpoint' is used "
                                           "elsewhere");
    if (!before.hasOneUse())
      return decline(accumulator.checkpoint, "what 'ejk.checkpoint' replaces is used elsewhere");
  }
  accumulators.push_back(std::move(accumulator));
  return success();
}

bool ChunkPlan::isSummedPair(Value vector) const {
  auto pair = vector.getDefiningOp<CancellingPairOp>();
  return pair && llvm::any_of(chains, [&](const StateChain &chain) {
    return llvm::any_of(chain.reads, [&](const StateChain::Read &read) {
      return read.sumsPairs &&
             llvm::any_of(read.pairings, [&](auto &pairing) { return pairing.op == pair; });
    });
  });
}

SmallVector<Operation *> ChunkPlan::takenBefore(CheckpointOp checkpoint) const {
  SmallVector<Operation *> taken;
  for (const Accumulator &accumulator : accumulators)
    if (accumulator.checkpoint == checkpoint)
      for (const Accumulator::Term &term :
           ArrayRef(accumulator.terms).take_front(accumulator.termsBeforeCheckpoint)) {
        auto sum = term.value.getDefiningOp<SumOp>();
        taken.push_back((sum ? sum.getVector() : term.value).getDefiningOp());
      }
  return taken;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool ChunkPlan::isConstant(Value value) const {
  if (auto arg = dyn_cast<BlockArgument>(value))
    return llvm::is_contained(scan.getParameterArgs(), arg);
  if (auto found = constants.find(value); found != constants.end())
    return found->second;
  // Reductions over channels need a whole tile.
  Operation *op = value.getDefiningOp();
  bool result = !isa<SumOp, MaxOp, StepIndexOp>(op) && !op->getNumRegions() &&
                llvm::all_of(op->getOperands(), [&](Value operand) { return isConstant(operand); });
  constants[value] = result;
  return result;
}

bool ChunkPlan::isZeroPastEnd(Value value) const {
  if (auto found = zeroPastEnd.find(value); found != zeroPastEnd.end())
    return found->second;
  bool result = findZeroPastEnd(value);
  zeroPastEnd[value] = result;
  return result;
}

bool ChunkPlan::findZeroPastEnd(Value value) const {
  if (auto arg = dyn_cast<BlockArgument>(value))
    return llvm::is_contained(scan.getSequenceArgs(), arg);
  Operation *op = value.getDefiningOp();
  auto isFiniteConstant = [](Value v) {
    auto constant = v.getDefiningOp<arith::ConstantOp>();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : nullptr;
    if (splat && isa<FloatType>(splat.getElementType()))
      return splat.getSplatValue<APFloat>().isFinite();
    auto number = constant ? dyn_cast<FloatAttr>(constant.getValue()) : nullptr;
    return number && number.getValue().isFinite();
  };
  if (isa<arith::ExtFOp, arith::TruncFOp, arith::NegFOp>(op))
    return isZeroPastEnd(op->getOperand(0));
  // A number has no channels past their end; a tile may.
  if (isa<vector::BroadcastOp>(op)) {
    int64_t channels = cast<VectorType>(value.getType()).getNumElements();
    return width(channels, /*sliced=*/false) == channels &&
           (slices == 1 || width(channels, /*sliced=*/true) * slices == channels) &&
           isZeroPastEnd(op->getOperand(0));
  }
  if (isa<arith::AddFOp, arith::SubFOp>(op))
    return isZeroPastEnd(op->getOperand(0)) && isZeroPastEnd(op->getOperand(1));
  if (isa<arith::MulFOp, CancellingPairOp>(op)) {
    Value lhs = op->getOperand(0), rhs = op->getOperand(1);
    return (isZeroPastEnd(lhs) && (isZeroPastEnd(rhs) || isFiniteConstant(rhs))) ||
           (isZeroPastEnd(rhs) && isFiniteConstant(lhs));
  }
  return false;
}

bool ChunkPlan::isSliced(Value value) const {
  return slices > 1 && meetsAmongOperands(value, [&](Value part) {
           auto judged = [](bool isSliced) { return isSliced ? Met::wanted : Met::nothing; };
           if (!isa<VectorType>(part.getType()))
             return Met::nothing;
           if (auto [accumulator, k] = sumOf(part); accumulator)
             return judged(accumulator->isSliced);
           Operation *op = part.getDefiningOp();
           if (auto read = dyn_cast_or_null<ReadOp>(op))
             return judged(chainOf(read)->freeDim >= 0);
           return op ? Met::more : Met::nothing;
         });
}

int64_t ChunkPlan::width(int64_t channels, bool sliced) const {
  int64_t part = sliced ? llvm::divideCeil(channels, slices) : channels;
  return llvm::alignTo(part, part > 128  ? 64
                             : part > 64 ? options.columnBlock
                             : part > 16 ? 32
                                         : 16);
}

SmallVector<std::pair<Value, int>> ChunkPlan::inputs(const StateChain &chain) const {
  SmallVector<std::pair<Value, int>> inputs;
  for (auto &decays : chain.decays)
    for (DecayOp decay : decays)
      inputs.push_back({decay.getGate(), int(decay.getAxis()) - 1});
  for (const StateChain::Add &add : chain.adds)
    for (int dim : {0, 1})
      inputs.push_back({add.vectors[dim], dim});
  for (const StateChain::Correction &correction : chain.corrections)
    for (const StateChain::Correction::Term &term : correction.terms)
      inputs.push_back({term.factor, -1});
  for (const StateChain::Read &read : chain.reads)
    inputs.push_back({read.vector, read.along});
  for (const StateChain::Read &read : chain.reads)
    for (const StateChain::Read::Pairing &pairing : read.pairings)
      inputs.push_back({pairing.vector, 1 - read.along});
  return inputs;
}
