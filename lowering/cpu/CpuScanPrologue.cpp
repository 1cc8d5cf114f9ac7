//===- CpuScanPrologue.cpp - what a chunk's steps compute without states --===//
//
// For each step of the chunk: first the sums over its vectors, then its numbers, then its
// vectors along the rows, some channels at a time, into the buffers that the column blocks
// read. States that no read changes are carried here.
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/CpuScanEmitter.h"
#include "passes/scan/ScanProperties.h"
#include <limits>

using namespace mlir;
using namespace ejk;

/// The last time there may be fewer channels than `rowWidth`.
SmallVector<Value> CpuScanEmitter::overRows(
    ValueRange carried,
    llvm::function_ref<SmallVector<Value>(const Channels &, ValueRange)> body) {
  int64_t whole = steps.rows / plan.rowWidth * plan.rowWidth;
  SmallVector<Value> sums(carried);
  if (whole)
    sums = b.loop(b.i64(0), b.i64(whole), plan.rowWidth, sums,
                  [&](Value position, ValueRange inner) {
                    return body({Layout::row, position, plan.rowWidth, {}}, inner);
                  });
  if (int64_t rest = steps.rows - whole) {
    Value mask = b.firstLanes(plan.rowWidth, b.i64(rest));
    sums = body({Layout::row, b.i64(whole), plan.rowWidth, mask}, sums);
  }
  return sums;
}

void CpuScanEmitter::emitPrologue(Value firstStep, Value count, Value isLeader) {
  SmallVector<unsigned> vectorStates, numberStates;
  for (auto [i, arg] : llvm::enumerate(scan.getStateArgs()))
    if (!plan.late.contains(arg))
      (hasChannels(arg) ? vectorStates : numberStates).push_back(i);
  SmallVector<unsigned> vectorOutputs, numberOutputs;
  for (auto [i, value] : llvm::enumerate(scan.getYield().getOutputs())) {
    if (plan.late.contains(value))
      continue;
    if (!hasChannels(value))
      numberOutputs.push_back(i);
    else if (outputLayout(value) == Layout::row)
      vectorOutputs.push_back(i);
  }
  bool hasVectors = !vectorStates.empty() || !vectorOutputs.empty() ||
                    llvm::any_of(staged, [](const Staged &s) { return s.layout == Layout::row; });
  SmallVector<Operation *> reductions;
  for (Operation &op : scan.getStep())
    if (isReduction(&op) && !isOnlyChannel(&op))
      reductions.push_back(&op);
  if (!hasVectors && staged.empty() && numberStates.empty() && numberOutputs.empty())
    return;

  ValueRange nextStates = scan.getYield().getStates();
  b.loop(b.i64(0), count, 1, {}, [&](Value step, ValueRange) {
    inChunk = step;
    currentRow = rowOfStep(b.add(firstStep, step));
    Scope numbers;
    for (unsigned i : numberStates)
      numbers.known[scan.getStateArgs()[i]] = b.loadLanes(b.getF32Type(), tiles[i]);
    if (!reductions.empty()) {
      SmallVector<Value> neutral;
      for (Operation *op : reductions)
        neutral.push_back(b.number(
            isa<MaxOp>(op) ? -std::numeric_limits<double>::infinity() : 0, plan.rowWidth));
      SmallVector<Value> sums =
          overRows(neutral, [&](const Channels &at, ValueRange partial) {
            Scope scope(&numbers);
            SmallVector<Value> next;
            for (auto [op, sum, start] : llvm::zip(reductions, partial, neutral)) {
              Value term = b.splat(evaluateWide(op->getOperand(0), at, scope), plan.rowWidth);
              if (at.mask)
                term = b.make<arith::SelectOp>(at.mask, term, start);
              next.push_back(isa<MaxOp>(op) ? b.make<arith::MaximumFOp>(sum, term).getResult()
                                            : b.addF(sum, term));
            }
            return next;
          });
      for (auto [op, sum] : llvm::zip(reductions, sums))
        numbers.known[op->getResult(0)] = b.sumLanes(sum, isa<MaxOp>(op));
    }

    for (const Staged &s : staged)
      if (s.layout == Layout::scalar) {
        Value number = s.exponential ? exponential(s.value, {}, numbers)
                                     : evaluateWide(s.value, {}, numbers);
        b.storeLanes(number, floatAt(s.buffer, step));
      }
    for (unsigned i : numberOutputs)
      storeOutput(i, evaluate(scan.getYield().getOutputs()[i], {}, numbers), {}, isLeader);
    SmallVector<Value> nextNumbers;
    for (unsigned i : numberStates)
      nextNumbers.push_back(evaluate(nextStates[i], {}, numbers));

    if (hasVectors)
      overRows({}, [&](const Channels &at, ValueRange) {
        Scope scope(&numbers);
        for (unsigned i : vectorStates)
          scope.known[scan.getStateArgs()[i]] = b.loadLanes(
              CpuBuilder::withCount(b.getF32Type(), at.width), floatAt(tiles[i], at.position));
        Value place = b.add(b.mul(step, plan.paddedRows()), at.position);
        for (const Staged &s : staged)
          if (s.layout == Layout::row) {
            Value row = s.exponential ? exponential(s.value, at, scope)
                                      : evaluateWide(s.value, at, scope);
            b.storeLanes(row, floatAt(s.buffer, place));
          }
        for (unsigned i : vectorOutputs)
          storeOutput(i, evaluate(scan.getYield().getOutputs()[i], at, scope), at, isLeader);
        SmallVector<Value> next;
        for (unsigned i : vectorStates)
          next.push_back(evaluate(nextStates[i], at, scope));
        for (auto [i, value] : llvm::zip(vectorStates, next))
          b.storeLanes(value, floatAt(tiles[i], at.position));
        return SmallVector<Value>();
      });
    for (auto [i, value] : llvm::zip(numberStates, nextNumbers))
      b.storeLanes(value, tiles[i]);
    return SmallVector<Value>();
  });
}

/// Where a vector that the steps give lies.
Layout CpuScanEmitter::outputLayout(Value value) const {
  if (!hasChannels(value))
    return Layout::scalar;
  if (auto found = steps.layouts.find(value); found != steps.layouts.end())
    return found->second;
  return cast<VectorType>(value.getType()).getDimSize(0) == steps.columns ? Layout::column
                                                                           : Layout::row;
}

/// Numbers and vectors along the rows are the same in all column blocks; the first writes them.
void CpuScanEmitter::storeOutput(unsigned i, Value value, const Channels &at, Value isLeader) {
  const Row &output = outputs[i];
  b.onlyIf(at.layout == Layout::column ? Value() : isLeader, [&] {
    Value offset = b.mul(currentRow, output.stride);
    bool isNumber = !isa<VectorType>(value.getType());
    if (!isNumber || at.layout != Layout::scalar)
      offset = at.position ? b.add(offset, at.position) : offset;
    b.storeLanes(value, b.at(output.base, output.element, offset), isNumber ? Value() : at.mask);
  });
}
