//===- DeriveScan.cpp - the derivative of a scan, as scans ----------------===//
//
// A step has three parts: values that it computes without the state (gates, keys, values,
// query vectors); the *core*, which decays, updates and reads the K×V states; and values that
// it computes from the reads. The derivative of a scan is two scans:
//
//   forward:  recomputes the states; computes the cotangents r̄ of the reads from those of
//             the outputs, and then q̄ = read(S, r̄, other axis)
//   backward: the adjoints A of the states, in the other direction. In reverse order of the
//             step's ops:
//               read       A += q r̄ᵀ
//               outer_add  k̄ = A v,  v̄ = Aᵀ k
//               decay      A ← D ⊙ A
//
// CoreAdjoint.h has the core's part and the gradients of gates.
//
// The backward pass carries the adjoint of a scalar or vector state. If reads feed such a
// state or the core, r̄ is known only in the backward pass. Two more scans then come first:
// one saves the reads, and one computes r̄ (and, for reads that feed the core, the states'
// adjoints: see ReadCotangents.h). In the two scans above the reads are then sequences, so
// that nothing in their steps depends on a read.
//
//===----------------------------------------------------------------------===//
#include "passes/autodiff/DeriveScan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/autodiff/AdjointRules.h"
#include "passes/autodiff/CoreAdjoint.h"
#include "passes/autodiff/ReadCotangents.h"
#include "passes/autodiff/StepAnalysis.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/TensorSums.h"

using namespace mlir;
using namespace ejk;

/// Whether a gate depends on a parameter whose gradient is requested.
static bool hasGateOfParameter(ScanOp scan, const ScanRequest &request) {
  SmallVector<Value> worklist;
  scan.getBody().walk([&](DecayOp op) { worklist.push_back(op.getGate()); });
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (Operation *def = value.getDefiningOp()) {
      llvm::append_range(worklist, def->getOperands());
      continue;
    }
    ValueRange parameters = scan.getParameterArgs();
    auto it = llvm::find(parameters, value);
    if (it != parameters.end() && request.parameters[it - parameters.begin()])
      return true;
  }
  return false;
}

/// The rows between checkpoints; 0 without checkpoints.
static int64_t chunkRows(ScanOp scan, const ScanRequest &request) {
  const SavePolicy &policy = request.policy;
  if (policy.gateGradients != GateGradients::checkpoint)
    return 0;
  if (policy.checkpointEvery)
    return policy.checkpointEvery;
  auto isNarrow = [](Value v) {
    return getElementTypeOrSelf(v.getType()).getIntOrFloatBitWidth() < 32;
  };
  if (llvm::any_of(scan.getSequences(), isNarrow))
    return 64;
  return hasGateOfParameter(scan, request) ? 16 : 32;
}

namespace {
class ScanAdjoint {
public:
  ScanAdjoint(OpBuilder &outer, ScanOp scan, const ScanRequest &request)
      : outer(outer), scan(scan), request(request), step(scan, request),
        checkpointEvery(chunkRows(scan, request)),
        sizes(request.policy.gateGradients == GateGradients::terms) {}

  FailureOr<ScanGradients> run() {
    gradients.sequences.resize(scan.getSequences().size());
    gradients.parameters.resize(scan.getParameters().size());
    gradients.initialStates.resize(scan.getNumStates());
    if (step.isZero())
      return gradients;
    if (failed(step.check()))
      return failure();
    if (findsReadsFirst()) {
      handed = findHanded();
      if (failed(savePrimal()))
        return failure();
      // The later passes cannot see what the vectors are made of.
      for (auto add : body().getOps<OuterAddOp>())
        if (step.dependsOnReads(add.getKey()) || step.dependsOnReads(add.getValue()))
          add.setCorrects(true);
      if (failed(computeReadCotangents()))
        return failure();
    }
    if (failed(walkForward()) || failed(walkBack()))
      return failure();
    return gradients;
  }

private:
  using Handler = llvm::function_ref<LogicalResult(Operation *)>;
  Location loc() { return scan.getLoc(); }
  bool findsReadsFirst() const { return step.carriesReads() || step.feedsReads(); }
  /// The one vector that depends on reads, if the cotangents of reads follow from its cotangent and
  /// those of outputs, and no gate's gradient needs that read of the adjoint.
  std::optional<HandedCotangent> findHanded() {
    if (sizes || step.carriesReads())
      return std::nullopt;
    std::optional<HandedCotangent> found;
    for (Operation &op : body().without_terminator()) {
      if (auto read = dyn_cast<ReadOp>(op); read && step.dependsOnReads(read.getVector()))
        return std::nullopt;
      if (auto decay = dyn_cast<DecayOp>(op); decay && step.dependsOnReads(decay.getGate()))
        return std::nullopt;
      auto add = dyn_cast<OuterAddOp>(op);
      for (Axis axis : {Axis::key, Axis::value}) {
        HandedCotangent here{add, axis, {}};
        if (!add || !step.dependsOnReads(here.vector()))
          continue;
        if (found || step.needsPairing(axis))
          return std::nullopt;
        found = here;
      }
    }
    return found;
  }
  Block &body() { return scan.getStep(); }
  YieldOp yield() { return scan.getYield(); }

  /// Clones the step's operands and the values computed from them without a matrix. States and
  /// reads come from `saved`.
  void cloneVectors(ScanBuilder &sb, IRMapping &primal) {
    mapOperands(sb, primal);
    for (auto [arg, tensor] : savedStates)
      primal.map(arg, sb.addSequence(tensor));
    for (auto [result, tensor] : savedReads)
      primal.map(result, sb.addSequence(tensor));
    for (Operation &op : body().without_terminator())
      if (!step.isCore(&op) && hasOperands(op, primal))
        sb.b.clone(op, primal);
  }
  /// Whether `primal` has what `op` and its regions use of the step. A sum of K×V states is not the
  /// core's, but it is not computed from vectors, either.
  bool hasOperands(Operation &op, const IRMapping &primal) {
    return !op.walk([&](Operation *inner) {
                for (Value operand : inner->getOperands())
                  if (operand.getParentBlock() == &body() && !primal.contains(operand))
                    return WalkResult::interrupt();
                return WalkResult::advance();
              }).wasInterrupted();
  }
  void mapOperands(ScanBuilder &sb, IRMapping &primal) {
    for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
      primal.map(arg, sb.addSequence(tensor));
    for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
      primal.map(arg, sb.addParameter(tensor, arg.getType()));
  }
  /// Clones the whole step with its states. Reads that feed states come from `saved`.
  void cloneStep(ScanBuilder &sb, IRMapping &primal) {
    mapOperands(sb, primal);
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
      auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
      primal.map(arg, sb.addState(type, scan.getInitialState(i)));
    }
    if (step.feedsReads())
      for (auto [result, tensor] : savedReads)
        primal.map(result, sb.addSequence(tensor));
    for (Operation &op : body().without_terminator())
      if (!isa<ReadOp>(op) || !primal.contains(op.getResult(0)))
        sb.b.clone(op, primal);
    for (auto [arg, next] : llvm::zip(scan.getStateArgs(), yield().getStates()))
      sb.setNext(primal.lookup(arg), primal.lookup(next));
  }

  /// Values of a forward pass that a backward pass needs, as outputs of `sb`.
  struct Saved {
    Value value;
    unsigned output;
  };
  SmallVector<Saved> save(ScanBuilder &sb, IRMapping &primal) {
    SmallVector<Saved> saved;
    for (Value arg : scan.getStateArgs())
      if (!isMatrix(arg))
        saved.push_back({arg, sb.addOutput(primal.lookup(arg))});
    for (ReadOp read : step.reads())
      saved.push_back({read.getResult(), sb.addOutput(primal.lookup(read.getResult()))});
    return saved;
  }
  void keep(ScanBuilder &sb, ArrayRef<Saved> saved) {
    for (const Saved &s : saved)
      (isa<BlockArgument>(s.value) ? savedStates : savedReads)
          .push_back({s.value, sb.output(s.output)});
  }

  /// Sets the cotangents of the yielded values from those of the outputs.
  void seedOutputs(ScanBuilder &sb, Cotangents &adjoint) {
    for (auto [value, cotangent] : llvm::zip(yield().getOutputs(), request.outputCotangents))
      if (cotangent && step.isActive(value))
        adjoint.add(sb.b, loc(), value, widenToF32(sb.b, loc(), sb.addSequence(cotangent)));
  }

  /// Propagates cotangents backward through the step; `core` handles the core's ops. `absolute`:
  /// propagates absolute values.
  LogicalResult reverse(ScanBuilder &sb, IRMapping &primal, Cotangents &adjoint, Handler core,
                        bool absolute = false) {
    SmallVector<Operation *> ops;
    for (Operation &op : body().without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops)) {
      if (step.isCore(op)) {
        if (failed(core(op)))
          return failure();
        continue;
      }
      Value result = op->getResult(0), g = adjoint.lookup(result);
      if (!g || !step.isActive(result) || isPiecewiseConstant(op))
        continue;
      if (failed(applyAdjointRule(
              op, sb.b, g, [&](Value v) { return primal.lookup(v); },
              [&](Value v) { return step.isActive(v); },
              [&](Value v, Value c) {
                if (absolute)
                  c = math::AbsFOp::create(sb.b, op->getLoc(), c);
                adjoint.add(sb.b, op->getLoc(), v, c);
              })))
        return failure();
    }
    return success();
  }

  LogicalResult savePrimal() {
    ScanBuilder sb(outer, scan);
    IRMapping primal;
    cloneStep(sb, primal);
    SmallVector<Saved> saved = save(sb, primal);
    rowStates.save(sb, primal, scan, step);
    sb.finish();
    rowStates.finish(sb);
    keep(sb, saved);
    return success();
  }

  /// Adds states for the adjoints of scalar and vector states.
  void carryVectors(ScanBuilder &sb, Cotangents &adjoint,
                    SmallVectorImpl<std::pair<Value, Value>> &carried) {
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
      if (isMatrix(arg) || !step.isActive(arg))
        continue;
      auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
      Value state = sb.addState(type, request.stateCotangents[i]);
      carried.push_back({arg, state});
      adjoint.add(sb.b, loc(), yield().getStates()[i], state);
    }
  }
  void closeVectors(ScanBuilder &sb, Cotangents &adjoint,
                    ArrayRef<std::pair<Value, Value>> carried) {
    for (auto [arg, state] : carried) {
      Value next = adjoint.lookup(arg);
      sb.setNext(state, next ? next : splatLike(sb.b, loc(), state, 0));
    }
  }

  /// Computes the reads' cotangents if they depend on later steps.
  LogicalResult computeReadCotangents() {
    ScanBuilder sb(outer, scan, /*turned=*/true);
    IRMapping primal;
    Cotangents adjoint;
    SmallVector<std::pair<Value, Value>> carried;
    cloneVectors(sb, primal);
    seedOutputs(sb, adjoint);
    carryVectors(sb, adjoint, carried);
    SmallVector<Saved> found;
    unsigned handedOutput = 0;
    std::optional<ReadBackward> states;
    if (step.feedsReads())
      states.emplace(sb, primal, adjoint, scan, step, rowStates).start(request.stateCotangents);
    LogicalResult walked = reverse(sb, primal, adjoint, [&](Operation *op) {
      if (states)
        states->pass(op);
      if (handed && op == handed->add)
        handedOutput = sb.addOutput(states->givenTo(handed->vector()));
      if (auto read = handed ? ReadOp() : dyn_cast<ReadOp>(op))
        if (Value cotangent = adjoint.lookup(read.getResult())) {
          // The cotangent of an output is a tensor already, perhaps of 16 bits.
          auto widened = cotangent.getDefiningOp<arith::ExtFOp>();
          if (Value tensor = sb.sequenceOf(widened ? widened.getIn() : cotangent))
            readCotangents[read.getResult()] = tensor;
          else
            found.push_back({read.getResult(), sb.addOutput(cotangent)});
        }
      return success();
    });
    if (failed(walked))
      return failure();
    closeVectors(sb, adjoint, carried);
    if (states)
      states->end();
    sb.finish();
    for (const Saved &s : found)
      readCotangents[s.value] = sb.output(s.output);
    if (handed)
      handed->tensor = sb.output(handedOutput);
    return success();
  }

  LogicalResult walkForward() {
    ScanBuilder sb(outer, scan);
    IRMapping primal;
    Cotangents adjoint;
    cloneStep(sb, primal);
    SmallVector<Saved> saved;
    CoreForward states(sb, primal, scan, step, checkpointEvery, sizes);
    bool local = !findsReadsFirst();
    if (local)
      saved = save(sb, primal);
    if (local || handed)
      seedOutputs(sb, adjoint);
    if (handed)
      adjoint.add(sb.b, loc(), handed->vector(),
                  widenToF32(sb.b, loc(), sb.addSequence(handed->tensor)));
    auto core = [&](Operation *op) {
      auto read = dyn_cast<ReadOp>(op);
      if (!read)
        return success();
      Value cotangent = adjoint.lookup(read.getResult());
      if (!local)
        if (Value tensor = readCotangents.lookup(read.getResult()))
          cotangent = widenToF32(sb.b, loc(), sb.addSequence(tensor));
      if (!cotangent)
        return success();
      Value q = states.read(read, cotangent);
      if (step.isActive(read.getVector()))
        adjoint.add(sb.b, op->getLoc(), read.getVector(), q);
      return success();
    };
    if (failed(reverse(sb, primal, adjoint, core)))
      return failure();
    Gathered gathered = sizes ? Gathered() : gather(sb, adjoint, /*forward=*/true);
    states.saveCheckpoints();
    sb.finish();
    keep(sb, saved);
    record = states.finish();
    record.handed = handed;
    finish(sb, gathered);
    return success();
  }

  LogicalResult walkBack() {
    ScanBuilder sb(outer, scan, /*turned=*/true);
    IRMapping primal;
    Cotangents adjoint;
    SmallVector<std::pair<Value, Value>> vectors;
    cloneVectors(sb, primal);
    seedOutputs(sb, adjoint);
    carryVectors(sb, adjoint, vectors);
    Cotangents gateSizes;
    CoreBackward states(outer, sb, primal, adjoint, scan, step, record, checkpointEvery,
                        sizes ? &gateSizes : nullptr);
    states.start(request.stateCotangents);
    if (failed(reverse(sb, primal, adjoint, [&](Operation *op) {
          if (step.feedsReads() && isa<ReadOp>(op))
            if (Value tensor = readCotangents.lookup(op->getResult(0)))
              adjoint.set(op->getResult(0), widenToF32(sb.b, loc(), sb.addSequence(tensor)));
          states.pass(op);
          return success();
        })))
      return failure();
    closeVectors(sb, adjoint, vectors);
    states.end();
    auto nothing = [](Operation *) { return success(); };
    if (sizes && failed(reverse(sb, primal, gateSizes, nothing, /*absolute=*/true)))
      return failure();
    Gathered gathered = gather(sb, sizes ? gateSizes : adjoint, /*forward=*/false);
    sb.finish();
    finish(sb, gathered);
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
      if (!request.initialStates[i] || sizes)
        continue;
      if (Value gradient = states.initialStateCotangent(arg))
        gradients.initialStates[i] = gradient;
      for (auto [state, end] : vectors)
        if (state == arg)
          gradients.initialStates[i] = sb.finalState(end);
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Gradients
  //===--------------------------------------------------------------------===//

  /// Gradients that leave a scan: outputs, and states that accumulate.
  struct Gathered {
    SmallVector<std::pair<unsigned, unsigned>> sequences; // operand, output
    SmallVector<std::pair<unsigned, Value>> parameters;   // operand, state
  };

  Gathered gather(ScanBuilder &sb, Cotangents &adjoint, bool forward) {
    Gathered gathered;
    for (auto [i, arg] : llvm::enumerate(scan.getSequenceArgs())) {
      Value cotangent = adjoint.lookup(arg);
      if (!request.sequences[i] || !cotangent || step.endsForward(arg) != forward)
        continue;
      if (sharesNoHeads(i))
        cotangent = convertTo(sb.b, loc(), cotangent, request.sequences[i]);
      gathered.sequences.push_back({i, sb.addOutput(cotangent)});
    }
    for (auto [i, arg] : llvm::enumerate(scan.getParameterArgs())) {
      Value cotangent = adjoint.lookup(arg);
      if (!request.parameters[i] || !cotangent || step.endsForward(arg) != forward)
        continue;
      // A sum over channels is computed once, after the scan.
      if (auto sum = cotangent.getDefiningOp<SumOp>())
        cotangent = sum.getVector();
      Value total = sb.addState(sb.stateType(cotangent.getType()), Value());
      sb.setNext(total, arith::AddFOp::create(sb.b, loc(), total, cotangent));
      gathered.parameters.push_back({i, total});
    }
    return gathered;
  }

  /// Whether sequence `i` has a head for every query head.
  bool sharesNoHeads(unsigned i) {
    return haveSameSize(scan.getSequences()[i], scan.getSequences().front(), 2);
  }

  void finish(ScanBuilder &sb, const Gathered &gathered) {
    for (auto [i, output] : gathered.sequences) {
      Value gradient = sb.output(output), like = scan.getSequences()[i];
      if (!sharesNoHeads(i))
        gradient = sumHeads(outer, loc(), gradient, 2, like, request.sequences[i]);
      gradients.sequences[i] = castLike(outer, loc(), gradient, like);
    }
    for (auto [i, total] : gathered.parameters) {
      Value gradient = sb.finalState(total), like = scan.getParameters()[i];
      Type stepType = scan.getParameterArgs()[i].getType();
      int64_t channels = isa<VectorType>(stepType) ? cast<VectorType>(stepType).getRank() : 0;
      gradient = sumToParameter(outer, loc(), gradient, like, channels, request.parameters[i]);
      gradient = convertTo(outer, loc(), gradient, request.parameters[i]);
      gradients.parameters[i] = castLike(outer, loc(), gradient, like);
    }
  }

  OpBuilder &outer;
  ScanOp scan;
  const ScanRequest &request;
  StepAnalysis step;
  int64_t checkpointEvery; // 0 for never
  bool sizes;              // absolute values of gate terms instead of gradients
  ScanGradients gradients;

  /// Values of the step, and the tensors with their values over time.
  SmallVector<std::pair<Value, Value>> savedStates, savedReads;
  /// By a read's result: the tensor of its cotangent.
  llvm::DenseMap<Value, Value> readCotangents;
  /// Instead of these.
  std::optional<HandedCotangent> handed;
  RowStates rowStates;
  CoreRecord record;
};
} // namespace

FailureOr<ScanGradients> ejk::deriveScan(OpBuilder &b, ScanOp scan, const ScanRequest &request) {
  if (scan.getTrailing())
    return scan.emitError("leaves out rows; derive before --ejk-split-over-time"), failure();
  return ScanAdjoint(b, scan, request).run();
}
