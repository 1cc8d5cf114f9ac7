//===- KernelSignature.cpp - the arguments of a scan's kernel -------------===//
#include "lowering/kernels/KernelSignature.h"
#include "lowering/kernels/RowStrides.h"
#include "lowering/kernels/ShiftedRows.h"

using namespace mlir;
using namespace ejk;

void KernelSignature::addTensor(Value tensor, bool isReadOnly) {
  kernel.operands.push_back({tensor, std::nullopt});
  readOnly.push_back(isReadOnly);
}

unsigned KernelSignature::addSize(Value tensor, unsigned dim) {
  auto [it, isNew] = sizeNumbers.try_emplace(sizeName(tensor, dim), numSizes);
  if (isNew) {
    kernel.operands.push_back({tensor, dim});
    ++numSizes;
  }
  return it->second;
}

unsigned KernelSignature::addSegments(bool packed) {
  using Number = KernelOperand::Number;
  unsigned rows = numSizes;
  for (Number number : {Number::rowsOfSegments, Number::segmentsOfEach, Number::firstSegment}) {
    if (packed && number != Number::rowsOfSegments)
      continue;
    kernel.operands.emplace_back().number = number;
    ++numSizes;
  }
  return rows;
}

unsigned KernelSignature::addSlotStride(Value pool) {
  KernelOperand &stride = kernel.operands.emplace_back();
  stride.tensor = pool;
  stride.number = KernelOperand::Number::slotStride;
  return numSizes++;
}

std::optional<unsigned> KernelSignature::addRowStride(Value tensor) {
  if (!hasRowStride(tensor))
    return std::nullopt;
  auto [it, isNew] = rowStrides.try_emplace(tensor, numSizes);
  if (isNew) {
    KernelOperand &stride = kernel.operands.emplace_back();
    stride.tensor = tensor;
    stride.number = KernelOperand::Number::rowStride;
    ++numSizes;
  }
  return it->second;
}

gpu::GPUFuncOp KernelSignature::makeFunction(KernelBuilder &b, StringRef name, Type other) const {
  SmallVector<Type> types(numTensors(), b.globalPtr());
  types.append(numSizes, b.getI64Type());
  types.append(kernel.operands.size() - types.size(), other);
  auto function = gpu::GPUFuncOp::create(b, b.loc, name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  for (auto [i, isReadOnly] : llvm::enumerate(readOnly))
    if (isReadOnly) {
      function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
      function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), b.getUnitAttr());
    }
  return function;
}

unsigned ScanSizes::prefixRank(Value parameter, Value arg) {
  auto vector = dyn_cast<VectorType>(arg.getType());
  return cast<RankedTensorType>(parameter.getType()).getRank() - (vector ? vector.getRank() : 0);
}

ScanSizes ScanSizes::add(KernelSignature &signature, ScanOp scan) {
  Value first = scan.getSequences().front();
  ScanSizes sizes{signature.addSize(first, 1), signature.addSize(first, 2), {}, {}};
  for (Value v : scan.getSequences())
    sizes.sequenceHeads.push_back(signature.addSize(v, 2));
  for (auto [parameter, arg] : llvm::zip(scan.getParameters(), scan.getParameterArgs())) {
    unsigned prefix = prefixRank(parameter, arg);
    sizes.parameterHeads.push_back(
        prefix ? std::optional(signature.addSize(parameter, prefix - 1)) : std::nullopt);
  }
  if (!scan.getQueries().empty())
    sizes.queryHeads = signature.addSize(scan.getQueries().front(), 2);
  for (ValueRange rows : {ValueRange(scan.getSequences()), ValueRange(scan.getQueries())})
    for (Value v : rows)
      sizes.rowStrides.push_back(signature.addRowStride(loadedTensor(scan, v)));
  return sizes;
}

Value ejk::ownHead(KernelBuilder &b, Value head, Value heads, Value ownHeads,
                   llvm::DenseMap<Value, Value> &known) {
  if (ownHeads == heads)
    return b.wide(head);
  Value &own = known[ownHeads];
  if (!own)
    own = b.wide(b.div(head, b.div(b.narrow(heads), b.narrow(ownHeads))));
  return own;
}
