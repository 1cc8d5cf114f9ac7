//===- LinalgKernel.cpp - the kernel of a linalg.generic ------------------===//
//
// Emits a kernel for elementwise ops and small reductions between recurrences. Each thread computes
// one element of the parallel loops; the last loop varies fastest.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/LinalgKernel.h"
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
    if (failed(check()))
      return failure();
    b.setInsertionPointToEnd(module.getBody());
    buildSignature();
    Value element = b.add(b.mul(b.wide(b.blockId()), kThreads), b.wide(b.threadId()));
    Value total = b.i64(1);
    for (unsigned d : parallel)
      total = b.mul(total, sizes[d]);
    b.onlyIf(b.less(element, total), [&] { runElement(element); });
    b.make<gpu::ReturnOp>();
    kernel.gridDivisor = kThreads;
    for (unsigned d : parallel)
      kernel.gridSizes.push_back(source[d]);
    kernel.threads = kThreads;
    return kernel;
  }

private:
  LogicalResult check() {
    unsigned numLoops = op.getNumLoops();
    for (auto [d, kind] : llvm::enumerate(op.getIteratorTypesArray()))
      (kind == utils::IteratorType::parallel ? parallel : reductions).push_back(d);
    source.resize(numLoops);
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      // Results have more static sizes than the empty tensors that they start from.
      Value sized = op.isDpsInit(&operand) ? Value(op.getTiedOpResult(&operand)) : operand.get();
      for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
        if (auto loop = dyn_cast<AffineDimExpr>(expr))
          source[loop.getPosition()] = {sized, unsigned(dim)};
        else if (!isa<AffineConstantExpr>(expr))
          return op.emitError() << "operand " << operand.getOperandNumber() << " is indexed by "
                                << AffineMapAttr::get(map)
                                << "; only permutations and broadcasts of the loops "
                                << "can be compiled";
      }
    }
    for (auto [d, from] : llvm::enumerate(source))
      if (!from.tensor)
        return op.emitError() << "no operand gives the size of loop " << d;
    WalkResult captured = op.getRegion().walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (!op.getRegion().isAncestor(v.getParentRegion()) && !matchPattern(v, m_Constant())) {
          inner->emitError("uses a value from outside its op; only constants can be");
          return WalkResult::interrupt();
        }
      return WalkResult::advance();
    });
    for (Value input : op.getInputs())
      if (!isa<RankedTensorType>(input.getType()) && !matchPattern(input, m_Constant()))
        return op.emitError("takes a number that is not a constant; pass it as a tensor");
    return success(!captured.wasInterrupted());
  }

  void buildSignature() {
    SmallVector<Type> types;
    auto addTensor = [&](Value tensor) {
      types.push_back(b.globalPtr());
      kernel.operands.push_back({tensor, std::nullopt});
    };
    for (Value input : op.getInputs())
      if (isa<RankedTensorType>(input.getType()))
        addTensor(input);
    for (auto [i, init] : llvm::enumerate(op.getOutputs()))
      if (readsInit(i) && !constantInit(init))
        addTensor(init);
    for (Value result : op.getResults())
      addTensor(result);
    for (KernelOperand size : source) {
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
      inputs.push_back(isa<RankedTensorType>(input.getType()) ? function.getArgument(next++)
                                                              : Value());
    for (auto [i, init] : llvm::enumerate(op.getOutputs()))
      inits.push_back(readsInit(i) && !constantInit(init) ? function.getArgument(next++) : Value());
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      results.push_back(function.getArgument(next++));
    for (unsigned i = 0; i < source.size(); ++i)
      sizes.push_back(function.getArgument(next++));
  }

  bool readsInit(unsigned i) {
    return !op.getRegionOutputArgs()[i].use_empty() || !reductions.empty();
  }
  /// The constant that `init` is filled with; null if there is none.
  static TypedAttr constantInit(Value init) {
    Attribute constant;
    if (auto fill = init.getDefiningOp<linalg::FillOp>())
      if (matchPattern(fill.value(), m_Constant(&constant)))
        return cast<TypedAttr>(constant);
    DenseElementsAttr dense;
    if (matchPattern(init, m_Constant(&dense)) && dense.isSplat())
      return cast<TypedAttr>(dense.getSplatValue<Attribute>());
    return {};
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
    for (unsigned d : llvm::reverse(parallel)) {
      indices[d] = b.rem(element, sizes[d]);
      element = b.div(element, sizes[d]);
    }
    SmallVector<Value> values;
    for (auto [i, init] : llvm::enumerate(op.getOutputs())) {
      auto type = cast<RankedTensorType>(init.getType());
      if (!readsInit(i))
        values.push_back(b.zero(type.getElementType()));
      else if (TypedAttr constant = constantInit(init))
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
    if (depth == reductions.size())
      return runBody(indices, accumulators);
    unsigned d = reductions[depth];
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
  SmallVector<unsigned> parallel, reductions;
  SmallVector<KernelOperand> source; // the operand that gives each loop's size
  SmallVector<Value> inputs, inits, results, sizes;
};
} // namespace

FailureOr<Kernel> ejk::emitLinalgKernel(linalg::GenericOp op, gpu::GPUModuleOp module,
                                        StringRef name) {
  return LinalgEmitter(op, name, OpBuilder(op.getContext())).run(module);
}
