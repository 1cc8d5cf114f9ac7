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
#include "lowering/kernels/GroupedStates.h"
#include "lowering/kernels/ShiftedRows.h"
#include "lowering/layout/SummedParts.h"
#include "lowering/memory/PlanMemory.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static RankedTensorType tensorType(Value v) { return cast<RankedTensorType>(v.getType()); }

static unsigned prefixRank(Value parameter, Value arg) {
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
    results.push_back(end ? end.getResult() : result);
  }
  addTensors(initials, false);
  addTensors(program.getSavedStates(), true);
  for (Value optional : {program.getCuSeqlens(), program.getRemembered()})
    if (optional)
      addTensors(optional, true);
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
  // The heads of states; none where they are those of the program.
  auto headsOfStates = [&](ValueRange given, ValueRange own) {
    SmallVector<std::optional<unsigned>> sizes;
    for (auto [tensor, state] : llvm::zip(given, own))
      sizes.push_back(tensor == state ? std::nullopt : std::optional(signature.addSize(tensor, 1)));
    return sizes;
  };
  auto initialHeads = headsOfStates(initials, program.getInitialStates());
  auto finalHeads = headsOfStates(finals, program.getFinalStates());

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
  for (auto [arg, tensor] : llvm::zip(program.getOutputArgs(), program.getOutputs()))
    if (Value pointer = takePointer(tensor))
      rows[arg] = {pointer, heads};
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
// Position of the block
//===----------------------------------------------------------------------===//

void TileEmitter::locateThread(Value number) {
  thread = number;
  lane = b.rem(thread, kWarpSize);
  warp = b.div(thread, kWarpSize);
  // A shuffled value is known to the assembler to be uniform in the warp. Addresses computed from
  // it, such as those of matmul operands, need no vector registers.
  if (warpgroups)
    warp = shuffle(warp, b.i32(0), gpu::ShuffleMode::IDX);
  warpgroup = b.div(warp, kWarpgroup);
  group = b.div(lane, 4);
  member = b.rem(lane, 4);
}

void TileEmitter::locate() {
  locateThread(b.threadId());
  Value block = b.blockId();
  int64_t slices = program.getSlices();
  slice = slices == 1 ? b.i32(0) : b.rem(block, slices);
  Value sequenceHead = b.div(block, slices), heads32 = b.narrow(heads);
  Value sequence = b.div(sequenceHead, heads32);
  head = b.rem(sequenceHead, heads32);
  stateIndex = b.wide(sequenceHead);
  if (program.getSegments()) {
    sequence = locateSegment(sequence);
  } else {
    if (cuPointer) {
      sequence = longestFirst(sequence);
      stateIndex = b.add(b.mul(b.wide(sequence), heads), b.wide(head));
    }
    locateSequence(sequence);
  }

  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences())) {
    placeRows(rows[arg], tensor);
    if (ShiftOp shift = shiftOfRows(program, tensor))
      placeShifted(rows[arg], shift);
  }
  for (auto [arg, tensor] : llvm::zip(program.getOutputArgs(), program.getOutputs()))
    if (rows.contains(arg))
      placeRows(rows[arg], tensor);
  auto placeAll = [&](ValueRange args, bool saved) {
    for (Value arg : args)
      if (slots.contains(arg))
        placeSlots(slots[arg], cast<SlotsType>(arg.getType()).getSlot(), saved);
  };
  placeAll(program.getInitialArgs(), false);
  placeAll(program.getSavedArgs(), true);
  placeAll(program.getFinalArgs(), false);
  placeAll(program.getSaveArgs(), true);
  takeParameters(b.wide(sequence));

  scalars.map(program.getLength(), length);
  scalars.map(program.getSlice(), slice);
  scalars.map(program.getHead(), head);
  scalars.map(program.getNumHeads(), heads);
  if (program.getSegments()) {
    scalars.map(program.getFirstPosition(), firstPosition);
    scalars.map(program.getSequenceLength(), sequenceLength);
  }
}

/// Entry `index` of cu_seqlens. The caller provides the offsets, so they are clamped: no value can
/// cause an access out of bounds.
Value TileEmitter::packedOffset(Value index) {
  Type type = tensorType(program.getCuSeqlens()).getElementType();
  Value loaded = b.load(type, b.at(cuPointer, type, index));
  if (type.isInteger(32))
    loaded = b.make<arith::ExtSIOp>(b.getI64Type(), loaded);
  return b.min(b.max(loaded, b.i64(0)), totalSteps);
}

Value TileEmitter::packedLength(Value sequence) {
  Value begin = packedOffset(sequence), end = packedOffset(b.add(sequence, 1));
  return b.max(b.sub(end, begin), b.i64(0));
}

/// The sequence of rank `place` by length, longest first. Blocks start in order of their index, so
/// a long sequence that started last would run alone at the end. For few sequences, each lane ranks
/// two of them by counting. For many or short sequences that does not pay, and the result is
/// `place`, as where `areRanked` is false.
Value TileEmitter::longestFirst(Value place, Value areRanked) {
  constexpr int64_t most = 2 * kWarpSize, leastRows = 256;
  Value few = b.less(sequences, most + 1),
        longEnough = b.less(b.mul(sequences, leastRows), b.add(totalSteps, 1));
  auto branch = b.make<scf::IfOp>(TypeRange(b.getI32Type()),
                                  b.both(b.both(few, longEnough), areRanked),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.elseBlock());
  b.make<scf::YieldOp>(ValueRange{place});
  b.setInsertionPointToStart(branch.thenBlock());
  Value count = b.narrow(sequences);
  SmallVector<Value> own = {lane, b.add(lane, kWarpSize)}, lengths, none(2, b.i32(0));
  for (Value sequence : own)
    lengths.push_back(packedLength(b.wide(b.min(sequence, b.sub(count, 1)))));
  SmallVector<Value> before =
      b.loop(b.i32(0), count, 1, none, [&](Value other, ValueRange carried) {
        Value otherLength = packedLength(b.wide(other));
        SmallVector<Value> next;
        for (unsigned i : {0, 1}) {
          Value same = b.make<arith::CmpIOp>(arith::CmpIPredicate::eq, otherLength, lengths[i]);
          Value first = b.make<arith::OrIOp>(b.less(lengths[i], otherLength),
                                             b.both(same, b.less(other, own[i])));
          next.push_back(b.add(carried[i], b.make<arith::ExtUIOp>(b.getI32Type(), first)));
        }
        return next;
      });
  Value found = b.i32(-1);
  for (unsigned i : {0, 1}) {
    Value isIt = b.make<arith::CmpIOp>(arith::CmpIPredicate::eq, before[i], place);
    found = b.make<arith::SelectOp>(b.both(isIt, b.less(own[i], count)), own[i], found);
  }
  found = butterfly(found, 1, kWarpSize / 2, [&](Value x, Value y) { return b.max(x, y); });
  // Shuffled, so that the assembler knows all addresses to be uniform in the warp.
  found = shuffle(found, b.i32(0), gpu::ShuffleMode::IDX);
  b.make<scf::YieldOp>(ValueRange{found});
  return branch.getResult(0);
}

/// A sequence is one batch entry, or the rows between two offsets.
void TileEmitter::locateSequence(Value sequence) {
  sequenceIndex = b.wide(sequence);
  firstRow = cuPointer ? packedOffset(sequenceIndex) : b.mul(sequenceIndex, totalSteps);
  length = cuPointer ? packedLength(sequenceIndex) : totalSteps;
  sequenceFirst = firstRow;
  sequenceLength = length;
}

/// Segment `number`'s rows. Gives the sequence that it is a part of.
Value TileEmitter::locateSegment(Value number) {
  KernelSegment segment = ejk::locateSegment(b, segmentSizes, number, sequences,
                                             [&](Value index) { return packedOffset(index); });
  Value sequence = segment.sequence;
  if (cuPointer) {
    // A segment with more rows than there are is a whole sequence.
    Value isWhole = b.less(totalSteps, segmentSizes.rows);
    sequence = longestFirst(sequence, isWhole);
    stateIndex = b.make<arith::SelectOp>(
        isWhole, b.add(b.mul(b.wide(sequence), heads), b.wide(head)), stateIndex);
    // As a lane's own, so that all addresses are known to be the same in all lanes.
    sequence = shuffle(sequence, b.i32(0), gpu::ShuffleMode::IDX);
  }
  locateSequence(sequence);
  firstPosition = b.min(segment.start, length);
  firstRow = b.add(firstRow, firstPosition);
  length = b.min(b.sub(length, firstPosition), segment.rows);
  if (auto count = program.getTrailing()) {
    Value kept = keptRows(b, *count, length, rememberedPointer, stateIndex, [&](Value flag) {
      return shuffle(flag, b.i32(0), gpu::ShuffleMode::IDX);
    });
    if (!program.getTrailingReverse()) {
      firstPosition = b.sub(b.add(firstPosition, length), kept);
      firstRow = b.sub(b.add(firstRow, length), kept);
    }
    length = kept;
  }
  // A tensor with a map has fewer than 2^31 rows: one register for each over the loop, not two.
  if (!maps.empty()) {
    length = b.wide(b.narrow(length));
    firstPosition = b.wide(b.narrow(firstPosition));
  }
  return sequence;
}

void TileEmitter::placeRows(Rows &place, Value tensor) {
  RankedTensorType type = tensorType(tensor);
  place.channels = type.getRank() == 4 ? type.getDimSize(3) : 1;
  place.element = type.getElementType();
  place.stride =
      place.givenStride ? b.wide(place.givenStride) : b.mul(place.heads, place.channels);
  Value ownHead = this->ownHead(place.heads), column = b.mul(ownHead, place.channels);
  place.base = b.at(place.pointer, place.element, b.add(b.mul(firstRow, place.stride), column));
  place.length = length;
  place.tmaOrigin.matrix = cuPointer ? b.i32(0) : b.narrow(sequenceIndex);
  place.tmaOrigin.row = cuPointer       ? b.narrow(firstRow)
                        : firstPosition ? b.narrow(firstPosition)
                                        : b.i32(0);
  place.tmaOrigin.column = b.narrow(column);
  place.tmaOrigin.head = b.narrow(ownHead);
}

/// Row i of a sequence that is `shift`'s is the tensor's row i − by of the sequence, or one of the halo.
void TileEmitter::placeShifted(Rows &place, ShiftOp shift) {
  int64_t by = shift.getBy(), earlier = std::max<int64_t>(by, 0), later = std::max<int64_t>(-by, 0);
  // One pair of bounds for all tensors of one shift.
  auto [bounds, isNew] = shiftedRows.try_emplace(by);
  if (isNew) {
    Value begin = b.i64(earlier), left = b.sub(sequenceLength, later);
    if (firstPosition) {
      begin = b.max(b.sub(begin, firstPosition), b.i64(0));
      left = b.sub(left, firstPosition);
    }
    bounds->second = {begin, later ? b.min(length, left) : length};
  }
  std::tie(place.begin, place.length) = bounds->second;
  place.base = b.at(place.base, place.element, b.mul(place.stride, -by));
  place.tmaOrigin.row = b.sub(place.tmaOrigin.row, by);
  if (!shift.getHalo())
    return;
  place.allRows = length;
  // The halo's row in the place of the sequence's row 0.
  int64_t haloRows = tensorType(shift.getHalo()).getDimSize(1);
  Value row = b.add(b.mul(sequenceIndex, haloRows), later ? later : haloRows - earlier);
  if (later)
    row = b.sub(row, sequenceLength);
  if (firstPosition)
    row = b.add(row, firstPosition);
  Value column = b.mul(ownHead(place.heads), place.channels);
  place.haloStride = place.givenStride ? b.mul(place.heads, place.channels) : place.stride;
  place.haloBase =
      b.at(place.haloPointer, place.element, b.add(b.mul(row, place.haloStride), column));
}

void TileEmitter::placeSlots(Slots &place, Type type, bool saved) {
  place.element = getElementTypeOrSelf(type);
  int64_t elements = 1;
  if (auto vector = dyn_cast<VectorType>(type)) {
    place.shape.assign(vector.getShape().begin(), vector.getShape().end());
    elements = vector.getNumElements();
  }
  Value slot = stateIndex;
  place.count = b.i64(1);
  if (place.heads) {
    Value group = b.div(heads, place.heads);
    slot = b.div(slot, group);
    place.isFirst = b.equal(b.rem(b.wide(head), group), 0);
  }
  if (saved) {
    int64_t every = *program.getSaveEvery();
    place.count = b.div(b.add(length, every - 1), every);
    Value poolSlot = b.add(b.div(sequenceFirst, every), sequenceIndex);
    if (firstPosition)
      poolSlot = b.add(poolSlot, b.div(firstPosition, every));
    slot = b.add(b.mul(poolSlot, heads), b.wide(head));
  }
  place.first = slot;
  place.base = b.at(place.pointer, place.element, b.mul(slot, elements));
  place.stride = b.mul(heads, elements);
}

/// Loads scalar parameters. For a vector parameter, notes its address.
void TileEmitter::takeParameters(Value sequence) {
  for (auto [parameter, tensor, arg] :
       llvm::zip(parameters, program.getParameters(), program.getParameterArgs())) {
    auto slot = dyn_cast<SlotsType>(arg.getType());
    auto vector = slot ? cast<VectorType>(slot.getSlot()) : VectorType();
    Type element = tensorType(tensor).getElementType();
    Value base = parameter.pointer;
    if (unsigned prefix = prefixRank(tensor, arg)) {
      Value index = ownHead(parameter.heads);
      if (prefix == 2)
        index = b.add(b.mul(sequence, parameter.heads), index);
      base = b.at(base, element, b.mul(index, vector ? vector.getNumElements() : 1));
    }
    if (vector)
      // There is only one poolSlot, so its index does not matter.
      slots[arg] = {parameter.pointer,
                    base,
                    b.i64(0),
                    b.i64(0),
                    b.i64(1),
                    element,
                    llvm::to_vector(vector.getShape())};
    else
      scalars.map(arg, b.load(element, base));
  }
}

/// The head to read in a tensor with `ownHeads` heads, which divide the query heads.
Value TileEmitter::ownHead(Value ownHeads) {
  if (ownHeads == heads)
    return b.wide(head);
  Value &shared = sharedHeads[ownHeads];
  if (!shared)
    shared = b.wide(b.div(head, b.div(b.narrow(heads), b.narrow(ownHeads))));
  return shared;
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
  emitBlock(program.getBlock());
  b.make<gpu::ReturnOp>();
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
