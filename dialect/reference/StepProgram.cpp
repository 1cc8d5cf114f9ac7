//===- StepProgram.cpp - a scan's region as a flat list of actions --------===//
#include "dialect/reference/StepProgram.h"
#include "dialect/reference/Constants.h"
#include "dialect/reference/RowMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace ejk::reference {
class StepCompiler {
public:
  StepCompiler(ScanOp scan, Precision precision) : scan(scan), precision(precision) {}
  FailureOr<StepProgram> compile();

private:
  LogicalResult compileOp(Operation *op);
  LogicalResult compileDecay(DecayOp op);
  LogicalResult compileOuterAdd(OuterAddOp op);
  LogicalResult compileRead(ReadOp op);
  LogicalResult compileCheckpoint(CheckpointOp op);
  LogicalResult compileSum(SumOp op);
  LogicalResult compileMax(MaxOp op);
  LogicalResult compileRotateHalf(RotateHalfOp op);
  LogicalResult compileStepIndex(StepIndexOp op);
  LogicalResult compileGateGradient(GateGradientOp op);
  LogicalResult compileHeadIndex(HeadIndexOp op);
  LogicalResult compileNumHeads(NumHeadsOp op);
  LogicalResult compileConstant(arith::ConstantOp op);
  LogicalResult compileBroadcast(vector::BroadcastOp op);
  LogicalResult compileElementwise(Operation *op);
  LogicalResult compileIf(scf::IfOp op);

  Slot allocate(Type type);
  Slot slotOf(Value value) { return slots.lookup(value); }
  /// A slot for the result of `op`: that of operand `reuse`, which has the same type, if the
  /// operand has no later use. So a state stays in one slot over all steps and is never copied.
  Slot resultSlot(Operation *op, ArrayRef<unsigned> reuse = {});
  void add(StepProgram::Action action) { program.actions.push_back(std::move(action)); }
  /// Calls fn(round), where round is f32 rounding or nothing.
  template <typename Fn> void withRounding(Fn fn) {
    if (precision == Precision::native)
      fn([](double x) { return double(float(x)); });
    else
      fn([](double x) { return x; });
  }

  ScanOp scan;
  Precision precision;
  StepProgram program;
  llvm::DenseMap<Value, Slot> slots;
  llvm::DenseMap<Value, Operation *> lastUse;
  /// Values that outlive the step: parameters and constants.
  llvm::DenseSet<Value> kept;
};
} // namespace ejk::reference

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

Slot StepCompiler::allocate(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  Slot slot;
  slot.isInt = !isa<FloatType>(getElementTypeOrSelf(type));
  slot.size = vector ? vector.getNumElements() : 1;
  size_t &end = slot.isInt ? program.numInts : program.numFloats;
  slot.offset = end;
  end += slot.size;
  return slot;
}

Slot StepCompiler::resultSlot(Operation *op, ArrayRef<unsigned> reuse) {
  Value result = op->getResult(0);
  Slot slot;
  bool found = false;
  for (unsigned i : reuse) {
    Value operand = op->getOperand(i);
    Slot old = slotOf(operand);
    bool fits =
        old.isInt == !isa<FloatType>(getElementTypeOrSelf(result.getType())) &&
        isa<VectorType>(operand.getType()) == isa<VectorType>(result.getType()) &&
        (!isa<VectorType>(result.getType()) || cast<VectorType>(operand.getType()).getShape() ==
                                                   cast<VectorType>(result.getType()).getShape());
    if (!fits || kept.contains(operand) || lastUse.lookup(operand) != op)
      continue;
    slot = old;
    found = true;
    break;
  }
  if (!found)
    slot = allocate(result.getType());
  slots[result] = slot;
  return slot;
}

//===----------------------------------------------------------------------===//
// One function per op
//===----------------------------------------------------------------------===//

LogicalResult StepCompiler::compileDecay(DecayOp op) {
  Slot state = slotOf(op.getState()), gate = slotOf(op.getGate());
  Slot result = resultSlot(op, {0});
  auto type = cast<VectorType>(op.getState().getType());
  size_t K = type.getDimSize(0), V = type.getDimSize(1);
  Axis axis = op.getAxis();
  // exp of the gate, once per element.
  Slot factors = gate;
  factors.offset = program.numFloats;
  program.numFloats += gate.size;
  withRounding([&](auto round) {
    add([=, math = rowMath(precision)](Frame &frame) {
      const double *g = frame.at(gate);
      double *d = frame.at(factors);
      for (size_t i = 0; i < gate.size; ++i)
        d[i] = round(std::exp(g[i]));
      for (size_t k = 0; k < K; ++k) {
        const double *s = frame.at(state) + k * V;
        double *out = frame.at(result) + k * V;
        if (axis == Axis::value) {
          // A decay of zero gives zero even if the state is infinite or NaN.
          for (size_t v = 0; v < V; ++v)
            out[v] = d[v] == 0 ? 0 : round(d[v] * s[v]);
          continue;
        }
        double factor = d[axis == Axis::key ? k : 0];
        if (factor == 0)
          std::fill(out, out + V, 0.0);
        else
          math.scale(out, factor, s, V);
      }
    });
  });
  return success();
}

LogicalResult StepCompiler::compileOuterAdd(OuterAddOp op) {
  Slot state = slotOf(op.getState()), key = slotOf(op.getKey()), value = slotOf(op.getValue());
  Slot result = resultSlot(op, {0});
  add([=, math = rowMath(precision)](Frame &frame) {
    for (size_t k = 0; k < key.size; ++k)
      math.addScaled(frame.at(result) + k * value.size, frame.at(state) + k * value.size,
                     frame.at(key)[k], frame.at(value), value.size);
  });
  return success();
}

LogicalResult StepCompiler::compileRead(ReadOp op) {
  Slot state = slotOf(op.getState()), vector = slotOf(op.getVector());
  Slot result = resultSlot(op);
  if (op.getAxis() == Axis::key)
    add([=, math = rowMath(precision)](Frame &frame) {
      double *out = frame.at(result);
      std::fill(out, out + result.size, 0.0);
      math.addRows(out, result.size, frame.at(vector), vector.size, frame.at(state), result.size);
    });
  else
    add([=, math = rowMath(precision)](Frame &frame) {
      for (size_t k = 0; k < result.size; ++k)
        frame.at(result)[k] =
            math.dot(frame.at(state) + k * vector.size, frame.at(vector), vector.size);
    });
  return success();
}

LogicalResult StepCompiler::compileCheckpoint(CheckpointOp op) {
  Slot vector = slotOf(op.getVector()), state = slotOf(op.getState());
  Slot saved = slotOf(op.getSaved()), result = resultSlot(op, {0});
  bool overKey = op.getAxis() == Axis::key;
  size_t terms = state.size / result.size;
  // The terms of an element are `pitch` apart.
  size_t pitch = overKey ? result.size : 1, start = overKey ? 1 : terms;
  withRounding([&](auto round) {
    add([=](Frame &frame) {
      if (!frame.entersChunk) {
        if (!(vector == result))
          std::copy_n(frame.at(vector), result.size, frame.at(result));
        return;
      }
      const double *a = frame.at(state), *s = frame.at(saved);
      for (size_t i = 0; i < result.size; ++i) {
        double sum = 0;
        for (size_t j = 0; j < terms; ++j)
          sum = round(sum + a[i * start + j * pitch] * s[i * start + j * pitch]);
        frame.at(result)[i] = sum;
      }
    });
  });
  return success();
}

LogicalResult StepCompiler::compileSum(SumOp op) {
  Slot vector = slotOf(op.getVector()), result = resultSlot(op);
  withRounding([&](auto round) {
    add([=](Frame &frame) {
      double sum = 0;
      for (size_t i = 0; i < vector.size; ++i)
        sum = round(sum + frame.at(vector)[i]);
      *frame.at(result) = sum;
    });
  });
  return success();
}

LogicalResult StepCompiler::compileMax(MaxOp op) {
  Slot vector = slotOf(op.getVector()), result = resultSlot(op);
  add([=](Frame &frame) {
    double largest = frame.at(vector)[0];
    for (size_t i = 1; i < vector.size; ++i)
      if (double x = frame.at(vector)[i]; std::isnan(x) || x > largest)
        largest = x;
    *frame.at(result) = largest;
  });
  return success();
}

LogicalResult StepCompiler::compileRotateHalf(RotateHalfOp op) {
  Slot vector = slotOf(op.getVector()), result = resultSlot(op);
  add([=](Frame &frame) {
    const double *x = frame.at(vector);
    double *y = frame.at(result);
    for (size_t c = 0, n = vector.size / 2; c < n; ++c) {
      y[c] = -x[c + n];
      y[c + n] = x[c];
    }
  });
  return success();
}

LogicalResult StepCompiler::compileGateGradient(GateGradientOp op) {
  Slot gradient = slotOf(op.getGradient()), gate = slotOf(op.getGate());
  Slot result = resultSlot(op, {0});
  bool first = op.getZeroFirst(), last = op.getZeroLast();
  add([=](Frame &frame) {
    bool idle = (first && frame.inFirstRow) || (last && frame.inLastRow);
    const double *g = frame.at(gate), *from = frame.at(gradient);
    double *to = frame.at(result);
    for (size_t i = 0; i < result.size; ++i) {
      bool forgets = std::isinf(g[gate.size == 1 ? 0 : i]) && g[gate.size == 1 ? 0 : i] < 0;
      to[i] = idle || forgets ? 0 : from[i];
    }
  });
  return success();
}

LogicalResult StepCompiler::compileStepIndex(StepIndexOp op) {
  Slot result = resultSlot(op);
  add([=](Frame &frame) { *frame.row(result).ints = frame.stepIndex; });
  return success();
}

LogicalResult StepCompiler::compileHeadIndex(HeadIndexOp op) {
  Slot result = resultSlot(op);
  add([=](Frame &frame) { *frame.row(result).ints = frame.head; });
  return success();
}

LogicalResult StepCompiler::compileNumHeads(NumHeadsOp op) {
  Slot result = resultSlot(op);
  add([=](Frame &frame) { *frame.row(result).ints = frame.numHeads; });
  return success();
}

LogicalResult StepCompiler::compileConstant(arith::ConstantOp op) {
  FailureOr<Tensor> value = constantValue(op, precision);
  if (failed(value))
    return failure();
  kept.insert(op.getResult());
  program.constants.emplace_back(resultSlot(op), std::move(*value));
  return success();
}

LogicalResult StepCompiler::compileBroadcast(vector::BroadcastOp op) {
  auto type = op.getResultVectorType();
  auto sourceType = dyn_cast<VectorType>(op.getSourceType());
  Slot source = slotOf(op.getSource()), result = resultSlot(op);
  // Which element of the source each element of the result is.
  std::vector<size_t> from(result.size);
  for (size_t i = 0; sourceType && i < result.size; ++i) {
    size_t rest = i, stride = 1;
    for (int64_t dim = sourceType.getRank() - 1; dim >= 0; --dim) {
      int64_t size = sourceType.getDimSize(dim);
      size_t extent = type.getDimSize(dim + type.getRank() - sourceType.getRank());
      if (size != 1)
        from[i] += rest % extent * stride;
      rest /= extent;
      stride *= size;
    }
  }
  add([=](Frame &frame) {
    Row in = frame.row(source), out = frame.row(result);
    for (size_t i = 0; i < from.size(); ++i)
      if (source.isInt)
        out.ints[i] = in.ints[from[i]];
      else
        out.floats[i] = in.floats[from[i]];
  });
  return success();
}

LogicalResult StepCompiler::compileElementwise(Operation *op) {
  RowKernel kernel = elementwiseKernel(op, precision);
  if (!kernel)
    return unknownOp(op);
  SmallVector<unsigned> all = llvm::to_vector(llvm::seq<unsigned>(0, op->getNumOperands()));
  SmallVector<Slot> operands =
      llvm::map_to_vector(op->getOperands(), [&](Value v) { return slotOf(v); });
  Slot result = resultSlot(op, all);
  // A select's condition may be one i1 for whole vectors.
  SmallVector<std::pair<Slot, Slot>> spread;
  for (Slot &operand : operands)
    if (operand.size != result.size) {
      Slot wide = operand;
      wide.size = result.size;
      size_t &end = wide.isInt ? program.numInts : program.numFloats;
      wide.offset = end;
      end += wide.size;
      spread.push_back({operand, wide});
      operand = wide;
    }
  add([=](Frame &frame) {
    for (auto [narrow, wide] : spread) {
      Row from = frame.row(narrow), to = frame.row(wide);
      if (wide.isInt)
        std::fill(to.ints, to.ints + wide.size, *from.ints);
      else
        std::fill(to.floats, to.floats + wide.size, *from.floats);
    }
    Row rows[4];
    for (size_t i = 0; i < operands.size(); ++i)
      rows[i] = frame.row(operands[i]);
    kernel(rows, frame.row(result), result.size);
  });
  return success();
}

/// Runs the ops of the branch taken, and of no other.
LogicalResult StepCompiler::compileIf(scf::IfOp op) {
  std::vector<StepProgram::Action> branches[2];
  SmallVector<Slot> yielded[2];
  for (Region *region : {&op.getThenRegion(), &op.getElseRegion()}) {
    bool isThen = region == &op.getThenRegion();
    std::swap(program.actions, branches[isThen]);
    for (Operation &inner : region->front().without_terminator())
      if (failed(compileOp(&inner)))
        return failure();
    std::swap(program.actions, branches[isThen]);
    for (Value value : region->front().getTerminator()->getOperands())
      yielded[isThen].push_back(slotOf(value));
  }
  Slot condition = slotOf(op.getCondition());
  SmallVector<Slot> results;
  for (Value result : op.getResults())
    results.push_back(slots[result] = allocate(result.getType()));
  add([=](Frame &frame) {
    bool taken = *frame.row(condition).ints;
    for (const StepProgram::Action &action : branches[taken])
      action(frame);
    for (auto [from, to] : llvm::zip(yielded[taken], results)) {
      Row in = frame.row(from), out = frame.row(to);
      if (to.isInt)
        std::copy_n(in.ints, to.size, out.ints);
      else
        std::copy_n(in.floats, to.size, out.floats);
    }
  });
  return success();
}

LogicalResult StepCompiler::compileOp(Operation *op) {
  for (Type type : op->getResultTypes())
    if (!isSupportedElement(getElementTypeOrSelf(type)))
      return op->emitError() << "the interpreter does not hold values of type " << type;
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](DecayOp op) { return compileDecay(op); })
      .Case([&](OuterAddOp op) { return compileOuterAdd(op); })
      .Case([&](ReadOp op) { return compileRead(op); })
      .Case([&](CheckpointOp op) { return compileCheckpoint(op); })
      .Case([&](SumOp op) { return compileSum(op); })
      .Case([&](MaxOp op) { return compileMax(op); })
      .Case([&](RotateHalfOp op) { return compileRotateHalf(op); })
      .Case([&](StepIndexOp op) { return compileStepIndex(op); })
      .Case([&](GateGradientOp op) { return compileGateGradient(op); })
      .Case([&](HeadIndexOp op) { return compileHeadIndex(op); })
      .Case([&](NumHeadsOp op) { return compileNumHeads(op); })
      .Case([&](arith::ConstantOp op) { return compileConstant(op); })
      .Case([&](vector::BroadcastOp op) { return compileBroadcast(op); })
      .Case([&](scf::IfOp op) { return compileIf(op); })
      .Default([&](Operation *op) { return compileElementwise(op); });
}

//===----------------------------------------------------------------------===//
// The whole step
//===----------------------------------------------------------------------===//

FailureOr<StepProgram> StepCompiler::compile() {
  Block &step = scan.getStep();
  step.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      lastUse[operand] = op; // the last assignment remains
  });
  auto place = [&](ValueRange arguments, std::vector<Slot> &list) {
    for (Value argument : arguments)
      list.push_back(slots[argument] = allocate(argument.getType()));
  };
  place(scan.getSequenceArgs(), program.sequenceSlots);
  place(scan.getQueryArgs(), program.querySlots);
  place(scan.getParameterArgs(), program.parameterSlots);
  place(scan.getSavedArgs(), program.savedSlots);
  place(scan.getStateArgs(), program.stateSlots);
  kept.insert_range(scan.getParameterArgs());
  kept.insert_range(scan.getSavedArgs());
  if (!scan.getQueries().empty()) {
    // A step is computed once for each query, from the same rows and states.
    kept.insert_range(scan.getSequenceArgs());
    kept.insert_range(scan.getStateArgs());
  }

  for (Operation &op : step.without_terminator())
    if (failed(compileOp(&op)))
      return failure();
  for (Value state : scan.getYield().getStates()) {
    program.yieldedSlots.push_back(slotOf(state));
    program.waitingSlots.push_back(allocate(state.getType()));
  }
  for (Value output : scan.getYield().getOutputs())
    program.outputSlots.push_back(slotOf(output));
  for (Value save : scan.getYield().getSaves())
    program.saveSlots.push_back(slotOf(save));
  return std::move(program);
}

FailureOr<StepProgram> StepProgram::compile(ScanOp scan, Precision precision) {
  return StepCompiler(scan, precision).compile();
}

Frame StepProgram::makeFrame() const {
  Frame frame;
  frame.floats.resize(numFloats);
  frame.ints.resize(numInts);
  for (const auto &[slot, value] : constants) {
    llvm::copy(value.floats, frame.floats.begin() + slot.offset * value.isFloat());
    llvm::copy(value.ints, frame.ints.begin() + slot.offset * !value.isFloat());
  }
  return frame;
}

void StepProgram::advanceStates(Frame &frame) const {
  // In two phases, because a state may be yielded as the next value of another one.
  for (size_t i = 0; i < stateSlots.size(); ++i)
    if (!(yieldedSlots[i] == stateSlots[i]))
      std::copy_n(frame.at(yieldedSlots[i]), stateSlots[i].size, frame.at(waitingSlots[i]));
  for (size_t i = 0; i < stateSlots.size(); ++i)
    if (!(yieldedSlots[i] == stateSlots[i]))
      std::copy_n(frame.at(waitingSlots[i]), stateSlots[i].size, frame.at(stateSlots[i]));
}
