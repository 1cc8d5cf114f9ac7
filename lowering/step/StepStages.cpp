//===- StepStages.cpp - a chunk's crossings in shared memory ---------------===//
//
// A double buffer in shared memory has the crossings of `chunk` steps each: steps read one while
// the other is filled. Rows are prefetched a whole chunk ahead into registers, so that the steps in
// between hide their latency.
//
//===----------------------------------------------------------------------===//
#include "lowering/step/StepEmitter.h"
#include "lowering/kernels/DynamicShared.h"
#include "lowering/kernels/StepElements.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

static bool isVector(Value value) { return isa<VectorType>(value.getType()); }

void StepEmitter::declareShared(gpu::GPUModuleOp module) {
  if (plan.sharedBytes() > kStaticSharedBytes) {
    shared = dynamicShared(b, module);
    kernel.sharedBytes = plan.sharedBytes();
    return;
  }
  auto type = LLVM::LLVMArrayType::get(b.getF32Type(), plan.sharedFloats());
  shared =
      LLVM::GlobalOp::create(b, b.loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
                             (name + "_shared").str(), Attribute(), /*alignment=*/16, kSharedSpace);
}

Value StepEmitter::sharedBase() { return b.make<LLVM::AddressOfOp>(shared); }

/// Rows past the state's are multiplied like any other; zeros keep them zero.
void StepEmitter::clearPadding() {
  unsigned padding = plan.paddedRows() - plan.rows;
  if (!padding)
    return;
  for (const Crossing &crossing : plan.crossings) {
    if (crossing.layout != Layout::row || crossing.ofQuery)
      continue;
    b.loop(thread, b.i32(plan.stages() * plan.chunk * padding), plan.threads(), {},
           [&](Value i, ValueRange) {
             Value step = b.div(i, padding), stage = b.div(step, plan.chunk);
             Value offset = b.add(b.mul(stage, plan.stageFloats),
                                  b.mul(b.rem(step, plan.chunk), plan.paddedRows()));
             offset = b.add(b.add(offset, b.rem(i, padding)), crossing.offset + plan.rows);
             b.store(b.f32(0.0), b.at(sharedBase(), b.getF32Type(), offset));
             return SmallVector<Value>();
           });
  }
}

//===----------------------------------------------------------------------===//
// What a step computes without the state
//===----------------------------------------------------------------------===//

Value StepEmitter::rotated(Layout layout, Value position) {
  int64_t half = (layout == Layout::row ? plan.rows : plan.columns) / 2;
  return b.make<arith::SelectOp>(b.less(position, half), b.add(position, half),
                                 b.sub(position, half));
}

/// Computes `width` channels of `value` from the position of `here` on. `here` has the loaded rows
/// and caches computed values.
Value StepEmitter::evaluate(Value value, unsigned width, Place &here, Place *otherHalf) {
  if (!hasChannels(value))
    width = 1;
  IRMapping &known = here.known;
  if (Value found = known.lookupOrNull(value))
    return found;
  if (Value found = invariants.lookupOrNull(value))
    return found;
  Type type = isVector(value) ? KernelBuilder::withCount(value.getType(), width) : value.getType();
  Value result;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    const Row &row = parameters[arg.getArgNumber() - sequences.size()];
    bool isFirst = !here.position || !hasChannels(value);
    result = b.load(type, isFirst ? row.base : b.at(row.base, row.element, here.position));
  } else if (DenseElementsAttr constant; matchPattern(value, m_Constant(&constant))) {
    Attribute element = constant.getSplatValue<Attribute>();
    if (auto vector = dyn_cast<VectorType>(type))
      element = DenseElementsAttr::get(vector, element);
    result = b.make<arith::ConstantOp>(cast<TypedAttr>(element));
  } else if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>()) {
    result = evaluate(broadcast.getSource(), width, here, otherHalf);
    if (result.getType() != type)
      result = b.make<vector::BroadcastOp>(type, result);
  } else if (isa<HeadIndexOp, NumHeadsOp>(value.getDefiningOp())) {
    bool isHead = isa<HeadIndexOp>(value.getDefiningOp());
    result = b.make<arith::IndexCastOp>(b.getIndexType(), isHead ? b.wide(queryHead) : queryHeads);
  } else if (isa<StepIndexOp>(value.getDefiningOp())) {
    result = b.make<arith::IndexCastOp>(b.getIndexType(), positionOf(here.row));
  } else if (isOnlyChannel(value.getDefiningOp())) {
    result = evaluate(value.getDefiningOp()->getOperand(0), width, here, otherHalf);
  } else if (auto rotate = value.getDefiningOp<RotateHalfOp>()) {
    Value turned = evaluate(rotate.getVector(), width, *otherHalf, &here);
    int64_t half = cast<VectorType>(value.getType()).getDimSize(0) / 2;
    result =
        b.make<arith::SelectOp>(b.less(here.position, half), b.make<arith::NegFOp>(turned), turned);
  } else {
    Operation *op = value.getDefiningOp();
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, evaluate(operand, width, here, otherHalf));
    result = cloneStepOp(b, op, operands, type);
  }
  known.map(value, result);
  return result;
}

/// The scalar that `value` broadcasts, or `value` itself.
static Value throughBroadcast(Value value) {
  auto broadcast = value.getDefiningOp<vector::BroadcastOp>();
  return broadcast && !isVector(broadcast.getSource()) ? broadcast.getSource() : value;
}

void StepEmitter::computeInvariants() {
  Place place;
  for (Value arg : scan.getParameterArgs())
    if (!isVector(arg))
      invariants.map(arg, evaluate(arg, 1, place));
  for (Operation &op : scan.getStep().without_terminator())
    if (!plan.stateful.contains(op.getResult(0)) && !isVector(op.getResult(0)) &&
        !plan.queryValues.contains(op.getResult(0)) && isConstantInTime(scan, op.getResult(0)))
      invariants.map(op.getResult(0), evaluate(op.getResult(0), 1, place));
  scan.getBody().walk([&](DecayOp decay) {
    Value gate = throughBroadcast(decay.getGate());
    if (Value value = invariants.lookupOrNull(gate))
      invariantExponentials[gate] = b.make<math::ExpOp>(value);
  });
}

//===----------------------------------------------------------------------===//
// From global memory, through registers, to shared memory
//===----------------------------------------------------------------------===//

/// The steps and channels that this thread computes in round `index`. `active` is null if all
/// threads have some.
StepEmitter::Unit StepEmitter::unitOf(const Domain &domain, unsigned index) {
  unsigned perStep = domain.length / domain.width, units = plan.chunk * perStep;
  Value unit = b.add(thread, index * plan.threads());
  Value active = (index + 1) * plan.threads() <= units ? Value() : b.less(unit, units);
  return {b.div(unit, perStep), b.mul(b.rem(unit, perStep), domain.width), active};
}

/// The address of a row's element at `channel`, or of its first. In a loop over steps, that of a row
/// by the caller's stride is computed anew: the row's number is the same for all tensors, an address
/// of each would take registers of its own.
Value StepEmitter::addressOf(const Row &row, const RowAddress &there, Value channel) {
  Value base = there.base, number = there.row, stride = row.stride;
  bool anew = row.givenStride && !plan.singleStep;
  if (anew) {
    base = row.pointer;
    number = b.add(firstRow, number);
    stride = b.wide(b.opaque(row.givenStride));
  }
  Value offset = b.mul(number, stride);
  if (anew)
    offset = b.add(offset, b.wide(row.column));
  auto at = [&](Value base, Value offset) {
    return b.at(base, row.element, channel ? b.add(offset, channel) : offset);
  };
  if (!there.haloRow)
    return at(base, offset);
  return b.make<arith::SelectOp>(there.inside, at(base, offset),
                                 at(row.haloBase, b.mul(there.haloRow, row.haloStride)));
}

SmallVector<Value> StepEmitter::prefetch(Value firstStep) {
  SmallVector<Value> rows;
  for (const Domain &domain : plan.domains)
    for (unsigned index = 0; index < domain.unitsPerThread; ++index) {
      Unit unit = unitOf(domain, index);
      if (plan.singleStep && unit.active) {
        // All threads load, the others what the last one does: loads without a branch are issued
        // together, before the first of their values is waited for.
        Value last = b.i32(domain.length / domain.width - 1);
        Value own = b.min(b.add(thread, index * plan.threads()), last);
        unit = {b.i32(0), b.mul(own, domain.width), Value()};
      }
      Value step = b.add(firstStep, b.wide(unit.step));
      Value valid = b.both(unit.active, b.less(step, length));
      Value channel = unit.position;
      if (domain.layout == Layout::column) {
        channel = b.add(blockColumn, unit.position);
        if (columnsPadded)
          valid = b.both(valid, b.less(channel, plan.columns));
      }
      Value memoryRow = rowOfStep(step);
      Value otherHalf = domain.rotates ? rotated(domain.layout, channel) : Value();
      for (LoadedRow loaded : domain.rows) {
        bool vector = hasChannels(scan.getSequenceArgs()[loaded.sequence]);
        const Row &row = sequences[loaded.sequence];
        Value from = loaded.rotated ? otherHalf : channel;
        RowAddress there = findRow(row, memoryRow);
        rows.push_back(b.loadIf(b.both(valid, there.exists),
                                KernelBuilder::withCount(row.element, vector ? domain.width : 1),
                                [&] { return addressOf(row, there, vector ? b.wide(from) : Value()); }));
      }
    }
  return rows;
}

void StepEmitter::commit(ValueRange rows, Value firstStep, Value stage) {
  auto next = rows.begin();
  for (const Domain &domain : plan.domains)
    for (unsigned index = 0; index < domain.unitsPerThread; ++index) {
      Unit unit = unitOf(domain, index);
      Place here, otherHalf;
      for (LoadedRow loaded : domain.rows) {
        Value arg = scan.getSequenceArgs()[loaded.sequence];
        if (!loaded.rotated)
          here.known.map(arg, *next);
        if (loaded.rotated || !hasChannels(arg))
          otherHalf.known.map(arg, *next);
        ++next;
      }
      Value channel =
          domain.layout == Layout::column ? b.add(blockColumn, unit.position) : unit.position;
      // Channels past the end of a parameter must not be read.
      if (domain.layout == Layout::column && columnsPadded)
        channel = b.min(channel, b.i32(plan.columns - domain.width));
      here.row = otherHalf.row = rowOfStep(b.add(firstStep, b.wide(unit.step)));
      here.position = channel;
      b.onlyIf(unit.active, [&] {
        if (domain.rotates)
          otherHalf.position = rotated(domain.layout, channel);
        for (unsigned c : domain.crossings) {
          const Crossing &crossing = plan.crossings[c];
          Value value = evaluate(crossing.value, domain.width, here, &otherHalf);
          Type f32 =
              KernelBuilder::withCount(b.getF32Type(), isVector(crossing.value) ? domain.width : 1);
          if (getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth() < 32)
            value = b.make<arith::ExtFOp>(f32, value);
          if (crossing.exponential)
            value = b.make<math::ExpOp>(value);
          Value offset =
              b.add(b.mul(stage, plan.stageFloats), b.mul(unit.step, plan.lengthOf(domain.layout)));
          offset = b.add(b.add(offset, unit.position), crossing.offset);
          b.store(value, b.at(sharedBase(), b.getF32Type(), offset));
        }
      });
    }
}
