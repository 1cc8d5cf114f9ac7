//===- DeriveScan.cpp - the derivative of a scan, as scans ----------------===//
//
// A step is three parts: what it computes without the state (gates, keys,
// values, the vectors it reads with), the *core* that decays, updates and reads
// the K×V states, and what it makes of the reads. Its derivative is two scans:
//
//   forward: the states once more; from the outputs' cotangents those of the
//            reads, r̄, and with them q̄ = read(S, r̄, other axis)
//   back:    the states' adjoints A, walking the other way. In reverse order of
//            the step's ops:
//              read       A += q r̄ᵀ
//              outer_add  k̄ = A v,  v̄ = Aᵀ k
//              decay      A ← D ⊙ A
//
// A gate's gradient is Σ A ⊙ S where it decays, summed over the other axis. That
// *pairing* needs no state: a decay keeps it, a read adds q ⊙ q̄ to it (r ⊙ r̄ on
// the other axis) and an outer_add takes k ⊙ k̄ (v ⊙ v̄) away, so that it is one
// more state, a vector, carried from Σ ht ⊙ dht on.
//
// What a step both adds and reads cancels in that sum, and where gates are strong
// it is far larger than what remains. So q̄ and r there are read before the adds
// of the step's segment (the ops between two decays), and k̄ and v̄ of the adjoint
// before its reads; the gradients proper have the rest, e.g. q̄ += k (v · r̄).
// Rounding adds up along the walk nevertheless: unless the policy is the plain
// suffix sum, the walk forward saves the state every so many rows, as it is before
// the step's last adds, and the pairing starts anew there from Σ A ⊙ S.
//
// A state that is a number or a vector has an adjoint that the scan back
// carries. Where such a state takes up reads, r̄ is known only walking back, and
// two more scans find it first: one that saves the reads, one that carries r̄.
//
//===----------------------------------------------------------------------===//
#include "passes/DeriveScan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/AdjointRules.h"
#include "passes/ScanBuilder.h"
#include "passes/StepAnalysis.h"
#include "passes/TensorSums.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace ejk;

static Axis other(Axis axis) { return axis == Axis::key ? Axis::value : Axis::key; }

namespace {
/// A K×V value's adjoint and pairings, while the scan back passes it.
struct MatrixAdjoint {
  Value adjoint;
  Value pairing[2]; // by Axis::key, Axis::value
  /// Of the segment being passed: the adjoint behind its last op, what its reads
  /// added since to the adjoint and will add to the pairings, and the saved state
  /// before its adds, if there is one.
  Value segmentEnd, saved;
  SmallVector<std::pair<Value, Value>> reads; // key, value
  SmallVector<Value> readTerms[2];

  void startSegment() {
    segmentEnd = adjoint;
    reads.clear();
  }
};

class ScanAdjoint {
public:
  ScanAdjoint(OpBuilder &outer, ScanOp scan, const ScanRequest &request)
      : outer(outer), scan(scan), request(request), step(scan, request),
        checkpointEvery(request.policy.checkpointEvery) {
    auto isNarrow = [](Value v) {
      Type element = getElementTypeOrSelf(v.getType());
      return element.isF16() || element.isBF16();
    };
    if (!checkpointEvery)
      checkpointEvery = llvm::any_of(scan.getSequences(), isNarrow) ? 64 : 32;
  }

  FailureOr<ScanGradients> run() {
    gradients.sequences.resize(scan.getSequences().size());
    gradients.parameters.resize(scan.getParameters().size());
    gradients.initialStates.resize(scan.getNumStates());
    if (step.isZero())
      return gradients;
    if (failed(step.check()))
      return failure();
    if (step.carriesReads()) {
      if (failed(savePrimal()) || failed(walkReads()))
        return failure();
    }
    if (failed(walkForward()) || failed(walkBack()))
      return failure();
    return gradients;
  }

private:
  using Handler = llvm::function_ref<LogicalResult(Operation *)>;
  Location loc() { return scan.getLoc(); }
  Block &body() { return scan.getStep(); }
  YieldOp yield() { return scan.getYield(); }

  /// The step's operands, and what it computes from them without a matrix.
  /// States and reads come from `saved`.
  void cloneVectors(ScanBuilder &sb, IRMapping &primal) {
    mapOperands(sb, primal);
    for (auto [arg, tensor] : savedStates)
      primal.map(arg, sb.addSequence(tensor));
    for (auto [result, tensor] : savedReads)
      primal.map(result, sb.addSequence(tensor));
    for (Operation &op : body().without_terminator())
      if (!step.isCore(&op))
        sb.b.clone(op, primal);
  }
  void mapOperands(ScanBuilder &sb, IRMapping &primal) {
    for (auto [arg, tensor] : llvm::zip(scan.getSequenceArgs(), scan.getSequences()))
      primal.map(arg, sb.addSequence(tensor));
    for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
      primal.map(arg, sb.addParameter(tensor, arg.getType()));
  }
  /// The whole step, states and all.
  void cloneStep(ScanBuilder &sb, IRMapping &primal) {
    mapOperands(sb, primal);
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
      auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
      primal.map(arg, sb.addState(type, scan.getInitialState(i)));
    }
    for (Operation &op : body().without_terminator())
      sb.b.clone(op, primal);
    for (auto [arg, next] : llvm::zip(scan.getStateArgs(), yield().getStates()))
      sb.setNext(primal.lookup(arg), primal.lookup(next));
  }

  /// What a walk back needs of a walk forward, as outputs of `sb`.
  struct Saved {
    Value value;
    unsigned output;
  };
  SmallVector<Saved> save(ScanBuilder &sb, IRMapping &primal) {
    SmallVector<Saved> saved;
    for (Value arg : scan.getStateArgs())
      if (!step.isMatrix(arg))
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

  /// The outputs' cotangents, as the values that are yielded have them.
  void seedOutputs(ScanBuilder &sb, Cotangents &adjoint) {
    for (auto [value, cotangent] : llvm::zip(yield().getOutputs(), request.outputCotangents))
      if (cotangent && step.isActive(value))
        adjoint.add(sb.b, loc(), value, widenToF32(sb.b, loc(), sb.addSequence(cotangent)));
  }

  /// Passes cotangents back through the step; `core` sees the core's ops.
  LogicalResult reverse(ScanBuilder &sb, IRMapping &primal, Cotangents &adjoint, Handler core) {
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
              [&](Value v, Value c) { adjoint.add(sb.b, op->getLoc(), v, c); })))
        return failure();
    }
    return success();
  }

  LogicalResult savePrimal() {
    ScanBuilder sb(outer, scan);
    IRMapping primal;
    cloneStep(sb, primal);
    SmallVector<Saved> saved = save(sb, primal);
    sb.finish();
    keep(sb, saved);
    return success();
  }

  /// Adds states that carry the adjoints of the scan's numbers and vectors.
  void carryVectors(ScanBuilder &sb, Cotangents &adjoint,
                    SmallVectorImpl<std::pair<Value, Value>> &carried) {
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
      if (step.isMatrix(arg) || !step.isActive(arg))
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

  /// Finds the reads' cotangents where they depend on what comes later.
  LogicalResult walkReads() {
    ScanBuilder sb(outer, scan, /*turned=*/true);
    IRMapping primal;
    Cotangents adjoint;
    SmallVector<std::pair<Value, Value>> carried;
    cloneVectors(sb, primal);
    seedOutputs(sb, adjoint);
    carryVectors(sb, adjoint, carried);
    SmallVector<Saved> found;
    LogicalResult walked = reverse(sb, primal, adjoint, [&](Operation *op) {
      if (auto read = dyn_cast<ReadOp>(op))
        if (Value cotangent = adjoint.lookup(read.getResult())) {
          // An output's own cotangent is a tensor already.
          if (Value tensor = sb.sequenceOf(cotangent))
            readCotangents[read.getResult()] = tensor;
          else
            found.push_back({read.getResult(), sb.addOutput(cotangent)});
        }
      return success();
    });
    if (failed(walked))
      return failure();
    closeVectors(sb, adjoint, carried);
    sb.finish();
    for (const Saved &s : found)
      readCotangents[s.value] = sb.output(s.output);
    return success();
  }

  LogicalResult walkForward() {
    ScanBuilder sb(outer, scan);
    IRMapping primal;
    Cotangents adjoint;
    cloneStep(sb, primal);
    SmallVector<Saved> saved, found;
    bool local = !step.carriesReads();
    if (local) {
      saved = save(sb, primal);
      seedOutputs(sb, adjoint);
    }
    auto core = [&](Operation *op) {
      auto read = dyn_cast<ReadOp>(op);
      if (!read)
        return success();
      Value cotangent = adjoint.lookup(read.getResult());
      if (!local)
        if (Value tensor = readCotangents.lookup(read.getResult()))
          cotangent = sb.addSequence(tensor);
      if (!cotangent)
        return success();
      Value q = readForward(sb, primal, read, cotangent);
      found.push_back({read.getResult(), sb.addOutput(q)});
      if (step.isActive(read.getVector()))
        adjoint.add(sb.b, op->getLoc(), read.getVector(), q);
      return success();
    };
    if (failed(reverse(sb, primal, adjoint, core)))
      return failure();
    Gathered gathered = gather(sb, adjoint, /*forward=*/true);
    checkpoint(sb, primal);
    sb.finish();
    keep(sb, saved);
    for (const Saved &s : found)
      queryCotangents[s.value] = sb.output(s.output);
    for (auto &[value, terms] : pairingReads)
      for (unsigned a : {0, 1})
        if (terms.numbers[a])
          terms.tensors[a] = sb.output(*terms.numbers[a]);
    for (auto [i, save] : llvm::enumerate(checkpointNumbers))
      checkpoints.push_back(save ? sb.save(*save) : Value());
    for (Value arg : scan.getStateArgs())
      finalStates.push_back(sb.finalState(primal.lookup(arg)));
    finish(sb, gathered);
    return success();
  }

  static Value scaled(OpBuilder &b, Location at, Value vector, Value x, Value y) {
    Value product = arith::MulFOp::create(b, at, x, y);
    Value number = SumOp::create(b, at, b.getF32Type(), product);
    Value spread = vector::BroadcastOp::create(b, at, vector.getType(), number);
    return arith::MulFOp::create(b, at, vector, spread);
  }

  /// q̄ of a read, and what of it and of the read itself the pairings take: that
  /// before the segment's adds.
  Value readForward(ScanBuilder &sb, IRMapping &primal, ReadOp read, Value cotangent) {
    OpBuilder &b = sb.b;
    Location at = read.getLoc();
    Axis axis = read.getAxis(), across = other(axis);
    bool paired = step.isMatrixActive(read.getState());
    if (!paired || !step.needsPairing(axis)) {
      if (paired && step.needsPairing(across))
        savePairingRead(sb, primal, read);
      return ReadOp::create(b, at, primal.lookup(read.getState()), cotangent, across);
    }
    if (step.needsPairing(across))
      savePairingRead(sb, primal, read);
    Segment segment = Segment::of(read.getState());
    Value q = ReadOp::create(b, at, primal.lookup(segment.start), cotangent, across);
    pairingReads[read.getResult()].numbers[axis == Axis::value] = sb.addOutput(q);
    for (OuterAddOp add : segment.adds) {
      Value key = primal.lookup(add.getKey()), value = primal.lookup(add.getValue());
      bool alongKey = axis == Axis::key;
      Value more = scaled(b, at, alongKey ? key : value, alongKey ? value : key, cotangent);
      q = arith::AddFOp::create(b, at, q, more);
    }
    return q;
  }

  void savePairingRead(ScanBuilder &sb, IRMapping &primal, ReadOp read) {
    Axis axis = read.getAxis();
    Value r = ReadOp::create(sb.b, read.getLoc(), primal.lookup(Segment::of(read.getState()).start),
                             primal.lookup(read.getVector()), axis);
    pairingReads[read.getResult()].numbers[axis == Axis::key] = sb.addOutput(r);
  }

  bool hasCheckpoints() const {
    return request.policy.gateGradients == GateGradients::checkpoint &&
           (step.needsPairing(Axis::key) || step.needsPairing(Axis::value));
  }

  /// Saves the states that a pairing starts from.
  void checkpoint(ScanBuilder &sb, IRMapping &primal) {
    for (Value next : yield().getStates()) {
      std::optional<unsigned> &number = checkpointNumbers.emplace_back();
      if (hasCheckpoints() && step.isMatrix(next) && step.isMatrixActive(next))
        number = sb.addSave(primal.lookup(Segment::of(next).start), checkpointEvery,
                            sb.saveType(next.getType(), sb.b.getF32Type()));
    }
  }

  /// The pairing of state `i`'s end: Σ ht ⊙ dht over the axis that is not `axis`.
  Value pairingAtEnd(unsigned i, Axis axis) {
    Value cotangent = request.stateCotangents[i];
    if (!cotangent)
      return Value();
    return sumOfProducts(outer, loc(), finalStates[i], cotangent, axis == Axis::key ? 3 : 2);
  }

  /// Starts the adjoints of the matrix states.
  void carryMatrices(ScanBuilder &sb, SmallVectorImpl<std::pair<Value, MatrixAdjoint>> &carried) {
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
      if (!step.isMatrix(arg) || !step.isMatrixActive(yield().getStates()[i]))
        continue;
      auto type = cast<RankedTensorType>(scan.getFinalStates()[i].getType());
      MatrixAdjoint end;
      end.adjoint = sb.addState(type, request.stateCotangents[i]);
      for (Axis axis : {Axis::key, Axis::value}) {
        if (!step.needsPairing(axis))
          continue;
        int64_t size = type.getDimSize(axis == Axis::key ? 2 : 3);
        Value initial = checkpoints[i] ? Value() : pairingAtEnd(i, axis);
        auto pairingType = initial ? cast<RankedTensorType>(initial.getType())
                                   : sb.stateType(VectorType::get({size}, sb.b.getF32Type()));
        end.pairing[axis == Axis::value] = sb.addState(pairingType, initial);
      }
      end.startSegment();
      carried.push_back({arg, end});
      if (checkpoints[i])
        end.saved = sb.addSavedState(checkpoints[i], checkpointEvery);
      matrices[yield().getStates()[i]] = end;
    }
  }

  /// Brings the pairings to where the segment starts. Its adds have been taken
  /// away; the saved state had them not yet.
  void closeSegment(ScanBuilder &sb, MatrixAdjoint &m) {
    for (Axis axis : {Axis::key, Axis::value}) {
      Value &pairing = m.pairing[axis == Axis::value];
      if (pairing && m.saved)
        pairing = AnchorOp::create(sb.b, loc(), pairing.getType(), pairing, m.segmentEnd, m.saved,
                                   other(axis));
      for (Value term : m.readTerms[axis == Axis::value])
        pairing = arith::AddFOp::create(sb.b, loc(), pairing, term);
      m.readTerms[axis == Axis::value].clear();
    }
    m.saved = Value();
  }

  /// The adjoint of `matrix`, by what uses it next; zero where nothing does.
  MatrixAdjoint &matrixAdjoint(ScanBuilder &sb, Value matrix) {
    MatrixAdjoint &m = matrices[matrix];
    if (!m.adjoint) {
      m.adjoint = splatLike(sb.b, loc(), matrix, 0);
      m.startSegment();
    }
    auto type = cast<VectorType>(matrix.getType());
    for (Axis axis : {Axis::key, Axis::value}) {
      Value &pairing = m.pairing[axis == Axis::value];
      auto vector =
          VectorType::get({type.getDimSize(axis == Axis::key ? 0 : 1)}, sb.b.getF32Type());
      if (step.needsPairing(axis) && !pairing)
        pairing = arith::ConstantOp::create(sb.b, loc(), DenseElementsAttr::get(vector, 0.0f));
    }
    // Reads wait until here: one may stand before the op that passes the
    // adjoint on, and after it in the step.
    auto waiting = pendingReads.find(matrix);
    if (waiting == pendingReads.end())
      return m;
    for (const PendingRead &read : waiting->second) {
      m.adjoint =
          OuterAddOp::create(sb.b, loc(), m.adjoint.getType(), m.adjoint, read.key, read.value);
      m.reads.push_back({read.key, read.value});
      for (unsigned a : {0, 1})
        if (read.terms[a])
          m.readTerms[a].push_back(read.terms[a]);
    }
    pendingReads.erase(waiting);
    return m;
  }

  LogicalResult walkBack() {
    ScanBuilder sb(outer, scan, /*turned=*/true);
    IRMapping primal;
    Cotangents adjoint;
    SmallVector<std::pair<Value, Value>> vectors;
    SmallVector<std::pair<Value, MatrixAdjoint>> carried;
    cloneVectors(sb, primal);
    seedOutputs(sb, adjoint);
    carryVectors(sb, adjoint, vectors);
    carryMatrices(sb, carried);
    if (failed(reverse(sb, primal, adjoint, [&](Operation *op) {
          passCore(sb, primal, adjoint, op);
          return success();
        })))
      return failure();
    closeVectors(sb, adjoint, vectors);
    for (auto [arg, end] : carried) {
      MatrixAdjoint begin = matrixAdjoint(sb, arg);
      closeSegment(sb, begin);
      sb.setNext(end.adjoint, begin.adjoint);
      for (unsigned a : {0, 1})
        if (end.pairing[a])
          sb.setNext(end.pairing[a], begin.pairing[a]);
    }
    Gathered gathered = gather(sb, adjoint, /*forward=*/false);
    sb.finish();
    finish(sb, gathered);
    for (auto [i, arg] : llvm::enumerate(scan.getStateArgs())) {
      if (!request.initialStates[i])
        continue;
      for (auto [state, end] : carried)
        if (state == arg)
          gradients.initialStates[i] = sb.finalState(end.adjoint);
      for (auto [state, end] : vectors)
        if (state == arg)
          gradients.initialStates[i] = sb.finalState(end);
    }
    return success();
  }

  /// The core's rules: see the head of this file.
  void passCore(ScanBuilder &sb, IRMapping &primal, Cotangents &adjoint, Operation *op) {
    OpBuilder &b = sb.b;
    Location at = op->getLoc();
    auto times = [&](Value x, Value y) { return arith::MulFOp::create(b, at, x, y).getResult(); };
    auto give = [&](Value operand, Value cotangent) {
      if (step.isActive(operand))
        adjoint.add(b, at, operand, cotangent);
    };
    if (auto read = dyn_cast<ReadOp>(op)) {
      Value cotangent = adjoint.lookup(read.getResult());
      if (!cotangent)
        return;
      Value vector = primal.lookup(read.getVector());
      Value queryCotangent;
      if (Value tensor = queryCotangents.lookup(read.getResult()))
        queryCotangent = sb.addSequence(tensor);
      if (queryCotangent)
        give(read.getVector(), queryCotangent);
      if (!step.isMatrixActive(read.getState()))
        return;
      bool alongKey = read.getAxis() == Axis::key;
      PendingRead pending{alongKey ? vector : cotangent, alongKey ? cotangent : vector, {}};
      for (Axis axis : {Axis::key, Axis::value})
        if (step.needsPairing(axis)) {
          Value tensor = pairingReads[read.getResult()].tensors[axis == Axis::value];
          pending.terms[axis == Axis::value] =
              times(axis == read.getAxis() ? vector : cotangent, sb.addSequence(tensor));
        }
      pendingReads[read.getState()].push_back(pending);
      return;
    }
    if (!step.isMatrixActive(op->getResult(0)))
      return;
    MatrixAdjoint m = matrixAdjoint(sb, op->getResult(0));
    if (auto decay = dyn_cast<DecayOp>(op)) {
      Axis axis = decay.getAxis();
      closeSegment(sb, m);
      if (step.isActive(decay.getGate())) {
        Value pairing = m.pairing[axis == Axis::value];
        if (axis == Axis::head)
          pairing =
              SumOp::create(b, at, b.getF32Type(), m.pairing[0] ? m.pairing[0] : m.pairing[1]);
        give(decay.getGate(), pairing);
      }
      m.adjoint = DecayOp::create(b, at, m.adjoint.getType(), m.adjoint,
                                  primal.lookup(decay.getGate()), axis);
      m.startSegment();
      matrices[decay.getState()] = m;
      return;
    }
    auto outerAdd = cast<OuterAddOp>(op);
    Value key = primal.lookup(outerAdd.getKey()), value = primal.lookup(outerAdd.getValue());
    for (Axis axis : {Axis::key, Axis::value}) {
      bool isKey = axis == Axis::key;
      Value operand = isKey ? outerAdd.getKey() : outerAdd.getValue();
      if (!step.isActive(operand) && !step.needsPairing(axis))
        continue;
      Value vector = isKey ? value : key, &pairing = m.pairing[!isKey];
      Value cotangent =
          ReadOp::create(b, at, pairing ? m.segmentEnd : m.adjoint, vector, other(axis));
      if (pairing) {
        pairing = arith::SubFOp::create(b, at, pairing, times(isKey ? key : value, cotangent));
        for (auto [readKey, readValue] : m.reads)
          cotangent = arith::AddFOp::create(
              b, at, cotangent,
              scaled(b, at, isKey ? readKey : readValue, isKey ? readValue : readKey, vector));
      }
      give(operand, cotangent);
    }
    matrices[outerAdd.getState()] = m;
  }

  //===--------------------------------------------------------------------===//
  // Gradients
  //===--------------------------------------------------------------------===//

  /// Gradients on their way out of a scan: outputs, and states that add up.
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
      // A sum over channels waits for the end of the walk.
      if (auto sum = cotangent.getDefiningOp<SumOp>())
        cotangent = sum.getVector();
      Value total = sb.addState(sb.stateType(cotangent.getType()), Value());
      sb.setNext(total, arith::AddFOp::create(sb.b, loc(), total, cotangent));
      gathered.parameters.push_back({i, total});
    }
    return gathered;
  }

  /// Whether sequence `i` is known to have a head for every query head.
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

  struct PendingRead {
    Value key, value, terms[2];
  };

  OpBuilder &outer;
  ScanOp scan;
  const ScanRequest &request;
  StepAnalysis step;
  int64_t checkpointEvery;
  ScanGradients gradients;

  /// Values of the step and the tensors that hold them over time.
  SmallVector<std::pair<Value, Value>> savedStates, savedReads;
  /// What of a read the pairings take: outputs of the walk forward, then tensors.
  struct PairingRead {
    std::optional<unsigned> numbers[2];
    Value tensors[2];
  };
  llvm::MapVector<Value, PairingRead> pairingReads;
  /// Per state, where it is saved.
  SmallVector<std::optional<unsigned>> checkpointNumbers;
  SmallVector<Value> checkpoints;
  /// By a read's result: tensors of its cotangent, and of its vector's.
  llvm::DenseMap<Value, Value> readCotangents, queryCotangents;
  SmallVector<Value> finalStates;
  /// While walking back.
  llvm::DenseMap<Value, MatrixAdjoint> matrices;
  llvm::DenseMap<Value, SmallVector<PendingRead>> pendingReads;
};
} // namespace

FailureOr<ScanGradients> ejk::deriveScan(OpBuilder &b, ScanOp scan, const ScanRequest &request) {
  return ScanAdjoint(b, scan, request).run();
}
