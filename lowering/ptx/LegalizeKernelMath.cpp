//===- LegalizeKernelMath.cpp - math in kernels without a library ---------===//
#include "lowering/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Approximation.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
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
      .Case([](math::SqrtOp) { return "llvm.sqrt"; })
      .Case([](math::TruncOp) { return "llvm.trunc"; })
      .Case([](arith::MaxNumFOp) { return "llvm.maxnum"; })
      .Case([](arith::MinNumFOp) { return "llvm.minnum"; })
      .Default([](Operation *) { return ""; });
}

namespace {
struct LegalizeKernelMathPass : ejk::impl::LegalizeKernelMathBase<LegalizeKernelMathPass> {
  /// ".f32" or ".v4f32", as intrinsics are overloaded.
  static std::string suffix(Type type) {
    std::string bits = "f" + std::to_string(getElementTypeOrSelf(type).getIntOrFloatBitWidth());
    if (auto vector = dyn_cast<VectorType>(type))
      return ".v" + std::to_string(vector.getNumElements()) + bits;
    return "." + bits;
  }

  void runOnOperation() override {
    // f16 and bf16 first, so that the approximations below, which are of f32,
    // see all of the math.
    OpPassManager widen(getOperation()->getName());
    widen.addPass(math::createMathExtendToSupportedTypes({{}, "f32"}));
    arith::ArithEmulateUnsupportedFloatsOptions floats;
    floats.sourceTypeStrs = {"bf16", "f16"};
    floats.targetTypeStr = "f32";
    widen.addPass(arith::createArithEmulateUnsupportedFloats(floats));
    // Not what intrinsicFor has: a multiply and add of its own would take fma's
    // place, and twice its instructions.
    widen.addPass(
        math::createMathExpandOpsPass({{"acosh", "asinh", "atanh", "clampf", "cosh", "ctlz", "exp2",
                                        "fpowi", "powf", "round", "rsqrt", "sinh", "tan"}}));
    if (failed(runPipeline(widen, getOperation())))
      return signalPassFailure();
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    WalkResult left = getOperation()->walk([&](Operation *op) {
      StringRef intrinsic = intrinsicFor(op);
      // What gpu-to-nvvm would take from libdevice, too.
      bool isMath = isa<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op);
      if (intrinsic.empty() && !isMath)
        return WalkResult::advance();
      if (intrinsic.empty()) {
        op->emitError() << "'" << op->getName() << "' on " << op->getOperand(0).getType()
                        << " has no form in a kernel; write it with others of math or arith";
        return WalkResult::interrupt();
      }
      OpBuilder b(op);
      auto call = LLVM::CallIntrinsicOp::create(
          b, op->getLoc(), op->getResult(0).getType(),
          b.getStringAttr(intrinsic + suffix(op->getResult(0).getType())), op->getOperands());
      op->replaceAllUsesWith(call);
      op->erase();
      return WalkResult::advance();
    });
    if (left.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
