//===- LinalgKernel.cpp - the kernel of a linalg.generic ------------------===//
//
// Emits a kernel for elementwise ops and small reductions between recurrences. Each thread computes
// one element of the parallel loops; the last loop varies fastest.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/LinalgKernel.h"
#include "lowering/kernels/LinalgLoops.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;

static constexpr unsigned kThreads = 256;

namespace {
class LinalgEmitter {
public:
  LinalgEmitter(linalg::GenericOp op, StringRef name, OpBuilder builder)
      : op(op), name(name), b(builder, op.getLoc()) {}

  FailureOr<Kernel> run(gpu::GPUModuleOp module) {
    FailureOr<LinalgLoops> found = LinalgLoops::of(op);
    if (failed(found))
      return failure();
    loops = std::move(*found);
    b.setInsertionPointToEnd(module.getBody());
    buildSignature();
    Value element = b.add(b.mul(b.wide(b.blockId()), kThreads), b.wide(b.threadId()));
    Value total = b.i64(1);
    for (unsigned d : loops.parallel)
      total = b.mul(total, sizes[d]);
    b.onlyIf(b.less(element, total), [&] { runElement(element); });
    b.make<gpu::ReturnOp>();
    kernel.gridDivisor = kThreads;
    for (unsigned d : loops.parallel)
      kernel.gridSizes.push_back(loops.source[d]);
    kernel.threads = kThreads;
    return kernel;
  }

private:
  void buildSignature() {
    SmallVector<Type> types(loops.tensors.size(), b.globalPtr());
    for (Value tensor : loops.tensors)
      kernel.operands.push_back({tensor, std::nullopt});
    for (const KernelOperand &size : loops.source) {
      types.push_back(b.getI64Type());
      kernel.operands.push_back(size);
    }
    auto function = gpu::GPUFuncOp::create(b, b.loc, name, b.getFunctionType(types, {}));
    function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
    function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(kThreads), 1, 1}));
    kernel.function = function;
    b.setInsertionPointToStart(&function.getBody().front());
    unsigned next = 0;
    for (Value input : op.getInputs())
      inputs.push_back(LinalgLoops::isTensor(input) ? function.getArgument(next++)
                                                              : Value());
    for (auto [i, init] : llvm::enumerate(op.getOutputs()))
      inits.push_back(loops.loadsInit(op, i) ? function.getArgument(next++) : Value());
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      results.push_back(function.getArgument(next++));
    for (unsigned i = 0; i < loops.source.size(); ++i)
      sizes.push_back(function.getArgument(next++));
  }

  /// The address of the element of a tensor at the loops' `indices`.
  Value address(Value pointer, RankedTensorType type, AffineMap map, ArrayRef<Value> indices) {
    Value offset = b.i64(0);
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      Value index, size;
      if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
        index = indices[loop.getPosition()];
        size = sizes[loop.getPosition()];
      } else {
        index = b.i64(cast<AffineConstantExpr>(expr).getValue());
        size = b.i64(1);
      }
      if (!type.isDynamicDim(dim))
        size = b.i64(type.getDimSize(dim));
      offset = b.add(b.mul(offset, size), index);
    }
    return b.at(pointer, type.getElementType(), offset);
  }

  void runElement(Value element) {
    SmallVector<Value> indices(op.getNumLoops());
    for (unsigned d : llvm::reverse(loops.parallel)) {
      indices[d] = b.rem(element, sizes[d]);
      element = b.div(element, sizes[d]);
    }
    SmallVector<Value> values;
    for (auto [i, init] : llvm::enumerate(op.getOutputs())) {
      auto type = cast<RankedTensorType>(init.getType());
      if (!loops.readsInit(op, i))
        values.push_back(b.zero(type.getElementType()));
      else if (TypedAttr constant = LinalgLoops::constantInit(init))
        values.push_back(b.make<arith::ConstantOp>(constant));
      else
        values.push_back(
            b.load(type.getElementType(), address(inits[i], type, outputMap(i), indices)));
    }
    values = reduce(0, indices, values);
    for (auto [i, value] : llvm::enumerate(values))
      b.store(value, address(results[i], cast<RankedTensorType>(op.getResult(i).getType()),
                             outputMap(i), indices));
  }

  AffineMap outputMap(unsigned i) { return op.getMatchingIndexingMap(op.getDpsInitOperand(i)); }

  SmallVector<Value> reduce(unsigned depth, SmallVector<Value> &indices, ValueRange accumulators) {
    if (depth == loops.reductions.size())
      return runBody(indices, accumulators);
    unsigned d = loops.reductions[depth];
    return b.loop(b.i64(0), sizes[d], 1, accumulators, [&](Value i, ValueRange inner) {
      indices[d] = i;
      return reduce(depth + 1, indices, inner);
    });
  }

  SmallVector<Value> runBody(ArrayRef<Value> indices, ValueRange accumulators) {
    IRMapping mapping;
    for (auto [i, operand] : llvm::enumerate(op.getDpsInputOperands())) {
      Value value = operand->get(), arg = op.getRegionInputArgs()[i];
      if (auto type = dyn_cast<RankedTensorType>(value.getType()))
        mapping.map(arg,
                    b.load(type.getElementType(),
                           address(inputs[i], type, op.getMatchingIndexingMap(operand), indices)));
      else
        mapping.map(arg, b.clone(*value.getDefiningOp())->getResult(0));
    }
    mapping.map(op.getRegionOutputArgs(), accumulators);
    for (Operation &inner : op.getBody()->without_terminator()) {
      for (Value v : inner.getOperands())
        if (!mapping.contains(v)) // a constant from outside, as check() verified
          mapping.map(v, b.clone(*v.getDefiningOp())->getResult(0));
      if (auto index = dyn_cast<linalg::IndexOp>(inner))
        mapping.map(index.getResult(),
                    b.make<arith::IndexCastOp>(b.getIndexType(), indices[index.getDim()]));
      else
        b.clone(inner, mapping);
    }
    return llvm::map_to_vector(op.getBody()->getTerminator()->getOperands(), [&](Value v) {
      if (Value found = mapping.lookupOrNull(v))
        return found;
      return Value(b.clone(*v.getDefiningOp())->getResult(0));
    });
  }

  linalg::GenericOp op;
  StringRef name;
  KernelBuilder b;
  Kernel kernel;
  LinalgLoops loops;
  SmallVector<Value> inputs, inits, results, sizes;
};
} // namespace

FailureOr<Kernel> ejk::emitLinalgKernel(linalg::GenericOp op, gpu::GPUModuleOp module,
                                        StringRef name) {
  return LinalgEmitter(op, name, OpBuilder(op.getContext())).run(module);
}
