//===- TileKernel.cpp - the kernel around a block program -----------------===//
//
// One thread block for each sequence, head and slice:
//
//   find the sequence's rows and cells; load the parameters that are numbers
//   the program, op by op, in its order
//
// The program's scalars and counters become one value that every thread has,
// its tiles what Placed says.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileKernel.h"
#include "lowering/emit/TileEmitter.h"
#include "lowering/emit/TileMemory.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static RankedTensorType tensorType(Value v) { return cast<RankedTensorType>(v.getType()); }

static unsigned prefixRank(Value parameter, Value arg) {
  auto cell = dyn_cast<CellsType>(arg.getType());
  return tensorType(parameter).getRank() - (cell ? cast<VectorType>(cell.getCell()).getRank() : 0);
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

void TileEmitter::buildSignature(SizeName sizeName) {
  // Tensors, in the order of the program's operands and results. What is only
  // read may go through the read-only cache, but for initial states, which may be
  // the final states' own memory.
  KernelSignature signature(kernel, sizeName);
  auto addTensors = [&](ValueRange tensors, bool isReadOnly) {
    for (Value tensor : tensors)
      if (!isa<OpResult>(tensor) || tensor.getDefiningOp() != program || !tensor.use_empty())
        signature.addTensor(tensor, isReadOnly);
  };
  addTensors(program.getSequences(), true);
  addTensors(program.getParameters(), true);
  addTensors(program.getInitialStates(), false);
  addTensors(program.getSavedStates(), true);
  if (Value cu = program.getCuSeqlens())
    addTensors(cu, true);
  addTensors(program.getResults(), false);
  unsigned numPointers = signature.numTensors();

  Value first = program.getSequences().front();
  unsigned steps = signature.addSize(first, 1), queryHeads = signature.addSize(first, 2);
  std::optional<unsigned> offsets;
  if (Value cu = program.getCuSeqlens())
    offsets = signature.addSize(cu, 0);
  SmallVector<unsigned> sequenceHeads;
  for (Value v : program.getSequences())
    sequenceHeads.push_back(signature.addSize(v, 2));
  SmallVector<std::optional<unsigned>> parameterHeads;
  for (auto [parameter, arg] : llvm::zip(program.getParameters(), program.getParameterArgs())) {
    unsigned prefix = prefixRank(parameter, arg);
    parameterHeads.push_back(prefix ? std::optional(signature.addSize(parameter, prefix - 1))
                                    : std::nullopt);
  }

  unsigned firstMap = kernel.operands.size();
  findMaps();
  auto function =
      signature.makeFunction(b, name, LLVM::LLVMPointerType::get(b.getContext()));
  kernel.threads = workers = countWarps() * kWarpSize;
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(kernel.threads), 1, 1}));
  // A block on a multiprocessor is enough: no registers are to be saved for more.
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
  for (unsigned i = firstMap; i < kernel.operands.size(); ++i)
    passByValue(function, i);
  kernel.function = function;
  b.setInsertionPointToStart(&function.getBody().front());

  // A size that the type says is the same number in every address.
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
  for (unsigned i = 0; i < numPointers; ++i)
    pointers[kernel.operands[i].tensor].push_back(function.getArgument(i));
  // Tensors may be passed twice; each place takes its own argument.
  for (auto [arg, tensor, i] :
       llvm::zip(program.getSequenceArgs(), program.getSequences(), sequenceHeads))
    rows[arg] = {takePointer(tensor), size(i)};
  for (auto [arg, tensor, i] :
       llvm::zip(program.getParameterArgs(), program.getParameters(), parameterHeads))
    parameters.push_back({takePointer(tensor), i ? size(*i) : Value()});
  auto addCells = [&](ValueRange args, ValueRange tensors) {
    for (auto [arg, tensor] : llvm::zip(args, tensors))
      if (Value pointer = takePointer(tensor))
        cells[arg] = {pointer};
  };
  addCells(program.getInitialArgs(), program.getInitialStates());
  addCells(program.getSavedArgs(), program.getSavedStates());
  if (Value cu = program.getCuSeqlens())
    cuPointer = takePointer(cu);
  for (auto [arg, tensor] : llvm::zip(program.getOutputArgs(), program.getOutputs()))
    if (Value pointer = takePointer(tensor))
      rows[arg] = {pointer, heads};
  addCells(program.getFinalArgs(), program.getFinalStates());
  addCells(program.getSaveArgs(), program.getSaves());
}

/// The next of the arguments that pass `tensor`; null where it is not passed.
Value TileEmitter::takePointer(Value tensor) {
  auto &left = pointers[tensor];
  if (left.empty())
    return {};
  Value pointer = left.front();
  left.erase(left.begin());
  return pointer;
}

//===----------------------------------------------------------------------===//
// Where this block works
//===----------------------------------------------------------------------===//

void TileEmitter::locateThread(Value number) {
  thread = number;
  lane = b.rem(thread, kWarpSize);
  warp = b.div(thread, kWarpSize);
  // As a lane's own it is the same to the assembler in all lanes, and what follows from it,
  // as the places of products' factors, needs no vector registers.
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
  if (cuPointer) {
    sequence = longestFirst(sequence);
    stateIndex = b.add(b.mul(b.wide(sequence), heads), b.wide(head));
  }
  locateSequence(sequence);

  for (auto [arg, tensor] : llvm::zip(program.getSequenceArgs(), program.getSequences()))
    placeRows(rows[arg], tensor);
  for (auto [arg, tensor] : llvm::zip(program.getOutputArgs(), program.getOutputs()))
    if (rows.contains(arg))
      placeRows(rows[arg], tensor);
  auto placeAll = [&](ValueRange args, bool saved) {
    for (Value arg : args)
      if (cells.contains(arg))
        placeCells(cells[arg], cast<CellsType>(arg.getType()).getCell(), saved);
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
}

/// Row `index` of the offsets. They are the caller's; clamped, no value of them can reach
/// outside.
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

/// The sequence that has number `place` by length. Blocks start in the order of their
/// numbers: one with a long sequence that started last would work when all others have
/// ended. Of few sequences, each lane of a warp counts those before two of them; of many,
/// or where they are short, that is not worth it, and `place` is the sequence.
Value TileEmitter::longestFirst(Value place) {
  constexpr int64_t most = 2 * kWarpSize, leastRows = 256;
  Value few = b.less(sequences, most + 1),
        longEnough = b.less(b.mul(sequences, leastRows), b.add(totalSteps, 1));
  auto branch = b.make<scf::IfOp>(TypeRange(b.getI32Type()), b.both(few, longEnough),
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
  // As a lane's own, so that all addresses are known to be the same in all lanes.
  found = shuffle(found, b.i32(0), gpu::ShuffleMode::IDX);
  b.make<scf::YieldOp>(ValueRange{found});
  return branch.getResult(0);
}

/// The sequence's rows: one batch entry's, or those between two offsets.
void TileEmitter::locateSequence(Value sequence) {
  sequenceIndex = b.wide(sequence);
  firstRow = cuPointer ? packedOffset(sequenceIndex) : b.mul(sequenceIndex, totalSteps);
  length = cuPointer ? packedLength(sequenceIndex) : totalSteps;
}

void TileEmitter::placeRows(Rows &place, Value tensor) {
  RankedTensorType type = tensorType(tensor);
  place.channels = type.getRank() == 4 ? type.getDimSize(3) : 1;
  place.element = type.getElementType();
  place.stride = b.mul(place.heads, place.channels);
  Value column = b.mul(ownHead(place.heads), place.channels);
  place.base = b.at(place.pointer, place.element, b.add(b.mul(firstRow, place.stride), column));
  place.length = length;
  place.inMap = cuPointer ? PlaceInMap{b.i32(0), b.narrow(firstRow), b.narrow(column)}
                          : PlaceInMap{b.narrow(sequenceIndex), b.i32(0), b.narrow(column)};
}

void TileEmitter::placeCells(Cells &place, Type type, bool saved) {
  place.element = getElementTypeOrSelf(type);
  int64_t elements = 1;
  if (auto vector = dyn_cast<VectorType>(type)) {
    place.shape.assign(vector.getShape().begin(), vector.getShape().end());
    elements = vector.getNumElements();
  }
  Value cell = stateIndex;
  place.count = b.i64(1);
  if (saved) {
    int64_t every = *program.getSaveEvery();
    place.count = b.div(b.add(length, every - 1), every);
    Value slot = b.add(b.div(firstRow, every), sequenceIndex);
    cell = b.add(b.mul(slot, heads), b.wide(head));
  }
  place.first = cell;
  place.base = b.at(place.pointer, place.element, b.mul(cell, elements));
  place.stride = b.mul(heads, elements);
}

/// Numbers are loaded at once, of vectors the place is noted.
void TileEmitter::takeParameters(Value sequence) {
  for (auto [parameter, tensor, arg] :
       llvm::zip(parameters, program.getParameters(), program.getParameterArgs())) {
    auto cell = dyn_cast<CellsType>(arg.getType());
    auto vector = cell ? cast<VectorType>(cell.getCell()) : VectorType();
    Type element = tensorType(tensor).getElementType();
    Value base = parameter.pointer;
    if (unsigned prefix = prefixRank(tensor, arg)) {
      Value index = ownHead(parameter.heads);
      if (prefix == 2)
        index = b.add(b.mul(sequence, parameter.heads), index);
      base = b.at(base, element, b.mul(index, vector ? vector.getNumElements() : 1));
    }
    if (vector)
      // The only cell: its number is no matter.
      cells[arg] = {parameter.pointer,
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

/// The head, of `ownHeads` that divide the query heads, that this one shares.
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
  // One name for the shared memory of all kernels: its size is the launch's.
  StringRef sharedName = "ejk_shared";
  shared = module.lookupSymbol<LLVM::GlobalOp>(sharedName);
  if (!shared)
    shared = LLVM::GlobalOp::create(b, b.loc, LLVM::LLVMArrayType::get(b.getI8Type(), 0),
                                    /*isConstant=*/false, LLVM::Linkage::External, sharedName,
                                    Attribute(), /*alignment=*/1024, kSharedSpace);
  buildSignature(sizeName);
  locate();
  findLongBlocks();
  findSummedInParts();
  findLastUses();
  writeTriangles();
  emitBlock(program.getBlock());
  awaitAll();
  awaitSent();
  b.make<gpu::ReturnOp>();
  kernel.sharedBytes = memory.size();
  describeLaunch();
  return kernel;
}

void TileEmitter::describeLaunch() {
  Value first = program.getSequences().front();
  kernel.gridSizes.push_back({first, 2});
  if (Value cu = program.getCuSeqlens())
    kernel.sequencesFrom = cu;
  else
    kernel.gridSizes.push_back({first, 0});
  kernel.gridFactor = program.getSlices();
}

/// Makes kernels until loops have the barriers that they need, and no others; then, where the
/// device stores tiles, until loops know which are on their way, with a barrier at each one's
/// head; at last one with these that waits at each one's end.
static Kernel emitWithin(ProgramOp program, gpu::GPUModuleOp module, StringRef name,
                         SizeName sizeName, unsigned freeBytes, bool placesByTurns) {
  LoopEnds ends;
  auto emit = [&] {
    return TileEmitter(program, name, OpBuilder(program.getContext()), freeBytes, placesByTurns,
                       ends)
        .run(module, sizeName);
  };
  constexpr unsigned kRounds = 3;
  bool done = false;
  // Knows what the kernel before it found.
  auto emitRounds = [&](Kernel &kernel, bool areInPlace, bool haveBarriers) {
    for (unsigned round = 0; round < kRounds && !done; ++round) {
      LoopEnds next;
      next.areInPlace = areInPlace;
      next.haveBarriers = haveBarriers;
      next.known = std::move(ends.found);
      if (haveBarriers)
        for (auto &[loop, touched] : next.known)
          touched = touched.onlySent();
      ends = std::move(next);
      kernel.function.erase();
      kernel = emit();
      done = !ends.wrong;
    }
  };
  auto sends = [&] {
    return llvm::any_of(ends.found, [](auto &loop) { return !loop.second.sent.empty(); });
  };
  Kernel kernel = emit();
  if (ends.found.empty())
    return kernel; // there are no loops
  emitRounds(kernel, /*areInPlace=*/false, /*haveBarriers=*/false);
  // What an iteration touches last may have its place where the one before it has not, and so on:
  // then that is not avoided, where the device stores tiles and a barrier at a loop's head would
  // wait for it.
  if (sends())
    emitRounds(kernel, /*areInPlace=*/true, /*haveBarriers=*/false);
  if (sends())
    emitRounds(kernel, /*areInPlace=*/false, /*haveBarriers=*/true);
  if (done)
    return kernel;
  kernel.function.erase();
  ends = LoopEnds();
  return emit();
}

unsigned ejk::sharedMemoryNeed(ProgramOp program, bool placesByTurns) {
  OpBuilder b(program.getContext());
  OwningOpRef<gpu::GPUModuleOp> module = gpu::GPUModuleOp::create(b, program.getLoc(), "measured");
  // Any names will do.
  auto sizeName = [](Value tensor, unsigned dim) {
    return std::to_string(reinterpret_cast<uintptr_t>(tensor.getAsOpaquePointer())) + "." +
           std::to_string(dim);
  };
  LoopEnds ends;
  return TileEmitter(program, "measured", OpBuilder(program.getContext()), /*freeBytes=*/0,
                     placesByTurns, ends)
      .run(*module, sizeName)
      .sharedBytes;
}

/// Whether a loop hands on a tile in panels.
static bool carriesFactors(ProgramOp program) {
  return program
      ->walk([](scf::ForOp loop) {
        return llvm::any_of(loop.getInits(),
                            [](Value init) {
                              return isa<VectorType>(init.getType()) && isPanels(layoutOf(init));
                            })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

FailureOr<Kernel> ejk::emitTileKernel(ProgramOp program, gpu::GPUModuleOp module, StringRef name,
                                      SizeName sizeName, unsigned sharedLimit) {
  if (failed(checkLaidOut(program)) || failed(checkRoles(program)))
    return failure();
  unsigned needed = 0;
  // What was used freely may be missing later on.
  SmallVector<std::pair<unsigned, bool>> attempts = {
      {sharedLimit, false}, {sharedLimit - sharedLimit / 8, false}, {0, false}};
  if (carriesFactors(program))
    attempts.insert(attempts.begin(), {sharedLimit, true});
  for (auto [freeBytes, placesByTurns] : attempts) {
    Kernel kernel = emitWithin(program, module, name, sizeName, freeBytes, placesByTurns);
    if (kernel.sharedBytes <= sharedLimit)
      return kernel;
    needed = kernel.sharedBytes;
    kernel.function.erase();
  }
  return program.emitError() << "needs " << needed << " bytes of shared memory a block, more than "
                             << "the " << sharedLimit << " of this architecture; make its chunks "
                             << "shorter, or divide the state into more slices",
         failure();
}
