//===- IncludeDiagonals.cpp - a step's own part, where it cancels ---------===//
//
// In a group of two scans, the walk forward hands q·r to the walk back, which sums it up
// and takes k·r away. Each r is read before the step's own outer product:
//
//   forward: r = read(D, ō),  q̄ = r + (v·ō) k,   D + k vᵀ = S the step's next state
//   back:    r = read(A, v),  k̄ = r + (ō·v) q,   A + q ōᵀ
//
// Both sides may have q·k (v·ō) more: r is then q̄, and k̄. Where the sum starts anew, it
// starts from Σ A ⊙ S, of the state with the step's outer product, from which k·k̄ is taken
// as at other steps:
//
//   Σ A ⊙ D + q·r = Σ A ⊙ S − k·r + q·r = Σ A ⊙ S − k·k̄ + q·q̄      (k·r of the walk back)
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/Passes.h"
#include "passes/ScanGroups.h"

namespace ejk {
#define GEN_PASS_DEF_INCLUDEDIAGONALS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

static Value other(arith::MulFOp product, Value operand) {
  return product.getLhs() == operand ? product.getRhs() : product.getLhs();
}

namespace {
/// One side: what is read, paired, and completed by the step's own part.
struct Side {
  ReadOp read;
  arith::MulFOp paired; // partner ⊙ what is read
  arith::AddFOp whole;  // what is read + kept (x · across)
  OuterAddOp add;
  Value partner, own, kept, x, across;

  /// Of the one term `sum`, Σ partner ⊙ read. Fails where it is made otherwise.
  static FailureOr<Side> of(Value sum) {
    Side side;
    auto channels = sum.getDefiningOp<SumOp>();
    side.paired = channels ? channels.getVector().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!side.paired || !side.paired->hasAttr(kPairingAttr) || !side.paired->hasOneUse() ||
        !channels->hasOneUse())
      return failure();
    for (Value operand : side.paired->getOperands())
      if (auto read = operand.getDefiningOp<ReadOp>()) {
        side.read = read;
        side.partner = other(side.paired, read);
      }
    if (!side.read || !side.findAdd() || !side.findOwn())
      return failure();
    return side;
  }

  /// As if it were read behind the step's outer product.
  void include() {
    OpBuilder b(read);
    auto behind = ReadOp::create(b, read.getLoc(), add.getResult(), across, read.getAxis());
    whole.replaceAllUsesWith(behind.getResult());
    whole.erase();
    read.replaceAllUsesWith(behind.getResult());
    read.erase();
  }

private:
  /// The one outer product behind what is read.
  bool findAdd() {
    for (Operation *user : read.getState().getUsers())
      if (auto taken = dyn_cast<OuterAddOp>(user)) {
        if (add)
          return false;
        add = taken;
      }
    return add && add->isBeforeInBlock(read) &&
           llvm::none_of(add->getUsers(), [](Operation *user) { return isa<OuterAddOp>(user); });
  }

  bool findOwn() {
    bool alongValue = read.getAxis() == Axis::value;
    kept = alongValue ? add.getKey() : add.getValue();
    x = alongValue ? add.getValue() : add.getKey();
    across = read.getVector();
    for (Operation *user : read->getUsers()) {
      if (user == paired)
        continue;
      auto sum = dyn_cast<arith::AddFOp>(user);
      if (!sum || whole)
        return false;
      whole = sum;
    }
    if (!whole)
      return false;
    own = whole.getLhs() == read.getResult() ? whole.getRhs() : whole.getLhs();
    auto product = own.getDefiningOp<arith::MulFOp>();
    auto spread =
        product ? other(product, kept).getDefiningOp<vector::BroadcastOp>() : vector::BroadcastOp();
    auto dot = spread ? spread.getSource().getDefiningOp<SumOp>() : SumOp();
    auto terms = dot ? dot.getVector().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    return terms && llvm::is_contained(product->getOperands(), kept) &&
           llvm::is_contained(terms->getOperands(), x) && other(terms, x) == across;
  }
};

/// A sum of the walk back that starts anew at `anchor`.
struct PairedSum {
  AnchorOp anchor;
  ScanOp forward, back;
  unsigned save; // of the walk forward, which `anchor` reads

  bool include() {
    auto taken = anchor.getVector().getDefiningOp<arith::SubFOp>();
    ValueRange states = back.getStateArgs();
    if (anchor.getAxis() != Axis::head || !taken || !taken->hasOneUse() ||
        !llvm::is_contained(states, taken.getLhs()) || !anchor->hasOneUse() ||
        !isa<BlockArgument>(anchor.getState()) || !anchor.getSaved().hasOneUse() ||
        !forward.getSaves()[save].hasOneUse())
      return false;
    FailureOr<Side> minus = Side::of(taken.getRhs()), plus = findPlus();
    Value saved = forward.getYield().getSaves()[save];
    if (failed(minus) || failed(plus) || minus->read.getState() != anchor.getState() ||
        plus->read.getState() != saved || !cancels(*plus, *minus))
      return false;
    YieldOp yield = forward.getYield();
    yield.getSavesMutable()[save].set(plus->add.getResult());
    OpBuilder b(taken);
    auto whole = AnchorOp::create(b, anchor.getLoc(), taken.getLhs().getType(), taken.getLhs(),
                                  anchor.getState(), anchor.getSaved(), Axis::head);
    taken.getLhsMutable().set(whole);
    anchor.replaceAllUsesWith(taken.getResult());
    anchor.erase();
    plus->include();
    minus->include();
    return true;
  }

private:
  bool same(Value there, Value here) { return areSame(forward, there, back, here); }
  bool sameTwo(std::array<Value, 2> there, std::array<Value, 2> here) {
    return (same(there[0], here[0]) && same(there[1], here[1])) ||
           (same(there[0], here[1]) && same(there[1], here[0]));
  }
  bool cancels(const Side &plus, const Side &minus) {
    return sameTwo({plus.partner, plus.kept}, {minus.partner, minus.kept}) &&
           sameTwo({plus.x, plus.across}, {minus.x, minus.across});
  }

  /// What the walk forward hands over, and the walk back adds to this sum alone.
  FailureOr<Side> findPlus() {
    auto sum = dyn_cast<arith::AddFOp>(*anchor->user_begin());
    if (!sum)
      return failure();
    Value term = sum.getLhs() == anchor.getResult() ? sum.getRhs() : sum.getLhs();
    ValueRange args = back.getSequenceArgs(), outputs = forward.getOutputs();
    auto place = llvm::find(args, term);
    if (place == args.end() || !term.hasOneUse())
      return failure();
    Value tensor = back.getSequences()[place - args.begin()];
    auto output = llvm::find(outputs, tensor);
    if (output == outputs.end() || !tensor.hasOneUse())
      return failure();
    return Side::of(forward.getYield().getOutputs()[output - outputs.begin()]);
  }
};
} // namespace

static unsigned placeOf(ValueRange all, Value value) {
  return llvm::find(all, value) - all.begin();
}

unsigned ejk::includeDiagonals(ArrayRef<ScanOp> group) {
  unsigned count = 0;
  for (ScanOp back : group)
    for (AnchorOp anchor : llvm::to_vector(back.getStep().getOps<AnchorOp>())) {
      ValueRange args = back.getSavedArgs();
      Value tensor = back.getSavedStates()[placeOf(args, anchor.getSaved())];
      auto forward = tensor.getDefiningOp<ScanOp>();
      if (forward && llvm::is_contained(group, forward) && forward != back)
        count += PairedSum{anchor, forward, back, placeOf(forward.getSaves(), tensor)}.include();
    }
  return count;
}

namespace {
struct IncludeDiagonalsPass : ejk::impl::IncludeDiagonalsBase<IncludeDiagonalsPass> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    for (ArrayRef<ScanOp> group : groupScans(scans))
      numIncluded += includeDiagonals(group);
  }
};
} // namespace
