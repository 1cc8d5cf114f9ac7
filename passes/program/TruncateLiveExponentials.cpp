//===- TruncateLiveExponentials.cpp - live exponentials in bf16 ------------===//
//
// Rounds exponentials that are live across a branch to bf16, which halves the registers that they
// occupy. Only exponentials whose results are all rounded to bf16 are truncated.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Tile.h"
#include "dialect/ejk/Searches.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"

namespace ejk {
#define GEN_PASS_DEF_TRUNCATELIVEEXPONENTIALS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Whether all results that derive from `value` by multiplications are rounded to bf16.
static bool isOnlyScaling(Value value) {
  return !value.use_empty() && !meetsAmongUses(value, [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<arith::TruncFOp>(user))
      return getElementTypeOrSelf(user->getResult(0)).isBF16() ? Met::nothing : Met::wanted;
    return isa<arith::MulFOp>(user) && !user->use_empty() ? Met::more : Met::wanted;
  });
}

namespace {
struct TruncateLiveExponentialsPass
    : ejk::impl::TruncateLiveExponentialsBase<TruncateLiveExponentialsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr))
        return; // laid out already
      // Other programs start from saved states, and operands in two terms are to keep what one term
      // drops.
      if (!program.getSaves().empty() || isInTwoTerms(program))
        return;
      program.walk([&](GuardedOp branch) { narrowFor(branch); });
    });
  }

  void narrowFor(GuardedOp branch) {
    struct LiveExponential {
      math::ExpOp exp;
      SmallVector<OpOperand *> uses;
    };
    SmallVector<LiveExponential> all;
    for (auto exp : branch->getBlock()->getOps<math::ExpOp>()) {
      auto type = dyn_cast<VectorType>(exp.getType());
      if (!type || type.getRank() != 2 || !type.getElementType().isF32())
        continue;
      LiveExponential live{exp, {}};
      for (OpOperand &use : exp.getResult().getUses())
        if (branch->isProperAncestor(use.getOwner()))
          live.uses.push_back(&use);
      if (!live.uses.empty() && llvm::all_of(live.uses, [&](OpOperand *use) {
            Operation *user = use->getOwner();
            return user->getBlock() == branch.getFastBlock() && isa<arith::MulFOp>(user) &&
                   isOnlyScaling(user->getResult(0));
          }))
        all.push_back(live);
    }
    for (LiveExponential &live : all) {
      Location loc = live.exp.getLoc();
      auto type = cast<VectorType>(live.exp.getType());
      OpBuilder b(&getContext());
      b.setInsertionPointAfter(live.exp);
      Value narrow = arith::TruncFOp::create(
          b, loc, VectorType::get(type.getShape(), b.getBF16Type()), live.exp.getResult());
      for (OpOperand *use : live.uses) {
        b.setInsertionPoint(use->getOwner());
        use->set(arith::ExtFOp::create(b, loc, type, narrow));
      }
      ++numNarrowed;
    }
  }
};
} // namespace
