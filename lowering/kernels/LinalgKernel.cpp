//===- LinalgKernel.cpp - the kernel of a linalg.generic ------------------===//
//
// Emits a kernel for elementwise ops and small reductions between recurrences. Each thread computes
// one element of the parallel loops, or several neighbours of the last one; the last loop varies
// fastest. Neighbours lie side by side in memory, so that 16 bytes are loaded and stored at once.
// Where the parallel loops allow no such lanes, those of the innermost reduction are taken: a sum
// still adds one element after the other.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/LinalgKernel.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/kernels/LinalgLoops.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;

/// Bytes of the widest load or store.
static constexpr unsigned kBytesOfAccess = 16;

namespace {
/// The loop of which a thread takes `count` neighbours at once.
struct Lanes {
  unsigned loop = 0, count = 1;
};

class LinalgEmitter {
public:
  LinalgEmitter(linalg::GenericOp op, StringRef name, OpBuilder builder)
      : op(op), name(name), b(builder, op.getLoc()) {}

  FailureOr<Kernel> run(gpu::GPUModuleOp module) {
    FailureOr<LinalgLoops> found = LinalgLoops::of(op);
    if (failed(found))
      return failure();
    loops = std::move(*found);
    merged = loops.mergedParallel(op);
    lanes = chooseLanes();
    b.setInsertionPointToEnd(module.getBody());
    buildSignature();
    Value element = b.add(b.mul(b.wide(b.blockId()), cost::kElementThreads), b.wide(b.threadId()));
    unsigned elements = takesLanes(loops.parallel) ? lanes.count : 1;
    element = b.mul(element, elements);
    Value total = b.i64(1);
    for (unsigned d : loops.parallel)
      total = b.mul(total, sizes[d]);
    b.onlyIf(b.less(element, total), [&] { runElement(element); });
    b.make<gpu::ReturnOp>();
    kernel.gridDivisor = cost::kElementThreads * elements;
    for (unsigned d : loops.parallel)
      kernel.gridSizes.push_back(loops.source[d]);
    return kernel;
  }

private:
  static bool walks(AffineMap map, unsigned loop) {
    return map.getResultPosition(getAffineDimExpr(loop, map.getContext())).has_value();
  }

  bool takesLanes(ArrayRef<unsigned> among) const {
    return lanes.count > 1 && llvm::is_contained(among, lanes.loop);
  }

  Lanes chooseLanes() {
    if (!op.getBody()->getOps<linalg::IndexOp>().empty())
      return {};
    for (ArrayRef<unsigned> among : {ArrayRef(loops.parallel), ArrayRef(loops.reductions)})
      if (unsigned count = among.empty() ? 1 : mostLanes(among.back()); count > 1)
        return {among.back(), count};
    return {};
  }

  /// How many neighbours of `loop` lie side by side in all that it walks, in whole accesses.
  unsigned mostLanes(unsigned loop) {
    std::optional<int64_t> length = LinalgLoops::staticLength(op, loop);
    if (!length)
      return 1;
    unsigned bytes = 1, ops = 0;
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      if (!walks(map, loop))
        continue;
      // Only tensors of floats start at multiples of 16 bytes (the package's manifest says so).
      Type type = getElementTypeOrSelf(operand.get().getType());
      if (map.getResults().back() != getAffineDimExpr(loop, op.getContext()) ||
          !isa<FloatType>(type))
        return 1;
      bytes = std::max(bytes, KernelBuilder::bytesOf(type));
    }
    for (Operation &inner : *op.getBody())
      ops += isa<math::MathDialect>(inner.getDialect()) ? cost::kOpsOfMath : 1;
    unsigned count = kBytesOfAccess / bytes;
    while (count > 1 && (*length % count != 0 || count * ops > cost::kOpsOfElementThread))
      count /= 2;
    return count;
  }

  void buildSignature() {
    for (Value tensor : loops.tensors)
      kernel.operands.push_back({tensor, std::nullopt});
    for (auto [d, size] : llvm::enumerate(loops.source))
      if (!LinalgLoops::staticLength(op, d))
        kernel.operands.push_back(size);
    gpu::GPUFuncOp function = makeElementKernel(b, kernel, name);
    unsigned next = 0;
    for (Value input : op.getInputs())
      inputs.push_back(LinalgLoops::isTensor(input) ? function.getArgument(next++) : Value());
    for (auto [i, init] : llvm::enumerate(op.getOutputs()))
      inits.push_back(loops.loadsInit(op, i) ? function.getArgument(next++) : Value());
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      results.push_back(function.getArgument(next++));
    for (unsigned d = 0; d < loops.source.size(); ++d) {
      std::optional<int64_t> length = LinalgLoops::staticLength(op, d);
      sizes.push_back(length ? b.i64(*length) : Value(function.getArgument(next++)));
    }
  }

  /// The address of the element of a tensor at the loops' `indices`. Of loops that are merged, the
  /// first has the index, and the others have none.
  Value address(Value pointer, RankedTensorType type, AffineMap map, ArrayRef<Value> indices) {
    Value offset;
    for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
      Value index, size;
      if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
        index = indices[loop.getPosition()];
        if (!index)
          continue;
        size = mergedSizes[loop.getPosition()];
      } else {
        index = b.i64(cast<AffineConstantExpr>(expr).getValue());
        size = b.i64(type.isDynamicDim(dim) ? 1 : type.getDimSize(dim));
      }
      offset = offset ? b.add(b.mul(offset, size), index) : index;
    }
    return b.at(pointer, type.getElementType(), offset ? offset : b.i64(0));
  }

  void runElement(Value element) {
    SmallVector<Value> indices(op.getNumLoops());
    mergedSizes.assign(sizes.begin(), sizes.end());
    for (auto [i, loop] : llvm::enumerate(llvm::reverse(merged))) {
      Value &size = mergedSizes[loop.front()];
      for (unsigned d : ArrayRef(loop).drop_front())
        size = b.mul(size, sizes[d]);
      bool isOutermost = i + 1 == merged.size();
      indices[loop.front()] = isOutermost ? element : b.rem(element, size);
      if (!isOutermost)
        element = b.div(element, size);
    }
    unsigned count = takesLanes(loops.parallel) ? lanes.count : 1;
    Accumulators values(count);
    for (auto [i, init] : llvm::enumerate(op.getOutputs())) {
      auto type = cast<RankedTensorType>(init.getType());
      SmallVector<Value> starts;
      if (!loops.readsInit(op, i))
        starts.assign(count, b.zero(type.getElementType()));
      else if (TypedAttr constant = LinalgLoops::constantInit(init))
        starts.assign(count, b.make<arith::ConstantOp>(constant));
      else
        starts = load(inits[i], type, outputMap(i), indices, count);
      for (auto [lane, start] : llvm::zip(values, starts))
        lane.push_back(start);
    }
    values = reduce(0, indices, values);
    for (unsigned i = 0; i < op.getNumResults(); ++i) {
      auto ofResult = llvm::map_to_vector(values, [&](auto &lane) { return lane[i]; });
      b.store(b.pack(ofResult),
              address(results[i], cast<RankedTensorType>(op.getResult(i).getType()), outputMap(i),
                      indices));
    }
  }

  AffineMap outputMap(unsigned i) { return op.getMatchingIndexingMap(op.getDpsInitOperand(i)); }

  /// Of each lane, the values of the body's results.
  using Accumulators = SmallVector<SmallVector<Value>>;

  /// `count` values of a tensor, one a lane: neighbours, or the same one where the lanes' loop is
  /// not walked.
  SmallVector<Value> load(Value pointer, RankedTensorType type, AffineMap map,
                          ArrayRef<Value> indices, unsigned count) {
    bool isWalked = count > 1 && walks(map, lanes.loop);
    Type loaded = KernelBuilder::withCount(type.getElementType(), isWalked ? count : 1);
    SmallVector<Value> values = b.unpack(b.load(loaded, address(pointer, type, map, indices)));
    values.resize(count, values.front());
    return values;
  }

  Accumulators reduce(unsigned depth, SmallVector<Value> &indices, const Accumulators &values) {
    if (depth == loops.reductions.size())
      return runBodies(indices, values);
    unsigned d = loops.reductions[depth];
    unsigned step = takesLanes(loops.reductions) && lanes.loop == d ? lanes.count : 1;
    SmallVector<Value> flat;
    for (auto &lane : values)
      llvm::append_range(flat, lane);
    auto ofLanes = [&](ValueRange all) {
      Accumulators split;
      for (size_t width = op.getNumResults(); !all.empty(); all = all.drop_front(width))
        split.emplace_back(all.take_front(width));
      return split;
    };
    return ofLanes(b.loop(b.i64(0), sizes[d], step, flat, [&](Value i, ValueRange inner) {
      indices[d] = i;
      SmallVector<Value> next;
      for (auto &lane : reduce(depth + 1, indices, ofLanes(inner)))
        llvm::append_range(next, lane);
      return next;
    }));
  }

  /// The bodies of all lanes: of a parallel loop each from its own values, of a reduction each from
  /// those of the one before.
  Accumulators runBodies(ArrayRef<Value> indices, Accumulators values) {
    SmallVector<SmallVector<Value>> loaded;
    for (auto [i, operand] : llvm::enumerate(op.getDpsInputOperands())) {
      auto type = dyn_cast<RankedTensorType>(operand->get().getType());
      loaded.push_back(
          type ? load(inputs[i], type, op.getMatchingIndexingMap(operand), indices, lanes.count)
               : SmallVector<Value>());
    }
    bool isReduction = takesLanes(loops.reductions);
    for (unsigned lane = 0; lane < lanes.count; ++lane) {
      SmallVector<Value> &own = values[isReduction ? 0 : lane];
      own = runBody(indices, loaded, lane, own);
    }
    return values;
  }

  SmallVector<Value> runBody(ArrayRef<Value> indices, ArrayRef<SmallVector<Value>> loaded,
                             unsigned lane, ValueRange accumulators) {
    IRMapping mapping;
    for (auto [i, operand] : llvm::enumerate(op.getDpsInputOperands()))
      mapping.map(op.getRegionInputArgs()[i],
                  loaded[i].empty() ? b.clone(*operand->get().getDefiningOp())->getResult(0)
                                    : loaded[i][lane]);
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
  SmallVector<SmallVector<unsigned>> merged;
  Lanes lanes;
  SmallVector<Value> inputs, inits, results, sizes, mergedSizes;
};
} // namespace

FailureOr<Kernel> ejk::emitLinalgKernel(linalg::GenericOp op, gpu::GPUModuleOp module,
                                        StringRef name) {
  return LinalgEmitter(op, name, OpBuilder(op.getContext())).run(module);
}
