//===- ChunkPlanChecks.cpp - what chunks support ---------------------------===//
//
// Checks that a scan can be chunked: its ops have a form on tiles, no state depends on
// its own reads, operands may be rounded, and the states fit a thread block or can be cut
// into slices. Each refusal is a remark with a remedy.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Names.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/chunk/ChunkPlan.h"
#include "passes/scan/NarrowOperands.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Whether `value` is the step's index in an integer type that any length fits.
static bool isStepIndex(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<StepIndexOp>(op))
      return true;
    Type type = value.getType();
    bool isWide = type.isIndex() || (type.isInteger() && type.getIntOrFloatBitWidth() >= 32);
    if (!isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp>(op) ||
        !isWide)
      return false;
    value = op->getOperand(0);
  }
  return false;
}

bool ChunkPlan::isPosition(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp>(op) && value.getType().isF32() &&
         isStepIndex(op->getOperand(0));
}

Operation *ChunkPlan::sumOfGiven(ReadOp read) {
  auto given = scan->getAttrOfType<IntegerAttr>(kGivenReadsAttr);
  if (!given)
    return nullptr;
  YieldOp yield = scan.getYield();
  int64_t numStates = yield.getStates().size(), end = numStates + yield.getOutputs().size();
  int64_t first = end - std::clamp<int64_t>(given.getInt(), 0, end - numStates);
  auto isGiven = [&](OpOperand &use) {
    int64_t number = use.getOperandNumber();
    return use.getOwner() == yield && number >= first && number < end;
  };
  Operation *sum = nullptr;
  for (OpOperand &use : read->getUses()) {
    if (isGiven(use))
      continue;
    if (sum || !isa<arith::AddFOp, arith::SubFOp>(use.getOwner()))
      return nullptr;
    sum = use.getOwner();
  }
  return sum && (llvm::any_of(read->getUses(), isGiven) || llvm::any_of(sum->getUses(), isGiven))
             ? sum
             : nullptr;
}

void ChunkPlan::solveForGivenSum(StateChain &chain, StateChain::Correction &correction, Value shift,
                                 ReadOp op) {
  Operation *sum = sumOfGiven(op);
  if (!sum)
    return;
  correction.shift = shift;
  // A sum that is all that the step adds is a tile already; and the shift may be of a longer one.
  auto negated = shift.getDefiningOp<arith::NegFOp>();
  Value other = sum->getOperand(sum->getOperand(0) == op.getResult());
  if (!op->hasOneUse() || sum->getResult(0) == correction.vector ||
      (negated ? negated.getOperand() : shift) != other)
    return;
  auto read = llvm::find_if(chain.reads, [&](auto &read) { return read.op == op; });
  read->whole = sum;
  read->shiftedBy = chain.corrections.size();
  read->isNegated = isa<arith::SubFOp>(sum) && sum->getOperand(1) == op.getResult();
}

LogicalResult ChunkPlan::checkElementwise() {
  for (Value arg : scan.getParameterArgs())
    if (isMatrix(arg))
      return decline(scan, "a parameter is a matrix; a step on tiles takes numbers and vectors");
  for (Operation &op : scan.getStep().without_terminator()) {
    if (op.getNumResults() != 1)
      return decline(&op, "'" + op.getName().getStringRef() + "' has no form on a chunk's tiles");
    if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
      if (isa<VectorType>(broadcast.getSourceType()) ||
          broadcast.getResultVectorType().getRank() != 1)
        return decline(&op, "only a number can be spread over channels");
    if (isPosition(op.getResult(0)))
      continue;
    if (isStepIndex(op.getResult(0))) {
      for (Operation *user : op.getUsers())
        if (user->getNumResults() != 1 ||
            (!isStepIndex(user->getResult(0)) && !isPosition(user->getResult(0))))
          return decline(user, "on a chunk's tiles the step's index is an f32 number only, made "
                               "by 'arith.index_cast' and 'arith.sitofp'");
      continue;
    }
    if (isa<DecayOp, OuterAddOp, ReadOp, CheckpointOp, SumOp, CancellingPairOp, GateGradientOp,
            HeadIndexOp, NumHeadsOp>(op) ||
        isConstant(op.getResult(0)))
      continue;
    if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
      if (!broadcast.getSourceType().isF32())
        return decline(&op, "of what changes over time only f32 numbers can be spread over "
                            "channels; widen it first");
      continue;
    }
    StringRef dialect = op.getName().getDialectNamespace();
    if ((dialect != "arith" && dialect != "math") || op.getNumResults() != 1)
      return decline(&op, "'" + op.getName().getStringRef() + "' has no form on a chunk's tiles");
    auto type = dyn_cast<VectorType>(op.getResult(0).getType());
    for (Value operand : op.getOperands()) {
      if (type && isa<VectorType>(operand.getType()) && isConstant(operand) &&
          !getElementTypeOrSelf(operand.getType()).isF32() &&
          !isa_and_nonnull<vector::BroadcastOp, arith::ConstantOp>(operand.getDefiningOp()))
        return decline(&op, "a vector that is constant in time meets one that is not in another "
                            "type than f32; widen it first");
    }
  }
  for (Value value : scan.getYield().getOutputs()) {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
    if (isa<VectorType>(value.getType()) && isConstant(value) &&
        (!element || element.getWidth() > 32))
      return decline(scan, "an output that is constant in time has another type than f32, bf16 or "
                           "f16");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

LogicalResult ChunkPlan::visitValue(Value value, unsigned from) {
  if (isa<IndexType>(value.getType()) || !seen.insert({value, from}).second)
    return success();
  if (auto it = sums.find(value); it != sums.end())
    return visit(chains.size() + it->second.first);
  Operation *op = value.getDefiningOp();
  if (!op)
    return success();
  if (auto read = dyn_cast<ReadOp>(op)) {
    if (succeeded(visit(chainOfRead.lookup(read))))
      return success();
    return failure();
  }
  for (Value operand : op->getOperands())
    if (failed(visitValue(operand, from)))
      return failure();
  return success();
}

LogicalResult ChunkPlan::visit(unsigned node) {
  if (marks[node] == Mark::done)
    return success();
  if (marks[node] == Mark::under) {
    bool throughOthers = llvm::any_of(ArrayRef(llvm::find(path, node) + 1, path.end()),
                                      [&](unsigned other) { return other < chains.size(); });
    if (node < chains.size() && throughOthers)
      return decline(chains[node].reads.front().op,
                     "what is read of the state decides over another state's gates or vectors, "
                     "and what is read of that one over this one's; those of one of them must "
                     "come from sequences and parameters");
    if (node < chains.size())
      return decline(chains[node].reads.front().op,
                     "what is read of the state decides over the state's own gates or vectors, "
                     "now or in a later step; those must come from sequences and parameters");
    return decline(accumulators[node - chains.size()].sums.back().getDefiningOp(),
                   "what the state adds up depends on the state itself");
  }
  marks[node] = Mark::under;
  path.push_back(node);
  if (node < chains.size()) {
    for (auto [value, dim] : inputs(chains[node]))
      if (failed(visitValue(value, node)))
        return failure();
  } else {
    Accumulator &accumulator = accumulators[node - chains.size()];
    // The value that it restarts from is computed with its chain's matmuls.
    if (accumulator.checkpoint)
      if (failed(visit(chainFrom(accumulator.checkpoint.getState()) - chains.data())))
        return failure();
    for (Accumulator::Term &term : accumulator.terms)
      if (failed(visitValue(term.value, node)))
        return failure();
  }
  marks[node] = Mark::done;
  path.pop_back();
  return success();
}

LogicalResult ChunkPlan::checkOrder() {
  marks.assign(chains.size() + accumulators.size(), Mark::none);
  path.clear();
  for (unsigned node = 0; node < marks.size(); ++node)
    if (failed(visit(node)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// The user's name for the tensor `rows`.
static std::string nameOf(Value rows) {
  auto arg = dyn_cast<BlockArgument>(rows);
  auto function = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
  // Another block's argument is none of the function's.
  return function && arg.getOwner() == &function.front()
             ? "'" + argumentName(function, arg.getArgNumber()) + "'"
             : "a tensor of rows";
}

LogicalResult ChunkPlan::checkTypes() {
  MLIRContext *context = scan.getContext();
  OperandSources sources = findOperandSources(scan, options.roundComputed);
  operandType = BFloat16Type::get(context);
  if (sources.mayBeRounded() && !options.f32Matmuls)
    return success();
  operandType = Float32Type::get(context);
  if (options.f32Matmuls)
    return success();
  if (options.force)
    return success();
  if (!sources.wide)
    return decline(scan, "its keys, values and read vectors come from no bf16 or f16 rows, and "
                         "matmuls on tensor cores would round them to 16 bits; give rows in bf16 "
                         "or f16, or allow f32 matmuls ('f32-matmuls=bf16x6')");
  if (sources.wide.getDefiningOp() && !options.roundComputed)
    return decline(scan, "its keys, values or read vectors are computed in f32, and matmuls on "
                         "tensor cores would round them to 16 bits, which "
                         "'round-computed-operands=false' forbids; allow it, or round them to "
                         "bf16 or f16, or allow f32 matmuls ('f32-matmuls=bf16x6')");
  return decline(scan, "its keys, values or read vectors come from " + nameOf(sources.wide) +
                           ", which is f32, and matmuls on tensor cores would round them to 16 "
                           "bits; give " + nameOf(sources.wide) +
                           " in bf16 or f16, or allow f32 matmuls ('f32-matmuls=bf16x6')");
}

//===----------------------------------------------------------------------===//
// Drift
//===----------------------------------------------------------------------===//

/// Whether `value` depends, within its step, on a value for which `isSource` holds.
static bool dependsOn(Value value, llvm::function_ref<bool(Value)> isSource) {
  SmallVector<Value> worklist = {value};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (isSource(next))
      return true;
    if (Operation *op = next.getDefiningOp())
      llvm::append_range(worklist, op->getOperands());
  }
  return false;
}

/// A later scan that sums `tensor` over its sequence; null if there is none.
static ScanOp findSumOf(Value tensor) {
  SmallVector<Value> worklist = {tensor};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      if (auto generic = dyn_cast<linalg::GenericOp>(use.getOwner()))
        if (generic.getMatchingBlockArgument(&use).use_empty())
          continue;
      auto user = dyn_cast<ScanOp>(use.getOwner());
      if (!user) {
        llvm::append_range(worklist, use.getOwner()->getResults());
        continue;
      }
      if (use.getOperandNumber() >= user.getSequences().size())
        continue;
      Value arg = user.getSequenceArgs()[use.getOperandNumber()];
      if (!user.getStep().getOps<CheckpointOp>().empty())
        continue;
      for (Value next : user.getYield().getStates())
        if (!isMatrix(next) && dependsOn(next, [&](Value v) { return v == arg; }))
          return user;
    }
  }
  return {};
}

/// A read has the error of 16-bit matmuls. A sum over a whole sequence accumulates that error, and
/// the terms of a gate's gradient nearly cancel, so the gradient would be lost in it.
LogicalResult ChunkPlan::checkDrift() {
  if (options.drift || operandType.isF32())
    return success();
  const char *remedy = " over the sequence, and with it the rounding of 16-bit products; with "
                       "--gate-gradients=checkpoint a gradient's sums start anew in every chunk "
                       "(ejk-opt's --ejk-chunk=drift takes them as they are)";
  auto isRead = [](Value value) { return bool(value.getDefiningOp<ReadOp>()); };
  // A sum that restarts in every chunk accumulates only a chunk's error.
  auto isRestarted = [](Value value) { return bool(value.getDefiningOp<CheckpointOp>()); };
  for (Accumulator &accumulator : accumulators)
    for (Accumulator::Term &term : accumulator.terms)
      if (!accumulator.checkpoint && dependsOn(term.value, isRead) &&
          !dependsOn(term.value, isRestarted))
        return decline(accumulator.sums.back().getDefiningOp(),
                       Twine("a state adds up what is read") + remedy);
  // A 16-bit output is rounded as much anyway.
  for (auto [output, value] : llvm::zip(scan.getOutputs(), scan.getYield().getOutputs()))
    if (getElementTypeOrSelf(output.getType()).isF32() && dependsOn(value, isRead) &&
        !dependsOn(value, isRestarted) && findSumOf(output))
      return decline(scan, Twine("a later scan adds up what is read here") + remedy);
  return success();
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

LogicalResult ChunkPlan::chooseSlices() {
  auto elements = [&] {
    int64_t sum = 0;
    for (StateChain &chain : chains)
      sum += width(chain.size(0), chain.freeDim == 0) * width(chain.size(1), chain.freeDim == 1);
    return sum;
  };
  for (slices = 1; slices <= 32; ++slices)
    if (elements() <= options.stateElements)
      return success();
  slices = 1;
  return decline(scan, "its states are too large for one thread block, " + Twine(elements()) +
                           " elements of at most " + Twine(options.stateElements) +
                           ", and reads along both axes keep them whole (ejk-opt's "
                           "--ejk-split-reads parts them)");
}

LogicalResult ChunkPlan::checkForm(Value value, bool sliced) {
  if (!checkedForms.insert({value, sliced}).second)
    return success();
  if (auto [accumulator, k] = sumOf(value); accumulator) {
    if (isa<VectorType>(value.getType()) && accumulator->isSliced != sliced)
      return decline(scan, "a state that adds up is needed in full where slices of the K×V states "
                           "give a part of it");
    return success();
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return success();
  if (auto read = dyn_cast<ReadOp>(op)) {
    if (sliced != (chainOf(read)->freeDim >= 0))
      return decline(op, "what is read is needed in full, where a K×V state this large is cut into "
                         "slices that each read a part");
    return success();
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    if (sliced && isa<VectorType>(value.getType()) && !isa<SplatElementsAttr>(constant.getValue()))
      return decline(op, "a constant that differs between channels cannot be cut into slices; make "
                         "it a parameter");
  for (Value operand : op->getOperands())
    if (failed(checkForm(operand, sliced && !isa<SumOp>(op))))
      return failure();
  return success();
}

LogicalResult ChunkPlan::checkForms() {
  if (slices == 1)
    return success();
  // An accumulator is sliced if one of its terms is.
  for (bool changed = true; changed;) {
    changed = false;
    for (Accumulator &accumulator : accumulators)
      if (!accumulator.isSliced && isa<VectorType>(accumulator.arg.getType()) &&
          (llvm::any_of(accumulator.terms, [&](auto &term) { return isSliced(term.value); }) ||
           (accumulator.checkpoint && chainFrom(accumulator.checkpoint.getState())->freeDim >= 0)))
        changed = accumulator.isSliced = true;
  }
  for (StateChain &chain : chains)
    for (auto [value, dim] : inputs(chain))
      if (failed(checkForm(value, dim >= 0 && dim == chain.freeDim)))
        return failure();
  for (Accumulator &accumulator : accumulators)
    for (Accumulator::Term &term : accumulator.terms)
      if (failed(checkForm(term.value, accumulator.isSliced)))
        return failure();
  for (Value output : scan.getYield().getOutputs())
    if (failed(checkForm(output, isSliced(output))))
      return failure();
  return success();
}
