//===- RestartScans.cpp - scans that restart from states of another --------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Passes.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentStates.h"
#include "passes/scan/SegmentViews.h"

namespace ejk {
#define GEN_PASS_DEF_RESTARTSCANS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// The scans of a function, in order.
class Restarter {
public:
  Restarter(int64_t rows) : rows(rows) {}

  /// Divides `scan` if it goes through states of earlier ones, and keeps it as an earlier one if it
  /// does not. Returns whether it was divided.
  bool take(ScanOp scan) {
    if (scan.getSegments() || !scan.getQueries().empty() || !hasMatrices(scan))
      return false;
    if (!earlier.empty() && scan.getReverse() != earlier.front().getReverse() && restart(scan))
      return true;
    earlier.push_back(scan);
    return false;
  }

private:
  static bool hasMatrices(ScanOp scan) { return llvm::any_of(scan.getStateArgs(), isMatrix); }

  bool restart(ScanOp scan) {
    int64_t known = cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1);
    bool isShort = !ShapedType::isDynamic(known) && known <= rows;
    if (isShort || !scan.getSaves().empty() || rows % int64_t(scan.getSaveEvery().value_or(1)) != 0)
      return false;
    SmallVector<DividedScan> before = llvm::map_to_vector(earlier, undivided);
    SegmentStates found(scan, {}, before, /*remarks=*/false);
    if (failed(found.analyze()) || !found.areApart())
      return false;
    for (const SplitState &state : found.states())
      if (state.kind == SplitState::Kind::known && !maySave(earlier[state.known.scan]))
        return false;
    divide(scan, found.states());
    return true;
  }

  static DividedScan undivided(ScanOp scan) {
    DividedScan result{scan, {}};
    for (unsigned i = 0; i < scan.getNumStates(); ++i)
      result.states.push_back({scan.getInitialState(i), {}, scan.getFinalStates()[i]});
    return result;
  }

  bool maySave(ScanOp scan) {
    return scan.getSavedStates().empty() &&
           (!scan.getSaveEvery() || int64_t(*scan.getSaveEvery()) == rows);
  }

  /// What `scan` saves of state `number`.
  Value savesOf(ScanOp &scan, unsigned number) {
    Value next = scan.getYield().getStates()[number];
    for (auto [save, made] : llvm::zip(scan.getYield().getSaves(), scan.getSaves()))
      if (save == next)
        return made;
    OpBuilder b(scan);
    SmallVector<Type> parameterTypes(scan.getParameterArgs().getTypes()),
        saves(scan.getSaves().getTypes());
    saves.push_back(ScanBuilder(b, scan).saveType(next.getType(), b.getF32Type()));
    SmallVector<Value> initials;
    for (unsigned i = 0; i < scan.getNumStates(); ++i)
      initials.push_back(scan.getInitialState(i));
    auto made = ScanOp::create(b, scan.getLoc(), scan.getOutputs().getTypes(),
                               scan.getFinalStates().getTypes(), scan.getSequences(),
                               scan.getParameters(), parameterTypes, initials, scan.getCuSeqlens(),
                               scan.getReverse(), rows, ValueRange(), saves);
    made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
    made.getBody().takeBody(scan.getBody());
    YieldOp yield = made.getYield();
    SmallVector<Value> saved(yield.getSaves());
    saved.push_back(next);
    b.setInsertionPoint(yield);
    YieldOp::create(b, yield.getLoc(), yield.getStates(), yield.getOutputs(), saved);
    yield.erase();
    scan.replaceAllUsesWith(made->getResults().drop_back());
    scan.erase();
    scan = made;
    return made.getSaves().back();
  }

  void divide(ScanOp scan, ArrayRef<SplitState> states) {
    OpBuilder b(scan);
    SegmentViews views(b, scan, SegmentsAttr::ofRows(scan.getContext(), rows));
    SmallVector<Value> starts;
    for (auto [i, state] : llvm::enumerate(states)) {
      if (state.kind != SplitState::Kind::known) {
        starts.push_back({});
        continue;
      }
      Value saves = savesOf(earlier[state.known.scan], state.known.number);
      auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
      starts.push_back(SegmentStartsOp::create(
          b, scan.getLoc(), views.perSegment(type), saves, scan.getInitialState(i),
          scan.getCuSeqlens(), scan.getSequences().front(), rows, bool(scan.getReverse())));
    }
    SmallVector<Value> initials;
    for (unsigned i = 0; i < scan.getNumStates(); ++i)
      initials.push_back(scan.getInitialState(i));
    ScanOp made = views.divideScan(starts);
    for (auto [i, state] : llvm::enumerate(states)) {
      Value final = scan.getFinalStates()[i], sums = made.getFinalStates()[i];
      if (state.kind == SplitState::Kind::known) {
        final.replaceAllUsesWith(earlier[state.known.scan].getFinalStates()[state.known.number]);
        continue;
      }
      if (state.kind == SplitState::Kind::accumulated && !initials[i])
        views.addUpNumbers(sums, final);
      if (!final.use_empty())
        final.replaceAllUsesWith(
            views.addUp(sums, initials[i], cast<RankedTensorType>(final.getType())));
    }
    scan.getOutputs().replaceAllUsesWith(made.getOutputs());
    scan.erase();
  }

  int64_t rows;
  SmallVector<ScanOp> earlier;
};

struct RestartScansPass : ejk::impl::RestartScansBase<RestartScansPass> {
  using RestartScansBase::RestartScansBase;

  void runOnOperation() override {
    if (rows < 1 || rows > kMaxRows) {
      getOperation()->emitError("'rows' must be from 1 to ")
          << kMaxRows << ", but is " << int64_t(rows);
      return signalPassFailure();
    }
    Restarter restarter(rows);
    for (ScanOp scan : llvm::to_vector(getOperation().getOps<ScanOp>()))
      numRestarted += restarter.take(scan);
  }
};
} // namespace
