//===- MergeDecays.cpp - merge decays into the cheapest class --------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"

namespace ejk {
#define GEN_PASS_DEF_MERGEDECAYS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
struct MergeDecaysPass : ejk::impl::MergeDecaysBase<MergeDecaysPass> {
  void runOnOperation() override {
    // Narrowing a broadcast channel gate is a canonicalisation of the op itself.
    RewritePatternSet patterns(&getContext());
    DecayOp::getCanonicalizationPatterns(patterns, &getContext());
    FrozenRewritePatternSet frozen(std::move(patterns));
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    for (ScanOp scan : scans) {
      SmallVector<Operation *> decays;
      scan.getBody().walk([&](DecayOp decay) { decays.push_back(decay); });
      if (failed(applyOpPatternsGreedily(decays, frozen)))
        return signalPassFailure();
      mergeChains(scan);
      scan->setAttr(kDecayClassAttr,
                    StringAttr::get(&getContext(), stringifyDecayClass(getDecayClass(scan))));
    }
  }

  void mergeChains(ScanOp scan) {
    // The last decay of each chain: its result is not decayed again.
    SmallVector<DecayOp> tails;
    scan.getBody().walk([&](DecayOp decay) {
      Value result = decay.getResult();
      auto next = result.hasOneUse() ? dyn_cast<DecayOp>(*result.user_begin()) : DecayOp();
      if (!next || next.getState() != result)
        tails.push_back(decay);
    });
    for (DecayOp tail : tails)
      mergeChain(tail);
  }

  void mergeChain(DecayOp tail) {
    SmallVector<DecayOp> chain = {tail};
    while (auto previous = chain.back().getState().getDefiningOp<DecayOp>()) {
      if (!previous.getResult().hasOneUse())
        break;
      chain.push_back(previous);
    }
    if (chain.size() == 1)
      return;
    OpBuilder b(tail);
    Location loc = tail.getLoc();
    auto add = [&](Value sum, Value gate) -> Value {
      return sum ? arith::AddFOp::create(b, loc, sum, gate).getResult() : gate;
    };
    Value sums[3];
    for (DecayOp decay : llvm::reverse(chain)) {
      Value &sum = sums[unsigned(decay.getAxis())];
      sum = add(sum, decay.getGate());
    }
    Value &head = sums[unsigned(Axis::head)];
    for (Axis axis : {Axis::key, Axis::value}) {
      Value &channel = sums[unsigned(axis)];
      if (!head || !channel)
        continue;
      channel = add(vector::BroadcastOp::create(b, loc, channel.getType(), head), channel);
      head = Value();
    }
    Value state = chain.back().getState();
    unsigned left = 0;
    for (Axis axis : {Axis::head, Axis::key, Axis::value})
      if (Value gate = sums[unsigned(axis)]) {
        state = DecayOp::create(b, loc, state.getType(), state, gate, axis);
        ++left;
      }
    numMerged += chain.size() - left;
    tail.getResult().replaceAllUsesWith(state);
    for (DecayOp decay : chain)
      decay.erase();
  }
};
} // namespace
