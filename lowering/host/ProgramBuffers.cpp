//===- ProgramBuffers.cpp - the memory of a program of launches -----------===//
#include "lowering/host/ProgramBuffers.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Names.h"
#include "lowering/host/PrepareTensors.h"
#include "lowering/kernels/RowStrides.h"
#include "lowering/kernels/Views.h"
#include "lowering/select/Conditions.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace ejk;

static MemRefType bufferType(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return MemRefType::get(type.getShape(), type.getElementType());
}

/// Whether `arg` is a pool and nothing else, so that its slots may lie apart.
static bool isPool(BlockArgument arg) {
  return !arg.use_empty() && llvm::all_of(arg.getUses(), [](OpOperand &use) {
    if (auto write = dyn_cast<WriteStatesOp>(use.getOwner()))
      return &use == &write.getPoolMutable();
    if (auto read = dyn_cast<ReadStatesOp>(use.getOwner()))
      return &use == &read.getPoolMutable();
    auto zero = dyn_cast<ZeroSkippedOp>(use.getOwner());
    return isa<tensor::DimOp>(use.getOwner()) || (zero && &use == &zero.getPoolMutable());
  });
}

/// The type of a buffer that the caller decides over the first `free` strides of.
static MemRefType stridedType(BlockArgument tensor, unsigned free) {
  MemRefType type = bufferType(tensor);
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t d = type.getRank() - 1; d-- > 0;)
    strides[d] = type.isDynamicDim(d + 1) || ShapedType::isDynamic(strides[d + 1])
                     ? ShapedType::kDynamic
                     : strides[d + 1] * type.getDimSize(d + 1);
  std::fill_n(strides.begin(), free, ShapedType::kDynamic);
  return MemRefType::get(type.getShape(), type.getElementType(),
                         StridedLayoutAttr::get(type.getContext(), 0, strides));
}

LogicalResult ProgramBuffers::createProgram() {
  Operation *ret = function.getBody().front().getTerminator();
  SmallVector<Type> types;
  for (BlockArgument arg : function.getArguments()) {
    if (!isStorable(arg.getType()))
      return function.emitError() << "argument '" << argumentName(function, arg.getArgNumber())
                                  << "' is " << arg.getType() << "; a compiled function takes "
                                  << kStorable;
    // A pool's slots lie at any distance, and so do rows.
    types.push_back(isPool(arg)         ? stridedType(arg, 1)
                    : hasRowStride(arg) ? stridedType(arg, kRowDim + 1)
                                        : bufferType(arg));
  }
  for (Value result : ret->getOperands())
    types.push_back(bufferType(result));
  unsigned numInputs = function.getNumArguments();
  program =
      func::FuncOp::create(b, function.getLoc(), function.getName(), b.getFunctionType(types, {}));
  program->setAttr(kNumInputsAttr, b.getI64IntegerAttr(numInputs));
  program->setAttr(kConstraintsAttr, function->getAttr(kConstraintsAttr));
  for (StringRef name : {kForwardOfAttr, kDerivativeOfAttr, kScheduleAttr, kAlternativeOfAttr,
                         kNeedsAttr, kWhenAttr})
    if (Attribute attribute = function->getAttr(name))
      program->setAttr(name, attribute);
  b.setInsertionPointToStart(program.addEntryBlock());
  for (BlockArgument arg : function.getArguments()) {
    program.setArgAttrs(arg.getArgNumber(), function.getArgAttrDict(arg.getArgNumber()));
    if (hasRowStride(arg))
      program.setArgAttr(arg.getArgNumber(), kRowStrideAttr, b.getUnitAttr());
    buffers[arg] = program.getArgument(arg.getArgNumber());
    noteSizes(arg, buffers[arg]);
  }
  for (auto [i, result] : llvm::enumerate(ret->getOperands())) {
    program.setArgAttrs(numInputs + i, function.getResultAttrDict(i));
    buffers[result] = buffers[memoryOf(result)] = program.getArgument(numInputs + i);
    describeAlias(numInputs + i, result);
  }
  return success();
}

void ProgramBuffers::describeAlias(unsigned index, Value result) {
  unsigned readers = 1;
  bool isState = cast<RankedTensorType>(result.getType()).getRank() == 4;
  result = sameMemory(result);
  if (auto write = result.getDefiningOp<WriteStatesOp>()) {
    if (auto pool = dyn_cast<BlockArgument>(write.getPool())) {
      program.setArgAttr(index, kMayAliasAttr, b.getI64IntegerAttr(pool.getArgNumber()));
      program.setArgAttr(index, kInPlaceAttr, b.getUnitAttr());
    }
    return;
  }
  if (auto choose = result.getDefiningOp<tile::ChooseOp>()) {
    // The block program for several steps reads the same state, and each block only its part.
    result = choose.getSingle();
    readers = 2;
  }
  auto scan = result.getDefiningOp<ScanOp>();
  if (!scan)
    return;
  unsigned number = cast<OpResult>(result).getResultNumber(), outputs = scan.getOutputs().size();
  if (number < outputs || number >= outputs + scan.getFinalStates().size() || !isState)
    return;
  Value given = scan.getInitialState(number - outputs);
  auto initial = given ? dyn_cast<BlockArgument>(sameMemory(given)) : BlockArgument();
  if (initial && given.hasNUses(readers) && initial.hasNUses(given == initial ? readers : 1))
    program.setArgAttr(index, kMayAliasAttr, b.getI64IntegerAttr(initial.getArgNumber()));
}

/// Whether `wanted` is one of the conditions that `needs` joins by "and".
static bool holds(Attribute needs, ArrayAttr wanted) {
  auto all = dyn_cast<ArrayAttr>(needs);
  if (!all || all == wanted)
    return bool(all);
  return all.size() == 3 && all[0] == StringAttr::get(all.getContext(), "and") &&
         (holds(all[1], wanted) || holds(all[2], wanted));
}

bool ProgramBuffers::sumsSingleTerms(SumHeadsOp sum) {
  auto needs = function->getAttrOfType<ArrayAttr>(kNeedsAttr);
  Value terms = sum.getTensor();
  if (!needs || !terms.getDefiningOp<ScanOp>() || !terms.hasOneUse() ||
      getElementTypeOrSelf(terms.getType()) != getElementTypeOrSelf(sum.getType()))
    return false;
  Attribute many = b.getStringAttr(sizeOf(terms, sum.getDim()).str());
  Attribute few = b.getStringAttr(sizeOf(sum.getLike(), sum.getDim()).str());
  return holds(needs, condition(b, "=", many, few));
}

FailureOr<Value> ProgramBuffers::hostSlotStride(Operation *op, Value pool) {
  Location loc = op->getLoc();
  if (auto arg = dyn_cast<BlockArgument>(pool); arg && isPool(arg))
    return memref::ExtractStridedMetadataOp::create(b, loc, buffers.lookup(arg)).getStrides()[0];
  return elementsFrom(op, pool, 1);
}

FailureOr<Value> ProgramBuffers::hostRowStride(Operation *op, Value tensor) {
  if (hasRowStride(tensor))
    return memref::ExtractStridedMetadataOp::create(b, op->getLoc(), buffers.lookup(rowsOf(tensor)))
        .getStrides()[kRowDim];
  return elementsFrom(op, tensor, kRowDim + 1);
}

FailureOr<Value> ProgramBuffers::elementsFrom(Operation *op, Value tensor, unsigned first) {
  Value elements = index(1);
  for (unsigned d = first, e = cast<RankedTensorType>(tensor.getType()).getRank(); d < e; ++d) {
    FailureOr<Value> size = hostSize(op, tensor, d);
    if (failed(size))
      return failure();
    elements = arith::MulIOp::create(b, op->getLoc(), elements, *size);
  }
  return elements;
}

Value ProgramBuffers::memoryOf(Value tensor) {
  tensor = sameMemory(tensor);
  while (auto zero = tensor.getDefiningOp<ZeroSkippedOp>())
    tensor = sameMemory(zero.getRows());
  if (auto sum = tensor.getDefiningOp<SumHeadsOp>(); sum && sumsSingleTerms(sum))
    tensor = sameMemory(sum.getTensor());
  return tensor;
}

/// The choice of which `tensor`, or a view of it, is an alternative; null where there is none.
static tile::ChooseOp choiceOf(Value tensor) {
  for (Operation *user : tensor.getUsers()) {
    auto choose = dyn_cast<tile::ChooseOp>(user);
    if (choose && tensor != choose.getRows())
      return choose;
    if (auto view = dyn_cast<tensor::ReshapeOp>(user))
      if (tile::ChooseOp of = choiceOf(view.getResult()))
        return of;
  }
  return {};
}

/// The result of a program that starts as `tensor`; null where there is none.
static Value resultFrom(Value tensor) {
  for (Operation *user : tensor.getUsers())
    if (auto program = dyn_cast<tile::ProgramOp>(user))
      for (auto [start, result] : llvm::zip(program.getInto(), program.getResultsFromInto()))
        if (start == tensor)
          return result;
  return {};
}

FailureOr<Value> ProgramBuffers::bufferOf(Operation *op, Value tensor) {
  tensor = memoryOf(tensor);
  if (Value buffer = buffers.lookup(tensor))
    return buffer;
  // Both alternatives of a choice write to the buffer of its result.
  if (tile::ChooseOp choose = choiceOf(tensor)) {
    FailureOr<Value> chosen = bufferOf(op, choose.getResult());
    if (succeeded(chosen))
      buffers[tensor] = *chosen;
    return chosen;
  }
  if (Value result = resultFrom(tensor)) {
    FailureOr<Value> whole = bufferOf(op, result);
    if (succeeded(whole))
      buffers[tensor] = *whole;
    return whole;
  }
  Operation *def = tensor.getDefiningOp();
  if (auto write = dyn_cast_or_null<WriteStatesOp>(def)) {
    write.emitError("a pool that is written must be returned, for its caller's memory is written");
    return failure();
  }
  if (!isKernel(def)) {
    def->emitError() << "'" << def->getName() << "' cannot be compiled to a kernel here";
    return failure();
  }
  if (!isStorable(tensor.getType()))
    return def->emitError() << "makes a " << tensor.getType()
                            << " for several ops; what passes between kernels is " << kStorable,
           failure();
  MemRefType type = bufferType(tensor);
  SmallVector<Value> sizes;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (type.isDynamicDim(d)) {
      FailureOr<Value> size = hostSize(op, tensor, d);
      if (failed(size))
        return failure();
      sizes.push_back(*size);
    }
  return buffers[tensor] = memref::AllocOp::create(b, op->getLoc(), type, sizes);
}
