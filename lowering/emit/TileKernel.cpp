//===- TileKernel.cpp - the kernel around a block program -----------------===//
//
// Emits the kernel of a laid-out block program, with one thread block for each sequence, head and
// slice. The kernel first computes the block's position and loads scalar parameters; then follow
// the program's ops in order. A scalar of the program becomes a value that every thread has; a tile
// becomes a `Placed`.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileKernel.h"
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/TileMemory.h"
#include "lowering/kernels/DynamicShared.h"
#include "lowering/kernels/GroupSums.h"
#include "lowering/kernels/GroupedStates.h"
#include "lowering/kernels/ShiftedRows.h"
#include "lowering/layout/SummedParts.h"
#include "lowering/memory/PlanMemory.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

unsigned TileEmitter::prefixRank(Value parameter, Value arg) {
  auto slot = dyn_cast<SlotsType>(arg.getType());
  return tensorType(parameter).getRank() - (slot ? cast<VectorType>(slot.getSlot()).getRank() : 0);
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

void TileEmitter::buildSignature(SizeName sizeName) {
  // Tensors, in the order of the program's operands and results. Tensors that are only read may use
  // the read-only cache. Initial states may not, because they may alias the final states.
  KernelSignature signature(kernel, sizeName);
  auto addTensors = [&](ValueRange tensors, bool isReadOnly) {
    for (Value tensor : tensors)
      if (!isa<OpResult>(tensor) || tensor.getDefiningOp() != program || !tensor.use_empty())
        signature.addTensor(tensor, isReadOnly);
  };
  SmallVector<Value> loaded = llvm::map_to_vector(
      program.getSequences(), [&](Value rows) { return loadedTensor(program, rows); });
  addTensors(loaded, true);
  for (Value tensor : program.getSequences())
    if (ShiftOp shift = shiftOfRows(program, tensor); shift && shift.getHalo())
      addTensors(shift.getHalo(), true);
  addTensors(program.getParameters(), true);
  // States that the query heads of a group share are read and written at the group's place.
  SmallVector<Value> initials, results;
  for (Value initial : program.getInitialStates()) {
    RepeatHeadsOp start = startOfGroup(program, initial);
    initials.push_back(start ? start.getStates() : initial);
  }
  for (Value result : program.getResults()) {
    FirstHeadsOp end = endOfGroup(program, result);
    SumHeadsOp sum = sumOfOutput(program, result);
    results.push_back(end ? end.getResult() : sum ? sum.getResult() : result);
  }
  addTensors(initials, false);
  addTensors(program.getSavedStates(), true);
  for (Value optional : {program.getCuSeqlens(), program.getRemembered(), program.getSkipped()})
    if (optional)
      addTensors(optional, true);
  if (Value turns = program.getTurns())
    addTensors(turns, false);
  addTensors(results, false);
  unsigned numPointers = signature.numTensors();

  Value first = program.getSequences().front();
  unsigned steps = signature.addSize(first, 1), queryHeads = signature.addSize(first, 2);
  std::optional<unsigned> offsets;
  if (Value cu = program.getCuSeqlens())
    offsets = signature.addSize(cu, 0);
  SmallVector<unsigned> sequenceHeads;
  for (Value v : program.getSequences())
    sequenceHeads.push_back(signature.addSize(v, 2));
  SmallVector<std::optional<unsigned>> rowStrides = llvm::map_to_vector(
      loaded, [&](Value tensor) { return signature.addRowStride(tensor); });
  SmallVector<std::optional<unsigned>> parameterHeads;
  for (auto [parameter, arg] : llvm::zip(program.getParameters(), program.getParameterArgs())) {
    unsigned prefix = prefixRank(parameter, arg);
    parameterHeads.push_back(prefix ? std::optional(signature.addSize(parameter, prefix - 1))
                                    : std::nullopt);
  }

  ValueRange finals =
      ValueRange(results).slice(program.getOutputs().size(), program.getFinalStates().size());
  // The heads of states and outputs; none where they are those of the program.
  auto headsOf = [&](ValueRange given, ValueRange own, unsigned dim) {
    SmallVector<std::optional<unsigned>> sizes;
    for (auto [tensor, state] : llvm::zip(given, own))
      sizes.push_back(tensor == state ? std::nullopt
                                      : std::optional(signature.addSize(tensor, dim)));
    return sizes;
  };
  auto initialHeads = headsOf(initials, program.getInitialStates(), 1);
  auto finalHeads = headsOf(finals, program.getFinalStates(), 1);
  auto outputs = ValueRange(results).take_front(program.getOutputs().size());
  auto outputHeads = headsOf(outputs, program.getOutputs(), 2);

  std::optional<unsigned> segments;
  if (program.getSegments())
    segments = signature.addSegments(bool(program.getCuSeqlens()));

  unsigned firstMap = kernel.operands.size();
  findMaps();
  auto function =
      signature.makeFunction(b, name, LLVM::LLVMPointerType::get(b.getContext()));
  kernel.threads = workers = countWarps() * kWarpSize;
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(kernel.threads), 1, 1}));
  // One block per SM suffices, so the assembler need not limit registers for more.
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
  for (unsigned i = firstMap; i < kernel.operands.size(); ++i)
    passByValue(function, i);
  kernel.function = function;
  b.setInsertionPointToStart(&function.getBody().front());

  // A static size folds into address computations.
  auto size = [&](unsigned i) -> Value {
    const KernelOperand &operand = kernel.operands[numPointers + i];
    int64_t known = tensorType(operand.tensor).getDimSize(*operand.dim);
    return ShapedType::isDynamic(known) ? Value(function.getArgument(numPointers + i))
                                        : b.i64(known);
  };
  totalSteps = size(steps);
  heads = size(queryHeads);
  if (offsets)
    sequences = b.sub(size(*offsets), 1);
  if (segments)
    segmentSizes =
        SegmentSizes::take([&](unsigned i) { return function.getArgument(numPointers + i); },
                           *segments, bool(program.getCuSeqlens()));
  for (unsigned i = 0; i < numPointers; ++i)
    pointers[kernel.operands[i].tensor].push_back(function.getArgument(i));
  // A tensor may be passed twice; each program argument takes one kernel argument.
  for (auto [arg, tensor, i, stride] :
       llvm::zip(program.getSequenceArgs(), loaded, sequenceHeads, rowStrides)) {
    rows[arg] = {takePointer(tensor), size(i)};
    if (stride)
      rows[arg].givenStride = b.narrow(function.getArgument(numPointers + *stride));
  }
  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    if (ShiftOp shift = shiftOfRows(program, tensor); shift && shift.getHalo())
      rows[arg].haloPointer = takePointer(shift.getHalo());
  for (auto [arg, tensor, i] :
       llvm::zip(program.getParameterArgs(), program.getParameters(), parameterHeads))
    parameters.push_back({takePointer(tensor), i ? size(*i) : Value()});
  auto addSlots = [&](ValueRange args, ValueRange tensors,
                      ArrayRef<std::optional<unsigned>> ownHeads = {}) {
    for (auto [i, arg, tensor] : llvm::enumerate(args, tensors))
      if (Value pointer = takePointer(tensor)) {
        slots[arg] = {pointer};
        if (!ownHeads.empty() && ownHeads[i])
          slots[arg].heads = size(*ownHeads[i]);
      }
  };
  addSlots(program.getInitialArgs(), initials, initialHeads);
  if (program.getSegments())
    for (Value arg : program.getInitialArgs())
      slots[arg].areGiven = b.isNotNull(slots[arg].pointer);
  addSlots(program.getSavedArgs(), program.getSavedStates());
  if (Value cu = program.getCuSeqlens())
    cuPointer = takePointer(cu);
  if (Value remembered = program.getRemembered())
    rememberedPointer = takePointer(remembered);
  if (Value skipped = program.getSkipped())
    skippedPointer = takePointer(skipped);
  if (Value turns = program.getTurns())
    turnsPointer = takePointer(turns);
  for (auto [arg, tensor, own] : llvm::zip(program.getOutputArgs(), outputs, outputHeads))
    if (Value pointer = takePointer(tensor))
      rows[arg] = {pointer, own ? size(*own) : heads};
  addSlots(program.getFinalArgs(), finals, finalHeads);
  addSlots(program.getSaveArgs(), program.getSaves());
}

/// The next kernel argument that passes `tensor`; null if none is left.
Value TileEmitter::takePointer(Value tensor) {
  auto &left = pointers[tensor];
  if (left.empty())
    return {};
  Value pointer = left.front();
  left.erase(left.begin());
  return pointer;
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

Kernel TileEmitter::run(gpu::GPUModuleOp module, SizeName sizeName) {
  warps = program->getAttrOfType<IntegerAttr>(kWarpsAttr).getInt();
  warpgroups = program->hasAttr(kWarpgroupsAttr);
  b.setInsertionPointToEnd(module.getBody());
  shared = dynamicShared(b, module);
  buildSignature(sizeName);
  locate();
  findLongBlocks();
  summedInParts = findSummedInParts(program);
  auto end = b.make<gpu::ReturnOp>();
  b.setInsertionPoint(end);
  if (skippedPointer)
    b.setInsertionPointToStart(b.make<scf::IfOp>(isSkipped(), /*withElseRegion=*/true).elseBlock());
  emitBlock(program.getBlock());
  b.setInsertionPointToEnd(end->getBlock());
  kernel.sharedBytes = program->getAttrOfType<IntegerAttr>(kSharedBytesAttr).getInt();
  describeLaunch();
  return kernel;
}

void TileEmitter::describeLaunch() {
  Value first = program.getSequences().front();
  kernel.gridSizes.push_back({first, 2});
  if (program.getSegments())
    kernel.segmented = true;
  else if (Value cu = program.getCuSeqlens())
    kernel.sequencesFrom = cu;
  else
    kernel.gridSizes.push_back({first, 0});
  kernel.gridFactor = program.getSlices();
}

FailureOr<Kernel> ejk::emitTileKernel(ProgramOp program, gpu::GPUModuleOp module, StringRef name,
                                      SizeName sizeName) {
  if (failed(checkLaidOut(program)) || failed(checkPlanned(program)) ||
      failed(checkPartitions(program)))
    return failure();
  return TileEmitter(program, name).run(module, sizeName);
}
