//===- OpShapes.cpp - what each op says of its operands' sizes ------------===//
#include "dialect/shapes/Shapes.h"
#include "dialect/ejk/EjkShifts.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// What each op says of its operands' sizes
//===----------------------------------------------------------------------===//

static unsigned rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

unsigned ShapeAnalysis::sequencesNode(unsigned batch, Value cuSeqlens) {
  if (!cuSeqlens)
    return batch;
  unsigned entries = node(cuSeqlens, 0), root = find(entries);
  if (nodes[root].minusOne >= 0)
    return nodes[root].minusOne;
  unsigned sequences = makeNode();
  if (nodes[root].constant)
    nodes[sequences].constant = *nodes[root].constant - 1;
  nodes[find(entries)].minusOne = sequences;
  return sequences;
}

void ShapeAnalysis::constrainRecurrence(Operation *op) {
  Recurrence r = *Recurrence::of(op);
  Value heads = r.heads();
  // B, T and the state's heads; then channels as the query has them.
  auto same = [&](Value value, unsigned dims, bool hasQueryChannels = false) {
    if (!value)
      return;
    for (unsigned dim = 0; dim < dims; ++dim)
      unify(node(heads, dim), node(value, dim));
    if (hasQueryChannels && rankOf(value) > 3)
      unify(node(r.query, 3), node(value, 3));
  };
  same(r.query, 2);
  same(r.key, 2, true);
  same(r.value, 2);
  if (!r.beta)
    unify(node(r.key, 2), node(r.value, 2));
  else if (!r.sharedState)
    unify(node(r.key, 2), node(r.query, 2));
  same(r.beta, 3);
  same(r.g, 3, true);
  same(r.gk, 3, true);
  same(r.gv, 3);
  same(r.output, 2);
  unify(node(r.outputHeads(), 2), node(r.output, 2));
  unsigned n = sequencesNode(node(heads, 0), r.cuSeqlens);
  for (Value state : {r.initialState, r.finalState})
    if (state) {
      unify(n, node(state, 0));
      unify(node(heads, 2), node(state, 1));
    }
  if (r.gGamma) {
    if (rankOf(r.gGamma) == 2)
      unify(n, node(r.gGamma, 0));
    unify(node(heads, 2), node(r.gGamma, rankOf(r.gGamma) - 1));
  }
}

void ShapeAnalysis::nameRecurrence(Operation *op) {
  Recurrence r = *Recurrence::of(op);
  name(node(r.query, 0), "B");
  name(node(r.query, 1), "T");
  if (r.sharedState)
    name(node(r.query, 2), "H");
  name(node(r.heads(), 2), r.beta ? "Hv" : r.sharedState ? "Hkv" : "H");
  name(node(r.key, 2), r.beta ? "Hk" : "Hkv");
  name(node(r.finalState, 0), "N");
  requireDivides(node(r.key, 2), node(r.heads(), 2),
                 r.sharedState ? "the key heads"
                 : r.beta      ? "the query and key heads"
                               : "the key/value heads",
                 r.sharedState ? "the value heads" : "the query heads");
  if (r.sharedState)
    requireDivides(node(r.heads(), 2), node(r.query, 2),
                   r.beta ? "the value heads" : "the key/value heads");
  if (r.cuSeqlens)
    requireOne(node(r.query, 0), "B must be 1 with 'cu_seqlens'");
}

/// The leading dimensions, [], [H'] or [N,H'], of parameter `i`.
template <typename Scan> static unsigned parameterPrefix(Scan scan, unsigned i) {
  Type type = scan.getParameterArgs()[i].getType();
  if (auto slots = dyn_cast<tile::SlotsType>(type))
    type = slots.getSlot();
  auto step = dyn_cast<VectorType>(type);
  return rankOf(scan.getParameters()[i]) - (step ? step.getRank() : 0);
}

/// The rows between two saved states.
static int64_t rowsOfChunk(ScanOp scan) { return *scan.getSaveEvery(); }
static int64_t rowsOfChunk(tile::ProgramOp program) { return *program.getSaveEvery(); }

template <typename Scan> void ShapeAnalysis::constrainScan(Scan scan) {
  Value first = scan.getSequences().front();
  auto sameRows = [&](Value value, unsigned dims) {
    for (unsigned dim = 0; dim < dims; ++dim)
      unify(node(first, dim), node(value, dim));
  };
  for (Value sequence : scan.getSequences())
    sameRows(sequence, 2);
  for (Value output : scan.getOutputs())
    sameRows(output, 2);
  unifyHeads(scan);
  unsigned n = sequencesNode(node(first, 0), scan.getCuSeqlens());
  if constexpr (std::is_same_v<Scan, tile::ProgramOp>)
    if (Value skipped = scan.getSkipped()) {
      unify(n, node(skipped, 0));
      unify(node(first, 2), node(skipped, 1));
    }
  for (auto states : {ValueRange(scan.getInitialStates()), ValueRange(scan.getFinalStates())})
    for (Value state : states) {
      if (scan.getSegments() && !scan.getSegments()->isOneEach()) {
        unsigned batch = node(first, 0), rows = node(first, 1);
        Node &count = nodes[find(node(state, 0))];
        count.segments = *scan.getSegments();
        count.packed = bool(scan.getCuSeqlens());
        llvm::copy(ArrayRef<unsigned>{batch, rows, n}, count.slotsOf);
      } else {
        unify(n, node(state, 0));
      }
      unify(node(first, 2), node(state, 1));
    }
  if (Value remembered = scan.getRemembered())
    for (unsigned dim = 0; dim < 2; ++dim)
      unify(node(scan.getFinalStates().front(), dim), node(remembered, dim));
  for (auto [i, parameter] : llvm::enumerate(scan.getParameters()))
    if (parameterPrefix(scan, i) == 2)
      unify(n, node(parameter, 0));
  for (auto saved : {ValueRange(scan.getSavedStates()), ValueRange(scan.getSaves())})
    for (Value state : saved) {
      unify(node(first, 2), node(state, 1));
      unsigned batch = node(first, 0), rows = node(first, 1);
      Node &slots = nodes[find(node(state, 0))];
      slots.saveEvery = rowsOfChunk(scan);
      llvm::copy(ArrayRef<unsigned>{batch, rows, n}, slots.slotsOf);
    }
}

void ShapeAnalysis::unifyHeads(tile::ProgramOp program) {
  for (auto [start, result] : llvm::zip(program.getInto(), program.getResultsFromInto()))
    for (unsigned dim = 0, rank = rankOf(result); dim < rank; ++dim)
      unify(node(start, dim), node(result, dim));
  if (Value turns = program.getTurns())
    for (unsigned dim = 0; dim < 3; ++dim)
      unify(node(program.getSequences().front(), dim), node(turns, dim));
  for (Value output : program.getOutputs())
    unify(node(program.getSequences().front(), 2), node(output, 2));
}

void ShapeAnalysis::unifyHeads(ScanOp scan) {
  llvm::DenseSet<Value> queryValues = scan.findQueryValues();
  for (Value query : scan.getQueries())
    for (unsigned dim = 0; dim < 3; ++dim)
      unify(node(dim < 2 ? scan.getSequences().front() : scan.getQueries().front(), dim),
            node(query, dim));
  for (auto [output, value] : llvm::zip(scan.getOutputs(), scan.getYield().getOutputs()))
    unify(
        node(queryValues.contains(value) ? scan.getQueries().front() : scan.getSequences().front(),
             2),
        node(output, 2));
}

template <typename Scan> void ShapeAnalysis::nameScan(Scan scan) {
  Value first = scan.getSequences().front();
  name(node(first, 0), "B");
  name(node(first, 1), "T");
  if constexpr (std::is_same_v<Scan, ScanOp>)
    if (!scan.getQueries().empty()) {
      Value query = scan.getQueries().front();
      name(node(query, 2), "H");
      name(node(first, 2), "Hkv");
      requireDivides(node(first, 2), node(query, 2), "the heads of sequence 0");
    }
  name(node(first, 2), "H");
  if (Value cu = scan.getCuSeqlens()) {
    name(sequencesNode(node(first, 0), cu), "N");
    requireOne(node(first, 0), "B must be 1 with 'cu_seqlens'");
  }
  for (auto [i, sequence] : llvm::enumerate(scan.getSequences())) {
    name(node(sequence, 2), "Hkv");
    requireDivides(node(sequence, 2), node(first, 2), ("the heads of sequence " + Twine(i)).str());
  }
  for (auto [i, parameter] : llvm::enumerate(scan.getParameters()))
    if (unsigned prefix = parameterPrefix(scan, i)) {
      name(node(parameter, prefix - 1), "Hp");
      requireDivides(node(parameter, prefix - 1), node(first, 2),
                     ("the heads of parameter " + Twine(i)).str());
    }
}
template void ShapeAnalysis::nameScan(ScanOp scan);
template void ShapeAnalysis::nameScan(tile::ProgramOp program);

/// A pool's P stands for itself. The slots of states after each row are the scan's.
void ShapeAnalysis::constrainPool(Operation *op) {
  if (auto zero = dyn_cast<ZeroSkippedOp>(op)) {
    unsigned sequences = zero.getCuSeqlens()
                             ? sequencesNode(node(zero.getRows(), 0), zero.getCuSeqlens())
                             : node(zero.getRows(), 0);
    for (Value index : zero.getIndices())
      unify(sequences, node(index, 0));
    for (unsigned dim = 0, e = rankOf(zero.getRows()); dim < e; ++dim)
      unify(node(zero.getRows(), dim), node(zero.getResult(), dim));
    return;
  }
  auto read = dyn_cast<ReadStatesOp>(op);
  auto write = dyn_cast<WriteStatesOp>(op);
  Value pool = read ? read.getPool() : write.getPool();
  Value index = read ? read.getIndex() : write.getIndex();
  Value states = read ? read.getStates() : write.getStates();
  bool valueMajor = read ? read.getValueMajor() : write.getValueMajor();
  if (read || !write.isPerRow()) {
    unify(node(index, 0), node(states, 0));
  } else if (Value cu = write.getCuSeqlens()) {
    unify(sequencesNode({}, cu), node(index, 0));
  } else if (auto scan = states.getDefiningOp<ScanOp>()) {
    unify(node(scan.getSequences().front(), 0), node(index, 0));
  }
  if (read && read.getAccepted())
    unify(node(index, 0), node(read.getAccepted(), 0));
  for (unsigned dim = 1, e = rankOf(states); dim < e; ++dim)
    unify(node(pool, valueMajor && dim > 1 ? 5 - dim : dim), node(states, dim));
  if (write)
    for (unsigned dim = 0, e = rankOf(pool); dim < e; ++dim)
      unify(node(pool, dim), node(write.getResult(), dim));
}

/// The slots of a pool, and the drafted rows of a sequence, each with an index.
void ShapeAnalysis::namePool(Value pool, Value index) {
  name(node(pool, 0), "P");
  if (rankOf(index) == 2)
    name(node(index, 1), "D");
}

void ShapeAnalysis::constrainReshape(Operation *op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    for (auto [dim, group] : llvm::enumerate(collapse.getReassociationIndices())) {
      // A product by one is its other factor, which it may also be equal to by another op.
      std::optional<unsigned> size;
      for (int64_t part : group)
        if (cast<RankedTensorType>(from.getType()).getDimSize(part) != 1)
          size = size ? makeOperation(DimExpr::Operator::multiply, *size, node(from, part))
                      : node(from, part);
      unify(node(to, dim), size ? *size : node(from, group.front()));
    }
    return;
  }
  if (isa<tensor::ReshapeOp>(op)) {
    Value shape = op->getOperand(1);
    DenseIntElementsAttr known;
    if (auto sizes = shape.getDefiningOp<tensor::FromElementsOp>()) {
      for (auto [dim, size] : llvm::enumerate(sizes.getElements().take_front(rankOf(to))))
        unify(node(to, dim), node(size));
    } else if (matchPattern(shape, m_Constant(&known))) {
      for (auto [dim, size] : llvm::enumerate(known.getValues<APInt>())) {
        unsigned number = makeNode();
        nodes[number].constant = size.getSExtValue();
        if (int64_t(dim) < int64_t(rankOf(to)))
          unify(node(to, dim), number);
      }
    }
    return;
  }
  auto expand = cast<tensor::ExpandShapeOp>(op);
  SmallVector<OpFoldResult> sizes = expand.getMixedOutputShape();
  for (auto [dim, group] : llvm::enumerate(expand.getReassociationIndices()))
    for (int64_t part : group) {
      if (group.size() == 1)
        unify(node(from, dim), node(to, part));
      else if (auto size = dyn_cast<Value>(sizes[part]))
        unify(node(to, part), node(size));
    }
}

void ShapeAnalysis::constrain(Operation *op) {
  auto unifyAll = [&](Value a, Value b) {
    for (unsigned dim = 0, e = rankOf(a); dim < e; ++dim)
      unify(node(a, dim), node(b, dim));
  };
  if (Recurrence::of(op))
    return constrainRecurrence(op);
  if (auto scan = dyn_cast<ScanOp>(op))
    return constrainScan(scan);
  if (auto program = dyn_cast<tile::ProgramOp>(op))
    return constrainScan(program);
  if (auto choose = dyn_cast<tile::ChooseOp>(op)) {
    unifyAll(choose.getSingle(), choose.getResult());
    return unifyAll(choose.getSeveral(), choose.getResult());
  }
  if (isa<ReadStatesOp, WriteStatesOp, ZeroSkippedOp>(op))
    return constrainPool(op);
  if (isa<RepeatHeadsOp, FirstHeadsOp>(op)) {
    Value states = op->getOperand(0), like = op->getOperand(1), result = op->getResult(0);
    auto repeat = dyn_cast<RepeatHeadsOp>(op);
    unsigned heads = repeat ? repeat.getDim() : cast<FirstHeadsOp>(op).getDim();
    for (unsigned dim = 0, e = rankOf(states); dim < e; ++dim)
      unify(dim == 1 ? node(like, heads) : node(states, dim), node(result, dim));
    return;
  }
  // `some` are rows of each sequence of `rows`; null where there are none.
  auto constrainRowsOfEach = [&](Value rows, Value some, Value cuSeqlens) {
    if (!some)
      return;
    unify(sequencesNode(node(rows, 0), cuSeqlens), node(some, 0));
    for (unsigned dim = 2, e = rankOf(rows); dim < e; ++dim)
      unify(node(rows, dim), node(some, dim));
  };
  if (auto shift = dyn_cast<ShiftOp>(op)) {
    unifyAll(shift.getRows(), shift.getResult());
    return constrainRowsOfEach(shift.getRows(), shift.getHalo(), shift.getCuSeqlens());
  }
  if (auto last = dyn_cast<LastRowsOp>(op)) {
    if (last.getHalo())
      unifyAll(last.getHalo(), last.getResult());
    return constrainRowsOfEach(last.getRows(), last.getResult(), last.getCuSeqlens());
  }
  if (auto combine = dyn_cast<CombineSegmentsOp>(op)) {
    unifyAll(combine.getTotals(), combine.getStarts());
    if (combine.getInitial())
      unifyAll(combine.getInitial(), combine.getFinalState());
    unify(sequencesNode(node(combine.getLike(), 0), combine.getOffsets()),
          node(combine.getFinalState(), 0));
    for (unsigned dim = 0; dim < 2; ++dim)
      unify(node(combine.getTotals(), dim), node(combine.getTransitions(), dim));
    if (combine.getRemembered())
      for (unsigned dim = 0; dim < 2; ++dim)
        unify(node(combine.getTotals(), dim), node(combine.getRemembered(), dim));
    for (unsigned dim = 1; dim < 4; ++dim)
      unify(node(combine.getTotals(), dim), node(combine.getFinalState(), dim));
    return;
  }
  if (auto starts = dyn_cast<SegmentStartsOp>(op)) {
    unsigned batch = node(starts.getLike(), 0), rows = node(starts.getLike(), 1);
    unsigned n = sequencesNode(batch, starts.getCuSeqlens());
    Node &slots = nodes[find(node(starts.getSaves(), 0))];
    slots.saveEvery = starts.getEvery();
    llvm::copy(ArrayRef<unsigned>{batch, rows, n}, slots.slotsOf);
    Node &count = nodes[find(node(starts.getStarts(), 0))];
    count.segments = starts.getSegments();
    count.packed = bool(starts.getCuSeqlens());
    llvm::copy(ArrayRef<unsigned>{batch, rows, n}, count.slotsOf);
    if (starts.getInitial())
      unify(n, node(starts.getInitial(), 0));
    for (unsigned dim = 1; dim < 4; ++dim) {
      unify(node(starts.getSaves(), dim), node(starts.getStarts(), dim));
      if (starts.getInitial())
        unify(node(starts.getInitial(), dim), node(starts.getStarts(), dim));
    }
    return;
  }
  if (auto sum = dyn_cast<SumHeadsOp>(op)) {
    unifyAll(sum.getLike(), sum.getResult());
    for (unsigned dim = 0, e = rankOf(sum.getLike()); dim < e; ++dim)
      if (dim != sum.getDim())
        unify(node(sum.getLike(), dim), node(sum.getTensor(), dim));
    return;
  }
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    SmallVector<std::optional<unsigned>> loops(linalgOp.getNumLoops());
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      AffineMap map = linalgOp.getMatchingIndexingMap(&operand);
      for (auto [dim, index] : llvm::enumerate(map.getResults()))
        if (auto loop = dyn_cast<AffineDimExpr>(index)) {
          std::optional<unsigned> &known = loops[loop.getPosition()];
          if (known)
            unify(*known, node(operand.get(), dim));
          else
            known = node(operand.get(), dim);
        }
    }
    for (auto [init, result] : llvm::zip(linalgOp.getDpsInits(), op->getResults()))
      if (isa<RankedTensorType>(result.getType()))
        unifyAll(init, result);
    return;
  }
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    if (isa<RankedTensorType>(cast.getSource().getType()) && isa<RankedTensorType>(cast.getType()))
      unifyAll(cast.getSource(), cast.getResult());
    return;
  }
  if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
    for (unsigned dim = 0, e = rankOf(empty); dim < e; ++dim)
      if (empty.getType().isDynamicDim(dim))
        unify(node(empty, dim), node(empty.getDynamicSize(dim)));
    return;
  }
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::ReshapeOp>(op))
    return constrainReshape(op);
  if (OpTrait::hasElementwiseMappableTraits(op)) {
    Value first;
    for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        if (isa<RankedTensorType>(value.getType())) {
          if (first)
            unifyAll(first, value);
          else
            first = value;
        }
  }
}
