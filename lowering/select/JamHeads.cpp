//===- JamHeads.cpp - alternatives with several heads a thread block -----------===//
#include "passes/program/JamHeads.h"
#include "lowering/Passes.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "lowering/select/FewBlocks.h"
#include "lowering/select/ProgramFit.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace ejk {
#define GEN_PASS_DEF_JAMHEADS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// The heads of `program`, if it pays to have several of them in one thread block.
static std::optional<ProgramHeads> headsOfBlock(const ShapeAnalysis &shapes,
                                                tile::ProgramOp program) {
  bool isLaidOut = program->hasAttr(kWarpsAttr);
  if (isLaidOut || llvm::none_of(program.getOutputs(), sumOverHeads))
    return std::nullopt;
  std::optional<ProgramHeads> heads = headsToJam(shapes, program);
  bool fitsTensors = heads && heads->channels * cost::kHeadsPerBlock <= kMaxChannels;
  return fitsTensors && cost::jamsHeads(heads->carried) ? heads : std::nullopt;
}

/// The condition that `heads` are so many that they can be jammed; null where they are not, or
/// sizes do not tell.
static ArrayAttr canBeJammed(Builder &b, const ProgramHeads &heads) {
  auto isConstant = [](const DimExpr &size) { return size.kind == DimExpr::Kind::constant; };
  auto number = [&](int64_t n) { return b.getI64IntegerAttr(n); };
  Attribute all = sizeAttribute(b, heads.all);
  ArrayAttr condition;
  for (const DimExpr &few : heads.shared) {
    Attribute size = sizeAttribute(b, few);
    int64_t together =
        cost::kHeadsPerBlock * (isConstant(few) ? std::max<int64_t>(few.value, 1) : 1);
    if (!all || !size || (isConstant(heads.all) && heads.all.value % together))
      return {};
    // No tensor of no heads is a divisor.
    Attribute divisor = ejk::condition(
        b, "max", ejk::condition(b, "*", size, number(cost::kHeadsPerBlock)), number(1));
    condition = both(b, condition,
                     ejk::condition(b, "=", ejk::condition(b, "mod", all, divisor), number(0)));
  }
  for (const DimExpr &same : heads.same) {
    Attribute size = sizeAttribute(b, same);
    if (!all || !size || (isConstant(heads.all) && isConstant(same)))
      return {};
    condition = both(b, condition, ejk::condition(b, "=", all, size));
  }
  return condition;
}

namespace {
struct JamHeadsPass : ejk::impl::JamHeadsBase<JamHeadsPass> {
  using JamHeadsBase::JamHeadsBase;

  void runOnOperation() override {
    const Target *target = findTarget(arch, getOperation().getLoc());
    if (!target)
      return signalPassFailure();
    if (!target->hasWgmma)
      return;
    ProgramFit fit(*target, roundExponentials, twoTermStates,
                   [&](OpPassManager &pm, Operation *op) { return runPipeline(pm, op); });
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>()))
      if (!function.isPrivate() && !function.isDeclaration() && failed(jam(function, fit)))
        return signalPassFailure();
  }

private:
  LogicalResult jam(func::FuncOp function, ProgramFit &fit) {
    StringRef schedule = scheduleOf(function);
    if ((!schedule.empty() && schedule != kChunkSchedule) || function->hasAttr(kTwoTermsAttr) ||
        function->hasAttr(kByGatesAttr))
      return success();
    Builder b(&getContext());
    auto needs = function->getAttrOfType<ArrayAttr>(kNeedsAttr),
         when = function->getAttrOfType<ArrayAttr>(kWhenAttr);
    ArrayAttr own;
    ShapeAnalysis shapes(function);
    for (auto program : function.getBody().getOps<tile::ProgramOp>()) {
      std::optional<ProgramHeads> heads = headsOfBlock(shapes, program);
      if (!heads)
        continue;
      ArrayAttr sizes = canBeJammed(b, *heads);
      Attribute blocks = countBlocks(b, shapes, program);
      if (!sizes || !blocks)
        return success();
      own = both(b, own, sizes);
      when = both(b, when, condition(b, ">", blocks, b.getStringAttr("device.multiprocessors")));
    }
    if (!own)
      return success();
    func::FuncOp jammed = cloneAlternative(function, "jammed", kChunkSchedule, /*before=*/true);
    for (auto program : llvm::to_vector(jammed.getBody().getOps<tile::ProgramOp>())) {
      ShapeAnalysis shapesOfCopy(jammed);
      if (!headsOfBlock(shapesOfCopy, program))
        continue;
      FailureOr<bool> fits = fit.fitsBlock(jamHeads(shapesOfCopy, program, cost::kHeadsPerBlock));
      if (failed(fits))
        return failure();
      if (!*fits) {
        jammed.erase();
        return success();
      }
      ++numJammed;
    }
    function->setAttr(kScheduleAttr, b.getStringAttr(kChunkSchedule));
    jammed->setAttr(kNeedsAttr, both(b, needs, own));
    jammed->setAttr(kWhenAttr, when);
    return success();
  }
};
} // namespace
