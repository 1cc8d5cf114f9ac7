//===- TilePlace.cpp - which rows and states a block has ------------------===//
//
// A thread block is one of a sequence or segment, a head and a slice. From its number follow the rows, slots
// and parameters that it reads and writes.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/TileMemory.h"
#include "lowering/kernels/ShiftedRows.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

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
  locateTurns();
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

/// Whether the program skips the block. Where no flags are given, a program that starts from
/// another's results skips all, and others none.
Value TileEmitter::isSkipped() {
  bool isRest = !program.getInto().empty();
  auto given = b.make<scf::IfOp>(TypeRange(b.getI1Type()), b.isNotNull(skippedPointer),
                                 /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(given.elseBlock());
  b.make<scf::YieldOp>(ValueRange{b.make<arith::ConstantOp>(b.getBoolAttr(isRest))});
  b.setInsertionPointToStart(given.thenBlock());
  Value index = b.add(b.mul(sequenceIndex, heads), b.wide(head));
  Value flag = b.load(b.getF32Type(), b.at(skippedPointer, b.getF32Type(), index));
  // Shuffled, so that the assembler knows the branch to be uniform in the warp.
  flag = shuffle(b.make<arith::BitcastOp>(b.getI32Type(), flag), b.i32(0), gpu::ShuffleMode::IDX);
  flag = b.make<arith::BitcastOp>(b.getF32Type(), flag);
  b.make<scf::YieldOp>(
      ValueRange{b.make<arith::CmpFOp>(arith::CmpFPredicate::OGE, flag, b.f32(1))});
  return given.getResult(0);
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

Value TileEmitter::ownHead(Value ownHeads) {
  return ejk::ownHead(b, head, heads, ownHeads, sharedHeads);
}
