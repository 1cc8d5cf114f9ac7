//===- CpuElementwise.cpp - what stands between recurrences, on a CPU -----===//
//
// An item of a linalg.generic is a row along the last parallel loop, or, where all operands
// are walked alike, a run of elements. Where the last loop's elements are neighbours in
// memory they are computed a vector at a time.
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/CpuElementwise.h"
#include "lowering/cpu/CpuBuilder.h"
#include "lowering/kernels/HeadsKernel.h"
#include "lowering/kernels/LinalgLoops.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;

static constexpr unsigned kWidth = 16;
/// Elements of an item where all are walked alike.
static constexpr int64_t kRun = 4096;

namespace {
class ElementwiseEmitter {
public:
  ElementwiseEmitter(linalg::GenericOp op, StringRef name, OpBuilder builder)
      : op(op), name(name), b(builder, op.getLoc()) {}

  FailureOr<Kernel> run(gpu::GPUModuleOp module) {
    FailureOr<LinalgLoops> found = LinalgLoops::of(op);
    if (failed(found))
      return failure();
    loops = std::move(*found);
    b.setInsertionPointToEnd(module.getBody());
    buildSignature();
    bool flat = isWalkedAlike(), vectors = flat || takesVectors();
    b.loop(function.getArgument(1), function.getArgument(2), 1, {}, [&](Value item, ValueRange) {
      flat ? runRun(item) : runRow(item, vectors);
      return SmallVector<Value>();
    });
    b.make<LLVM::ReturnOp>(ValueRange());
    kernel.threads = 1;
    for (unsigned d : flat ? ArrayRef(loops.parallel) : outer())
      kernel.gridSizes.push_back(loops.source[d]);
    kernel.gridDivisor = flat ? kRun : 1;
    return kernel;
  }

private:
  ArrayRef<unsigned> outer() const {
    return loops.parallel.empty() ? ArrayRef<unsigned>() : ArrayRef(loops.parallel).drop_back();
  }

  /// Whether each element of the body's results is computed from the same element of each
  /// operand, in the same order in memory.
  bool isWalkedAlike() {
    return takesVectors() && llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) {
             return map.isIdentity();
           });
  }

  /// Whether the last loop's elements lie side by side in each operand, or do not matter to it.
  bool takesVectors() {
    if (!loops.reductions.empty() || loops.parallel.empty())
      return false;
    unsigned last = loops.parallel.back();
    for (AffineMap map : op.getIndexingMapsArray())
      for (auto [dim, expr] : llvm::enumerate(map.getResults()))
        if (auto loop = dyn_cast<AffineDimExpr>(expr);
            loop && loop.getPosition() == last && dim + 1 != map.getNumResults())
          return false;
    return llvm::all_of(op.getBody()->without_terminator(), [](Operation &inner) {
      return inner.hasTrait<OpTrait::ConstantLike>() ||
             OpTrait::hasElementwiseMappableTraits(&inner);
    });
  }

  void buildSignature() {
    for (Value tensor : loops.tensors)
      kernel.operands.push_back({tensor, std::nullopt});
    llvm::append_range(kernel.operands, loops.source);
    function = makeCpuFunction(b, name);
    kernel.function = cast<FunctionOpInterface>(function.getOperation());
    unsigned next = 0;
    auto pointer = [&] { return cpuArgument(b, function, next++, b.pointer()); };
    for (Value input : op.getInputs())
      inputs.push_back(LinalgLoops::isTensor(input) ? pointer() : Value());
    for (auto [i, init] : llvm::enumerate(op.getOutputs()))
      inits.push_back(loops.loadsInit(op, i) ? pointer() : Value());
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      results.push_back(pointer());
    for (unsigned i = 0; i < loops.source.size(); ++i)
      sizes.push_back(cpuArgument(b, function, next++, b.getI64Type()));
  }

  void runRun(Value item) {
    Value total = b.i64(1);
    for (unsigned d : loops.parallel)
      total = b.mul(total, sizes[d]);
    Value start = b.mul(item, kRun), stop = b.min(b.add(start, kRun), total);
    auto offset = [&](RankedTensorType, AffineMap, Value position) { return position; };
    runLine(start, stop, offset, [](AffineMap) { return true; });
  }

  void runRow(Value item, bool vectors) {
    SmallVector<Value> indices(op.getNumLoops());
    for (unsigned d : llvm::reverse(outer())) {
      indices[d] = b.rem(item, sizes[d]);
      item = b.div(item, sizes[d]);
    }
    this->indices = indices;
    if (loops.parallel.empty())
      return runElement(Value());
    unsigned last = loops.parallel.back();
    auto at = [&](RankedTensorType type, AffineMap map, Value position) {
      this->indices[last] = position;
      return offsetOf(type, map);
    };
    if (!vectors) {
      b.loop(b.i64(0), sizes[last], 1, {}, [&](Value position, ValueRange) {
        runElement(position);
        return SmallVector<Value>();
      });
      return;
    }
    runLine(b.i64(0), sizes[last], at, [&](AffineMap map) {
      if (!map.getNumResults())
        return false;
      auto loop = dyn_cast<AffineDimExpr>(map.getResults().back());
      return loop && loop.getPosition() == last;
    });
  }

  using Offset = llvm::function_ref<Value(RankedTensorType, AffineMap, Value position)>;
  /// Elements [start, stop) of a line, some at a time, then the rest one by one.
  void runLine(Value start, Value stop, Offset offset,
               llvm::function_ref<bool(AffineMap)> varies) {
    Value whole = b.add(start, b.mul(b.div(b.sub(stop, start), kWidth), kWidth));
    for (unsigned width : {kWidth, 1u})
      b.loop(width > 1 ? start : whole, width > 1 ? whole : stop, width, {},
             [&](Value position, ValueRange) {
               auto load = [&](Value pointer, RankedTensorType type, AffineMap map) {
                 unsigned count = varies(map) ? width : 1;
                 Value place = b.at(pointer, type.getElementType(), offset(type, map, position));
                 Value loaded =
                     b.loadLanes(CpuBuilder::withCount(type.getElementType(), count), place);
                 return b.splat(loaded, width);
               };
               for (auto [i, value] : llvm::enumerate(runBody(load, {}, width))) {
                 auto type = cast<RankedTensorType>(op.getResult(i).getType());
                 b.storeLanes(b.splat(value, width),
                              b.at(results[i], type.getElementType(),
                                   offset(type, outputMap(i), position)));
               }
               return SmallVector<Value>();
             });
  }

  Value offsetOf(RankedTensorType type, AffineMap map) {
    Value offset = b.i64(0);
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      Value index, size = b.i64(1);
      if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
        index = indices[loop.getPosition()];
        size = sizes[loop.getPosition()];
      } else {
        index = b.i64(cast<AffineConstantExpr>(expr).getValue());
      }
      if (!type.isDynamicDim(dim))
        size = b.i64(type.getDimSize(dim));
      offset = b.add(b.mul(offset, size), index);
    }
    return offset;
  }

  AffineMap outputMap(unsigned i) { return op.getMatchingIndexingMap(op.getDpsInitOperand(i)); }

  Value loadElement(Value pointer, RankedTensorType type, AffineMap map) {
    return b.loadLanes(type.getElementType(),
                       b.at(pointer, type.getElementType(), offsetOf(type, map)));
  }

  /// One element, with its reductions in their order.
  void runElement(Value position) {
    if (position)
      indices[loops.parallel.back()] = position;
    SmallVector<Value> values;
    for (auto [i, init] : llvm::enumerate(op.getOutputs())) {
      auto type = cast<RankedTensorType>(init.getType());
      if (!loops.readsInit(op, i))
        values.push_back(b.zero(type.getElementType()));
      else if (TypedAttr number = LinalgLoops::constantInit(init))
        values.push_back(b.make<arith::ConstantOp>(number));
      else
        values.push_back(loadElement(inits[i], type, outputMap(i)));
    }
    values = reduce(0, values);
    for (auto [i, value] : llvm::enumerate(values)) {
      auto type = cast<RankedTensorType>(op.getResult(i).getType());
      b.storeLanes(value, b.at(results[i], type.getElementType(), offsetOf(type, outputMap(i))));
    }
  }

  SmallVector<Value> reduce(unsigned depth, ValueRange accumulators) {
    if (depth == loops.reductions.size())
      return runBody([&](Value pointer, RankedTensorType type,
                         AffineMap map) { return loadElement(pointer, type, map); },
                     accumulators, 1);
    unsigned d = loops.reductions[depth];
    return b.loop(b.i64(0), sizes[d], 1, accumulators, [&](Value i, ValueRange inner) {
      indices[d] = i;
      return reduce(depth + 1, inner);
    });
  }

  SmallVector<Value> runBody(llvm::function_ref<Value(Value, RankedTensorType, AffineMap)> load,
                             ValueRange accumulators, unsigned width) {
    IRMapping mapping;
    auto copyConstant = [&](Value v) -> Value {
      TypedAttr number;
      matchPattern(v, m_Constant(&number));
      return b.splat(b.make<arith::ConstantOp>(number), width);
    };
    for (auto [i, operand] : llvm::enumerate(op.getDpsInputOperands())) {
      Value value = operand->get(), arg = op.getRegionInputArgs()[i];
      auto type = dyn_cast<RankedTensorType>(value.getType());
      mapping.map(arg, type ? load(inputs[i], type, op.getMatchingIndexingMap(operand))
                            : copyConstant(value));
    }
    if (!accumulators.empty())
      mapping.map(op.getRegionOutputArgs(), accumulators);
    else
      for (auto [i, arg] : llvm::enumerate(op.getRegionOutputArgs()))
        if (!arg.use_empty()) {
          auto type = cast<RankedTensorType>(op.getOutputs()[i].getType());
          TypedAttr number = LinalgLoops::constantInit(op.getOutputs()[i]);
          mapping.map(arg, number ? b.splat(b.make<arith::ConstantOp>(number), width)
                                  : load(inits[i], type, outputMap(i)));
        }
    for (Operation &inner : op.getBody()->without_terminator()) {
      for (Value v : inner.getOperands())
        if (!mapping.contains(v)) // a constant from outside: check() saw to that
          mapping.map(v, copyConstant(v));
      if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
        mapping.map(index.getResult(),
                    b.make<arith::IndexCastOp>(b.getIndexType(), indices[index.getDim()]));
      } else if (width > 1 && inner.hasTrait<OpTrait::ConstantLike>()) {
        mapping.map(inner.getResult(0), copyConstant(inner.getResult(0)));
      } else {
        Operation *clone = b.clone(inner, mapping);
        if (width > 1)
          for (Value result : clone->getResults())
            result.setType(CpuBuilder::withCount(result.getType(), width));
      }
    }
    return llvm::map_to_vector(op.getBody()->getTerminator()->getOperands(), [&](Value v) {
      Value found = mapping.lookupOrNull(v);
      return found ? found : copyConstant(v);
    });
  }

  linalg::GenericOp op;
  StringRef name;
  CpuBuilder b;
  Kernel kernel;
  LLVM::LLVMFuncOp function;
  LinalgLoops loops;
  SmallVector<Value> inputs, inits, results, sizes, indices;
};
} // namespace

FailureOr<Kernel> ejk::emitCpuElementwise(linalg::GenericOp op, gpu::GPUModuleOp module,
                                          StringRef name) {
  return ElementwiseEmitter(op, name, OpBuilder(op.getContext())).run(module);
}

/// An item is one head of the result.
Kernel ejk::emitCpuHeads(Operation *op, gpu::GPUModuleOp module, StringRef name) {
  CpuBuilder b(OpBuilder(op->getContext()), op->getLoc());
  b.setInsertionPointToEnd(module.getBody());
  Value states = op->getOperand(0), result = op->getResult(0);
  int64_t inner = elementsOfHead(result), whole = inner / kWidth * kWidth;
  Kernel kernel;
  kernel.operands = {{states, std::nullopt}, {result, std::nullopt}, {states, 1}, {result, 1}};
  LLVM::LLVMFuncOp function = makeCpuFunction(b, name);
  kernel.function = cast<FunctionOpInterface>(function.getOperation());
  Value from = cpuArgument(b, function, 0, b.pointer()),
        to = cpuArgument(b, function, 1, b.pointer());
  Value given = cpuArgument(b, function, 2, b.getI64Type()),
        wanted = cpuArgument(b, function, 3, b.getI64Type());
  HeadSource source(op);
  b.loop(function.getArgument(1), function.getArgument(2), 1, {}, [&](Value item, ValueRange) {
    Value there = b.mul(source.of(b, item, given, wanted), inner), here = b.mul(item, inner);
    Value exists = source.exists(b, item, given, wanted);
    for (unsigned width : {kWidth, 1u})
      b.loop(b.i64(width > 1 ? 0 : whole), b.i64(width > 1 ? whole : inner), width, {},
             [&](Value position, ValueRange) {
               Type f32 = CpuBuilder::withCount(b.getF32Type(), width);
               Value copied = b.loadLanes(f32, b.at(from, b.getF32Type(), b.add(there, position)));
               if (exists)
                 copied = b.make<arith::SelectOp>(exists, copied, b.number(0, width));
               b.storeLanes(copied, b.at(to, b.getF32Type(), b.add(here, position)));
               return SmallVector<Value>();
             });
    return SmallVector<Value>();
  });
  b.make<LLVM::ReturnOp>(ValueRange());
  kernel.threads = 1;
  kernel.gridSizes = {{result, 0}, {result, 1}};
  return kernel;
}

/// An item is one head of the result, with what lies side by side behind it.
Kernel ejk::emitCpuSumHeads(SumHeadsOp op, gpu::GPUModuleOp module, StringRef name) {
  CpuBuilder b(OpBuilder(op.getContext()), op.getLoc());
  b.setInsertionPointToEnd(module.getBody());
  auto type = cast<RankedTensorType>(op.getType());
  unsigned rank = type.getRank(), dim = op.getDim();
  Kernel kernel;
  kernel.operands = {
      {op.getTensor(), std::nullopt}, {op.getResult(), std::nullopt}, {op.getTensor(), dim}};
  for (unsigned d = dim; d < rank; ++d)
    kernel.operands.push_back({op.getResult(), d});
  LLVM::LLVMFuncOp function = makeCpuFunction(b, name);
  kernel.function = cast<FunctionOpInterface>(function.getOperation());
  Value from = cpuArgument(b, function, 0, b.pointer()),
        to = cpuArgument(b, function, 1, b.pointer());
  auto size = [&](unsigned i) { return cpuArgument(b, function, i, b.getI64Type()); };
  Value group = b.div(size(2), size(3)), inner = b.i64(1);
  for (unsigned d = dim + 1; d < rank; ++d)
    inner = b.mul(inner, size(3 + d - dim));
  b.loop(function.getArgument(1), function.getArgument(2), 1, {}, [&](Value item, ValueRange) {
    Value first = b.mul(b.mul(item, group), inner), place = b.mul(item, inner);
    Value whole = b.mul(b.div(inner, kWidth), kWidth);
    for (unsigned width : {kWidth, 1u})
      b.loop(width > 1 ? b.i64(0) : whole, width > 1 ? whole : inner, width, {},
             [&](Value position, ValueRange) {
               Type f32 = CpuBuilder::withCount(b.getF32Type(), width);
               Value start = b.add(first, position);
               Value sum = b.loop(b.i64(0), group, 1, b.number(0, width),
                                  [&](Value g, ValueRange sums) {
                                    Value there = b.add(start, b.mul(g, inner));
                                    Value term =
                                        b.loadLanes(f32, b.at(from, b.getF32Type(), there));
                                    return SmallVector<Value>{b.addF(sums[0], term)};
                                  })
                               .front();
               b.storeLanes(b.roundTo(type.getElementType(), sum),
                            b.at(to, type.getElementType(), b.add(place, position)));
               return SmallVector<Value>();
             });
    return SmallVector<Value>();
  });
  b.make<LLVM::ReturnOp>(ValueRange());
  kernel.threads = 1;
  for (unsigned d = 0; d <= dim; ++d)
    kernel.gridSizes.push_back({op.getResult(), d});
  return kernel;
}
