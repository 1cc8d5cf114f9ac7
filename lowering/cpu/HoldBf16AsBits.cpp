//===- HoldBf16AsBits.cpp - bf16 values as integers -----------------------===//
#include "lowering/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/TypeUtilities.h"

namespace ejk {
#define GEN_PASS_DEF_HOLDBF16ASBITS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;

static bool isBf16(Type type) { return getElementTypeOrSelf(type).isBF16(); }

/// Whether integers could not take the place of the numbers that `op` takes or gives.
static bool computes(Operation *op) {
  if (!llvm::any_of(op->getOperandTypes(), isBf16) && !llvm::any_of(op->getResultTypes(), isBf16))
    return false;
  if (!isa<LLVM::LLVMDialect, gpu::GPUDialect>(op->getDialect()))
    return true;
  return isa<LLVM::FPExtOp, LLVM::FPTruncOp, LLVM::SIToFPOp, LLVM::UIToFPOp, LLVM::FPToSIOp,
             LLVM::FPToUIOp>(op) ||
         (isa<LLVM::FastmathFlagsInterface>(op) && !isa<LLVM::SelectOp, LLVM::CallOp>(op));
}

namespace {
struct HoldBf16AsBits : ejk::impl::HoldBf16AsBitsBase<HoldBf16AsBits> {
  void runOnOperation() override {
    WalkResult checked = getOperation()->walk([](Operation *op) {
      if (!computes(op))
        return WalkResult::advance();
      op->emitError("computes with bf16, or is not of the llvm dialect; integers hold what is "
                    "loaded, stored and chosen: run arith-expand and the conversions to llvm before");
      return WalkResult::interrupt();
    });
    if (checked.wasInterrupted())
      return signalPassFailure();
    getOperation()->walk([&](Operation *op) {
      numHeld += llvm::count_if(op->getResultTypes(), isBf16);
    });
    Type bits = IntegerType::get(&getContext(), 16);
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](BFloat16Type) { return bits; });
    replacer.addReplacement([&](FloatAttr value) -> Attribute {
      if (!value.getType().isBF16())
        return value;
      return IntegerAttr::get(bits, value.getValue().bitcastToAPInt());
    });
    replacer.addReplacement([&](DenseElementsAttr values) -> Attribute {
      return values.getElementType().isBF16() ? values.bitcast(bits) : values;
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false, /*replaceTypes=*/true);
  }
};
} // namespace
