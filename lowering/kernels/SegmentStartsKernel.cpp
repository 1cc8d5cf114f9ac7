//===- SegmentStartsKernel.cpp - the kernel of ejk.segment_starts ---------===//
//
// A block copies a part of one segment's and head's state, which lies in one piece. Each thread has
// 16 bytes, or one element where a state is no multiple of these.
//
//===----------------------------------------------------------------------===//
#include "lowering/kernels/SegmentStartsKernel.h"
#include "lowering/kernels/ElementKernel.h"
#include "lowering/kernels/Segments.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

Kernel ejk::emitSegmentStartsKernel(SegmentStartsOp op, gpu::GPUModuleOp module, StringRef name) {
  KernelBuilder b(OpBuilder(op.getContext()), op.getLoc());
  Value cu = op.getCuSeqlens(), like = op.getLike(), given = op.getInitial();
  auto type = cast<RankedTensorType>(op.getSaves().getType());
  int64_t elements = type.getDimSize(2) * type.getDimSize(3), width = elements % 4 ? 1 : 4;
  int64_t inBlock = cost::kElementThreads * width;

  Kernel kernel;
  kernel.operands = {
      {op.getSaves()}, {op.getStarts()}, {op.getSaves(), 0}, {op.getStarts(), 1}, {like, 1}};
  if (given)
    kernel.operands.push_back({given});
  if (cu)
    llvm::append_range(kernel.operands, ArrayRef<KernelOperand>{{cu}, {cu, 0}});
  kernel.gridSizes = {{op.getStarts(), 0}, {op.getStarts(), 1}};
  kernel.gridFactor = llvm::divideCeil(elements, inBlock);
  b.setInsertionPointToEnd(module.getBody());
  auto function = makeElementKernel(b, kernel, name);
  auto arg = [&](Value tensor, std::optional<unsigned> dim = {}) -> Value {
    for (auto [i, operand] : llvm::enumerate(kernel.operands))
      if (operand.tensor == tensor && operand.dim == dim)
        return function.getArgument(i);
    llvm_unreachable("not an operand");
  };

  Value block = b.blockId(), item = b.div(block, kernel.gridFactor),
        heads = b.narrow(arg(op.getStarts(), 1));
  Value number = b.div(item, heads), head = b.wide(b.rem(item, heads)), steps = arg(like, 1);
  Value every = b.i64(op.getEvery());
  // The offsets are the caller's; no value of them gives a place outside the rows.
  auto offset = [&](Value index) -> Value {
    Type type = cast<RankedTensorType>(cu.getType()).getElementType();
    Value known = b.load(type, b.at(arg(cu), type, index));
    if (type.isInteger(32))
      known = b.make<arith::ExtSIOp>(b.getI64Type(), known);
    return b.min(b.max(known, b.i64(0)), steps);
  };
  SegmentSizes sizes{every, {}, b.i64(0)};
  Value sequences;
  if (cu)
    sequences = b.sub(arg(cu, 0), 1);
  else
    sizes.ofEach = b.max(b.div(b.add(steps, b.sub(every, 1)), every), b.i64(1));
  KernelSegment segment = locateSegment(b, sizes, number, sequences, offset);
  Value sequence = b.wide(segment.sequence);
  Value firstRow = cu ? offset(sequence) : b.mul(sequence, steps);
  Value length = cu ? b.sub(offset(b.add(sequence, 1)), firstRow) : steps;
  Value slot = b.add(b.add(b.div(firstRow, every), sequence), b.div(segment.start, every));
  slot = b.add(slot, b.i64(op.getReverse() ? 1 : -1));
  slot = b.max(b.min(slot, b.sub(arg(op.getSaves(), 0), 1)), b.i64(0));
  Value end = b.add(segment.start, every);
  Value isLater = op.getReverse() ? b.less(end, length) : b.less(b.i64(0), segment.start);
  Value isFirst = op.getReverse() ? b.less(length, b.add(end, 1)) : b.equal(segment.start, 0);

  Value element =
      b.add(b.mul(b.rem(block, kernel.gridFactor), inBlock), b.mul(b.threadId(), width));
  b.onlyIf(elements % inBlock ? b.less(element, b.i32(elements)) : Value(), [&] {
    Type part = KernelBuilder::withCount(b.getF32Type(), width);
    auto at = [&](Value states, Value place) {
      Value state = b.add(b.mul(place, b.wide(heads)), head);
      return b.at(arg(states), b.getF32Type(), b.add(b.mul(state, elements), b.wide(element)));
    };
    Value saved = b.loadIf(isLater, part, [&] { return at(op.getSaves(), slot); });
    Value start =
        given ? b.loadIf(isFirst, part, [&] { return at(given, sequence); }) : b.zero(part);
    b.store(b.make<arith::SelectOp>(isLater, saved, start), at(op.getStarts(), b.wide(number)));
  });
  b.make<gpu::ReturnOp>();
  return kernel;
}
