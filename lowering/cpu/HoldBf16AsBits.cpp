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

namespace {
struct HoldBf16AsBits : ejk::impl::HoldBf16AsBitsBase<HoldBf16AsBits> {
  void runOnOperation() override {
    getOperation()->walk([&](Operation *op) {
      numHeld += llvm::count_if(op->getResultTypes(),
                                [](Type type) { return getElementTypeOrSelf(type).isBF16(); });
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
