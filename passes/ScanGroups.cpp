//===- ScanGroups.cpp - scans that share saved states ---------------------===//
#include "passes/ScanGroups.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Passes.h"
#include "passes/StepAnalysis.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;

SmallVector<SmallVector<ScanOp>> ejk::groupScans(ArrayRef<ScanOp> scans) {
  llvm::EquivalenceClasses<Operation *> together;
  for (ScanOp scan : scans) {
    together.insert(scan);
    for (Value state : scan.getSavedStates())
      if (auto source = state.getDefiningOp<ScanOp>())
        together.unionSets(scan, source);
  }
  llvm::MapVector<Operation *, SmallVector<ScanOp>> groups;
  for (ScanOp scan : scans)
    groups[together.getLeaderValue(scan)].push_back(scan);
  return llvm::to_vector(llvm::make_second_range(groups));
}

bool ejk::areSame(ScanOp first, Value there, ScanOp second, Value here) {
  if (there.getType() != here.getType())
    return false;
  if (auto arg = dyn_cast<BlockArgument>(there)) {
    unsigned i = arg.getArgNumber(),
             all = first.getSequences().size() + first.getParameters().size();
    auto other = dyn_cast<BlockArgument>(here);
    if (!other || i >= all)
      return false;
    unsigned k = other.getArgNumber();
    bool isParameter = i >= first.getSequences().size();
    return k < second.getSequences().size() + second.getParameters().size() &&
           isParameter == (k >= second.getSequences().size()) &&
           first->getOperand(i) == second->getOperand(k);
  }
  Operation *a = there.getDefiningOp(), *b = here.getDefiningOp();
  return b && a->getName() == b->getName() && a->getAttrDictionary() == b->getAttrDictionary() &&
         a->getNumOperands() == b->getNumOperands() && !StepAnalysis::isCore(a) &&
         llvm::all_of(llvm::zip(a->getOperands(), b->getOperands()), [&](auto pair) {
           return areSame(first, std::get<0>(pair), second, std::get<1>(pair));
         });
}

namespace {
/// Compares a walk forward, which saves a state, with one back, which reads it.
class DualWalks {
public:
  DualWalks(ScanOp forward, ScanOp back) : forward(forward), back(back) {}

  /// Whether `anchor`, of the walk back, may do with save `number` of the walk forward
  /// as the chunk is entered with it.
  bool mayTakeEntry(AnchorOp anchor, unsigned number) {
    if (forward.getReverse() == back.getReverse() ||
        forward.getCuSeqlens() != back.getCuSeqlens() ||
        forward.getSequences().front() != back.getSequences().front())
      return false;
    // Forward: decays, then adds, before or after which the state is saved.
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
    Value decayed = forward.getYield().getSaves()[number];
    bool isWhole = adds.empty();
    if (isWhole)
      while (auto add = decayed.getDefiningOp<OuterAddOp>()) {
        adds.push_back(add);
        decayed = add.getState();
      }
    SmallVector<DecayOp> decays;
    for (Value at = decayed; at != state;) {
      auto decay = at.getDefiningOp<DecayOp>();
      if (!decay)
        return false;
      decays.push_back(decay);
      at = decay.getState();
    }
    return hasDecays(anchor.getState(), decays) && takesAll(anchor, adds, isWhole);
  }

private:
  /// The outer_add that takes `state` on.
  static OuterAddOp addOf(Value state) {
    for (Operation *user : state.getUsers())
      if (auto add = dyn_cast<OuterAddOp>(user))
        return add;
    return {};
  }

  bool isSame(Value there, Value here) { return areSame(forward, there, back, here); }

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

  /// The terms that the sum loses before `anchor`; or `behind` it, where it has none before.
  std::optional<SmallVector<Value>> termsTaken(AnchorOp anchor, bool behind) {
    SmallVector<Value> terms;
    Value sum = anchor.getVector();
    for (; auto sub = sum.getDefiningOp<arith::SubFOp>(); sum = sub.getLhs())
      terms.push_back(sub.getRhs());
    if (!llvm::is_contained(back.getStateArgs(), sum) || (behind && !terms.empty()))
      return std::nullopt;
    auto next = [](Value value) {
      auto sub = value.hasOneUse() ? dyn_cast<arith::SubFOp>(*value.user_begin()) : nullptr;
      return sub && sub.getLhs() == value ? sub : arith::SubFOp();
    };
    if (behind)
      for (Value at = anchor.getResult(); auto sub = next(at); at = sub.getResult())
        terms.push_back(sub.getRhs());
    return terms;
  }

  /// Whether what is taken from the sum is k ⊙ k̄ of every add, where k̄ has what the step
  /// itself reads `behind` the anchor.
  bool takesAll(AnchorOp anchor, SmallVector<OuterAddOp> adds, bool behind) {
    std::optional<SmallVector<Value>> terms = termsTaken(anchor, behind);
    if (!terms)
      return false;
    for (Value term : *terms) {
      if (auto channels = term.getDefiningOp<SumOp>())
        term = channels.getVector();
      auto product = term.getDefiningOp<arith::MulFOp>();
      if (!product || !product->hasAttr(kPairingAttr))
        return false;
      ReadOp read = product.getLhs().getDefiningOp<ReadOp>();
      Value partner = product.getRhs();
      if (!read) {
        read = partner.getDefiningOp<ReadOp>();
        partner = product.getLhs();
      }
      if (!read)
        return false;
      Value state = read.getState();
      while (auto add = behind ? state.getDefiningOp<OuterAddOp>() : OuterAddOp())
        state = add.getState();
      if (state != anchor.getState())
        return false;
      bool alongValue = read.getAxis() == Axis::value;
      if (anchor.getAxis() != Axis::head && anchor.getAxis() != read.getAxis())
        return false;
      auto same = llvm::find_if(adds, [&](OuterAddOp add) {
        Value key = add.getKey(), value = add.getValue();
        return isSame(alongValue ? key : value, partner) &&
               isSame(alongValue ? value : key, read.getVector());
      });
      if (same == adds.end())
        return false;
      adds.erase(same);
    }
    return adds.empty();
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
    for (AnchorOp anchor : scan.getStep().getOps<AnchorOp>()) {
      ValueRange args = scan.getSavedArgs();
      Value tensor = scan.getSavedStates()[llvm::find(args, anchor.getSaved()) - args.begin()];
      auto source = tensor.getDefiningOp<ScanOp>();
      if (!source || !llvm::is_contained(group, source))
        return false;
      unsigned number = llvm::find(source.getSaves(), tensor) - source.getSaves().begin();
      if (!DualWalks(source, scan).mayTakeEntry(anchor, number))
        return false;
    }
  }
  return true;
}
