//===- LegalizeKernelMath.cpp - math in kernels without a library ---------===//
#include "lowering/Passes.h"
#include "lowering/ptx/MathExpansions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Approximation.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

namespace ejk {
#define GEN_PASS_DEF_LEGALIZEKERNELMATH
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;

/// LLVM's intrinsic for an op that is one instruction, or a short exact
/// sequence; called by name, since gpu-to-nvvm would take the op for libdevice's.
static StringRef intrinsicFor(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](math::AbsFOp) { return "llvm.fabs"; })
      .Case([](math::CeilOp) { return "llvm.ceil"; })
      .Case([](math::CopySignOp) { return "llvm.copysign"; })
      .Case([](math::FloorOp) { return "llvm.floor"; })
      .Case([](math::FmaOp) { return "llvm.fma"; })
      .Case([](math::RoundEvenOp) { return "llvm.roundeven"; })
      .Case([](math::RoundOp) { return "llvm.round"; })
      .Case([](math::SqrtOp) { return "llvm.sqrt"; })
      .Case([](math::TruncOp) { return "llvm.trunc"; })
      .Case([](arith::MaxNumFOp) { return "llvm.maxnum"; })
      .Case([](arith::MinNumFOp) { return "llvm.minnum"; })
      .Default([](Operation *) { return ""; });
}

/// LLVM's op for one on integers; null where it has none.
static Value integerForm(Operation *op, OpBuilder &b) {
  Location loc = op->getLoc();
  Type type = op->getResult(0).getType();
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::AbsIOp abs) {
        return LLVM::AbsOp::create(b, loc, type, abs.getOperand(), /*is_int_min_poison=*/false);
      })
      .Case([&](math::CountLeadingZerosOp count) {
        return LLVM::CountLeadingZerosOp::create(b, loc, type, count.getOperand(),
                                                 /*is_zero_poison=*/false);
      })
      .Case([&](math::CountTrailingZerosOp count) {
        return LLVM::CountTrailingZerosOp::create(b, loc, type, count.getOperand(),
                                                  /*is_zero_poison=*/false);
      })
      .Case([&](math::CtPopOp count) {
        return LLVM::CtPopOp::create(b, loc, type, count.getOperand());
      })
      .Default([](Operation *) { return Value(); });
}

/// Of f16 or bf16, alone or in a vector.
static bool isNarrowFloat(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

/// Whether `op` moves or converts numbers, which every architecture does with narrow ones.
static bool onlyConverts(Operation *op) {
  return isa<arith::BitcastOp, arith::ConstantOp, arith::ExtFOp, arith::SelectOp, arith::TruncFOp>(
      op);
}

/// Upstream's approximation of erf gives +0 for -0.
static void keepSignOfErf(Operation *root) {
  root->walk([](math::ErfOp erf) {
    OpBuilder b(erf->getContext());
    b.setInsertionPointAfter(erf);
    auto result = math::CopySignOp::create(b, erf.getLoc(), erf.getResult(), erf.getOperand());
    erf.getResult().replaceAllUsesExcept(result, result);
  });
}

namespace {
struct LegalizeKernelMathPass : ejk::impl::LegalizeKernelMathBase<LegalizeKernelMathPass> {
  using LegalizeKernelMathBase::LegalizeKernelMathBase;

  /// ".f32" or ".v4f32", as intrinsics are overloaded.
  static std::string suffix(Type type) {
    std::string bits = "f" + std::to_string(getElementTypeOrSelf(type).getIntOrFloatBitWidth());
    if (auto vector = dyn_cast<VectorType>(type))
      return ".v" + std::to_string(vector.getNumElements()) + bits;
    return "." + bits;
  }

  void runOnOperation() override {
    RewritePatternSet tests(&getContext());
    ejk::populateTestExpansions(tests);
    walkAndApplyPatterns(getOperation(), std::move(tests));
    // f16 and bf16 first, so that the approximations below, which are of f32,
    // see all of the math.
    // Each of these passes looks at all of a kernel, which has thousands of ops.
    bool hasNarrowMath = false, hasNarrowArith = false, hasRsqrt = false;
    getOperation()->walk([&](Operation *op) {
      hasRsqrt |= isa<math::RsqrtOp>(op);
      if (!llvm::any_of(op->getOperandTypes(), isNarrowFloat) &&
          !llvm::any_of(op->getResultTypes(), isNarrowFloat))
        return;
      hasNarrowMath |= isa<math::MathDialect>(op->getDialect());
      hasNarrowArith |= isa<vector::FMAOp, vector::ReductionOp>(op) ||
                        (isa<arith::ArithDialect>(op->getDialect()) && !onlyConverts(op));
    });
    OpPassManager widen(getOperation()->getName());
    if (hasNarrowMath)
      widen.addPass(math::createMathExtendToSupportedTypes({{}, "f32"}));
    if (hasNarrowMath || hasNarrowArith) {
      arith::ArithEmulateUnsupportedFloatsOptions floats;
      floats.sourceTypeStrs = {"bf16", "f16"};
      floats.targetTypeStr = "f32";
      widen.addPass(arith::createArithEmulateUnsupportedFloats(floats));
    }
    if (hasRsqrt && !specialFunctionUnit)
      widen.addPass(math::createMathExpandOpsPass({{"rsqrt"}}));
    if (failed(runPipeline(widen, getOperation())))
      return signalPassFailure();
    keepSignOfErf(getOperation());
    ejk::expandWithinBounds(getOperation(), specialFunctionUnit);
    RewritePatternSet patterns(&getContext());
    ejk::populateTrigonometricExpansions(patterns);
    ejk::populateLogarithmExpansions(patterns);
    ejk::populatePowerExpansions(patterns);
    ejk::populateOtherExpansions(patterns);
    if (specialFunctionUnit)
      ejk::populateSpecialFunctions(patterns);
    populateMathPolynomialApproximationPatterns(patterns);
    SmallVector<Operation *> math;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op))
        math.push_back(op);
    });
    numExpanded += llvm::count_if(math, [](Operation *op) { return intrinsicFor(op).empty(); });
    // What they are expanded to may have math in it.
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
    if (failed(applyOpPatternsGreedily(math, std::move(patterns), config)))
      return signalPassFailure();
    WalkResult left = getOperation()->walk([&](Operation *op) {
      StringRef intrinsic = intrinsicFor(op);
      // What gpu-to-nvvm would take from libdevice, too.
      bool isMath = isa<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op);
      if (intrinsic.empty() && !isMath)
        return WalkResult::advance();
      OpBuilder b(op);
      if (Value integer = integerForm(op, b)) {
        op->replaceAllUsesWith(ValueRange(integer));
        op->erase();
        return WalkResult::advance();
      }
      if (intrinsic.empty()) {
        op->emitError() << "'" << op->getName() << "' on " << op->getOperand(0).getType()
                        << " has no form in a kernel; write it with others of math or arith";
        return WalkResult::interrupt();
      }
      auto call = LLVM::CallIntrinsicOp::create(
          b, op->getLoc(), op->getResult(0).getType(),
          b.getStringAttr(intrinsic + suffix(op->getResult(0).getType())), op->getOperands());
      op->replaceAllUsesWith(call);
      op->erase();
      ++numIntrinsics;
      return WalkResult::advance();
    });
    if (left.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
