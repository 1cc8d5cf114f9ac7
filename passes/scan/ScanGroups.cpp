//===- ScanGroups.cpp - scans that share saved states ---------------------===//
#include "passes/scan/ScanGroups.h"
#include "dialect/ejk/Searches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;

/// Whether `value`, of a step, is a sum of cancelling pairs.
static bool sumsPairs(Value value) {
  return meetsAmongOperands(value, [](Value part) {
    Operation *op = part.getDefiningOp();
    return isa_and_present<CancellingPairOp>(op)                         ? Met::wanted
           : isa_and_present<SumOp, arith::AddFOp, arith::SubFOp>(op) ? Met::more
                                                                         : Met::nothing;
  });
}

SmallVector<SmallVector<ScanOp>> ejk::groupScans(ArrayRef<ScanOp> scans) {
  llvm::EquivalenceClasses<Operation *> together;
  for (ScanOp scan : scans) {
    together.insert(scan);
    for (Value state : scan.getSavedStates())
      if (auto source = state.getDefiningOp<ScanOp>())
        together.unionSets(scan, source);
    for (Value rows : scan.getSequences())
      if (auto source = rows.getDefiningOp<ScanOp>())
        if (unsigned number = cast<OpResult>(rows).getResultNumber();
            number < source.getOutputs().size() &&
            sumsPairs(source.getYield().getOutputs()[number]))
          together.unionSets(scan, source);
  }
  llvm::MapVector<Operation *, SmallVector<ScanOp>> groups;
  for (ScanOp scan : scans)
    groups[together.getLeaderValue(scan)].push_back(scan);
  return llvm::to_vector(llvm::make_second_range(groups));
}

bool ejk::isSummedPairing(Operation *op) {
  return isa<CancellingPairOp>(op) && llvm::all_of(op->getUsers(), llvm::IsaPred<SumOp>);
}

/// Outer products compute the same with `corrects` and without.
static bool haveSameAttributes(Operation *a, Operation *b) {
  if (isa<OuterAddOp>(a))
    return a->getDiscardableAttrDictionary() == b->getDiscardableAttrDictionary();
  return a->getAttrDictionary() == b->getAttrDictionary();
}

/// The same, beside the pairs in `compared`: a difference in those is found where they are compared.
static bool areSameBeside(ScanOp first, Value there, ScanOp second, Value here,
                          SameTensor sameTensor, std::pair<Value, Value> states, SameTensor isGiven,
                          llvm::DenseSet<std::pair<Value, Value>> &compared) {
  if (!compared.insert({there, here}).second)
    return true;
  if (there.getType() != here.getType())
    return false;
  auto arg = dyn_cast<BlockArgument>(there), other = dyn_cast<BlockArgument>(here);
  if (isGiven && arg && arg.getArgNumber() < first.getSequences().size() &&
      isGiven(first.getSequences()[arg.getArgNumber()], here))
    return true;
  if (arg || other) {
    if (!arg || !other || there == states.first || here == states.second)
      return arg && other && there == states.first && here == states.second;
    unsigned i = arg.getArgNumber(), k = other.getArgNumber();
    unsigned sequences = first.getSequences().size(), others = second.getSequences().size();
    return i < sequences + first.getParameters().size() &&
           k < others + second.getParameters().size() && (i < sequences) == (k < others) &&
           sameTensor(first->getOperand(i), second->getOperand(k));
  }
  Operation *a = there.getDefiningOp(), *b = here.getDefiningOp();
  return a->getName() == b->getName() && haveSameAttributes(a, b) &&
         llvm::all_of_zip(a->getOperands(), b->getOperands(), [&](Value x, Value y) {
           return areSameBeside(first, x, second, y, sameTensor, states, isGiven, compared);
         });
}

bool ejk::areSame(ScanOp first, Value there, ScanOp second, Value here, SameTensor sameTensor,
                  std::pair<Value, Value> states, SameTensor isGiven) {
  llvm::DenseSet<std::pair<Value, Value>> compared;
  return areSameBeside(first, there, second, here, sameTensor, states, isGiven, compared);
}

namespace {
/// Compares a forward scan, which saves a state, with the backward scan, which reads it.
class ForwardAndBackward {
public:
  ForwardAndBackward(ScanOp forward, ScanOp back) : forward(forward), back(back) {}

  /// Whether `checkpoint` of the backward scan can use save `number` of the forward scan with its
  /// value at the start of the chunk.
  bool mayTakeEntry(CheckpointOp checkpoint, unsigned number) {
    if (forward.getReverse() == back.getReverse() ||
        forward.getSaveEvery() != back.getSaveEvery() ||
        forward.getCuSeqlens() != back.getCuSeqlens() ||
        forward.getSequences().front() != back.getSequences().front())
      return false;
    // Forward: decays, then adds, with the save in between.
    Value next = forward.getYield().getSaves()[number];
    SmallVector<OuterAddOp> adds;
    while (auto add = addOf(next)) {
      adds.push_back(add);
      next = add.getResult();
    }
    auto place = llvm::find(forward.getYield().getStates(), next);
    if (place == forward.getYield().getStates().end())
      return false;
    Value state = forward.getStateArgs()[place - forward.getYield().getStates().begin()];
    SmallVector<DecayOp> decays;
    for (Value at = forward.getYield().getSaves()[number]; at != state;) {
      auto decay = at.getDefiningOp<DecayOp>();
      if (!decay)
        return false;
      decays.push_back(decay);
      at = decay.getState();
    }
    return hasDecays(checkpoint.getState(), decays) && takesAll(checkpoint, adds);
  }

private:
  /// The outer_add of `state`.
  static OuterAddOp addOf(Value state) {
    for (Operation *user : state.getUsers())
      if (auto add = dyn_cast<OuterAddOp>(user))
        return add;
    return {};
  }

  bool isSame(Value there, Value here) {
    return areSame(forward, there, back, here, [](Value a, Value b) { return a == b; });
  }

  /// Whether the adjoint `state` decays by the same gates.
  bool hasDecays(Value state, SmallVector<DecayOp> decays) {
    while (true) {
      Operation *next = nullptr;
      for (Operation *user : state.getUsers())
        if (isa<DecayOp, OuterAddOp>(user))
          next = user;
      if (!next)
        return decays.empty();
      if (auto decay = dyn_cast<DecayOp>(next)) {
        auto same = llvm::find_if(decays, [&](DecayOp other) {
          return other.getAxis() == decay.getAxis() && isSame(other.getGate(), decay.getGate());
        });
        if (same == decays.end())
          return false;
        decays.erase(same);
      }
      state = next->getResult(0);
    }
  }

  /// Whether the terms subtracted before the checkpoint are k ⊙ k̄ of every add.
  bool takesAll(CheckpointOp checkpoint, SmallVector<OuterAddOp> adds) {
    Value sum = checkpoint.getVector();
    while (auto sub = sum.getDefiningOp<arith::SubFOp>()) {
      Value term = sub.getRhs();
      if (auto channels = term.getDefiningOp<SumOp>())
        term = channels.getVector();
      auto pair = term.getDefiningOp<CancellingPairOp>();
      ReadOp read = pair ? pair.getReadOp() : ReadOp();
      if (!read || read.getState() != checkpoint.getState())
        return false;
      bool alongValue = read.getAxis() == Axis::value;
      if (checkpoint.getAxis() != Axis::head && checkpoint.getAxis() != read.getAxis())
        return false;
      auto same = llvm::find_if(adds, [&](OuterAddOp add) {
        Value key = add.getKey(), value = add.getValue();
        return isSame(alongValue ? key : value, pair.getVector()) &&
               isSame(alongValue ? value : key, read.getVector());
      });
      if (same == adds.end())
        return false;
      adds.erase(same);
      sum = sub.getLhs();
    }
    return adds.empty() && llvm::is_contained(back.getStateArgs(), sum);
  }

  ScanOp forward, back;
};
} // namespace

bool ejk::maySaveEntries(ArrayRef<ScanOp> group) {
  for (ScanOp scan : group) {
    for (Value save : scan.getSaves())
      for (Operation *user : save.getUsers())
        if (!isa<ScanOp>(user) || !llvm::is_contained(group, cast<ScanOp>(user)))
          return false;
    for (CheckpointOp checkpoint : scan.getStep().getOps<CheckpointOp>()) {
      ValueRange args = scan.getSavedArgs();
      Value tensor = scan.getSavedStates()[llvm::find(args, checkpoint.getSaved()) - args.begin()];
      auto source = tensor.getDefiningOp<ScanOp>();
      if (!source || !llvm::is_contained(group, source))
        return false;
      // An output or a final state may have a saved state's type, too.
      auto save = llvm::find(source.getSaves(), tensor);
      if (save == source.getSaves().end() ||
          !ForwardAndBackward(source, scan)
               .mayTakeEntry(checkpoint, save - source.getSaves().begin()))
        return false;
    }
  }
  return true;
}
