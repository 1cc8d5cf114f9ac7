//===- Shapes.cpp - symbolic sizes of a function's tensors ----------------===//
#include "dialect/shapes/Shapes.h"
#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ejk;

std::string DimExpr::str() const {
  switch (kind) {
  case Kind::constant:
    return std::to_string(value);
  case Kind::symbol:
    return symbol;
  case Kind::symbolPlusOne:
    return symbol + "+1";
  case Kind::slots:
    return factors[0].str() + "*" + factors[1].str() + "/" + std::to_string(value) + "+" +
           factors[2].str();
  case Kind::operation: {
    constexpr const char *functions[] = {"", "", "", "ceildiv", "min", "max"};
    constexpr const char *signs[] = {"+", "*", "/"};
    // A sum would bind looser than what it stands in.
    auto spell = [&](const DimExpr &e) {
      return value != int64_t(Operator::add) && e.kind != Kind::constant && e.kind != Kind::symbol
                 ? "(" + e.str() + ")"
                 : e.str();
    };
    if (value < 3)
      return spell(factors[0]) + signs[value] + spell(factors[1]);
    return functions[value] + ("(" + factors[0].str()) + "," + factors[1].str() + ")";
  }
  }
  llvm_unreachable("unknown kind");
}

DimExpr DimExpr::make(Operator op, DimExpr a, DimExpr b) {
  if (a.kind == Kind::constant && b.kind == Kind::constant)
    switch (op) {
    case Operator::add:
      return number(a.value + b.value);
    case Operator::multiply:
      return number(a.value * b.value);
    case Operator::floorDivide:
      return number(b.value ? a.value / b.value : 0);
    case Operator::ceilDivide:
      return number(b.value ? llvm::divideCeil(a.value, b.value) : 0);
    case Operator::minimum:
      return number(std::min(a.value, b.value));
    case Operator::maximum:
      return number(std::max(a.value, b.value));
    }
  if (op == Operator::multiply && a.kind == Kind::constant && a.value == 1)
    return b;
  if (op == Operator::multiply && b.kind == Kind::constant && b.value == 1)
    return a;
  return {Kind::operation, int64_t(op), {}, {std::move(a), std::move(b)}};
}

DimExpr DimExpr::rowsOfSegments(SegmentsAttr segments, DimExpr rows) {
  using O = Operator;
  DimExpr least = number(segments.getLeast()), most = number(segments.getMost());
  if (least == most)
    return most;
  DimExpr unit = number(segments.getLeast() * segments.getCount());
  DimExpr wanted = make(O::multiply, make(O::ceilDivide, rows, unit), least);
  return make(O::minimum, make(O::maximum, wanted, least), most);
}

DimExpr DimExpr::countSegments(SegmentsAttr segments, DimExpr batch, DimExpr rows,
                               DimExpr sequences, bool packed) {
  using O = Operator;
  DimExpr each = rowsOfSegments(segments, rows);
  if (packed)
    return make(O::add, make(O::floorDivide, rows, each), sequences);
  return make(O::multiply, batch, make(O::ceilDivide, rows, each));
}

//===----------------------------------------------------------------------===//
// Classes of equal sizes
//===----------------------------------------------------------------------===//

unsigned ShapeAnalysis::makeNode() {
  Node node;
  node.parent = nodes.size();
  nodes.push_back(node);
  return nodes.size() - 1;
}

unsigned ShapeAnalysis::find(unsigned node) const {
  while (nodes[node].parent != node)
    node = nodes[node].parent;
  return node;
}

void ShapeAnalysis::unify(unsigned a, unsigned b) {
  a = find(a), b = find(b);
  if (a == b)
    return;
  nodes[b].parent = a;
  if (nodes[a].constant && nodes[b].constant && *nodes[a].constant != *nodes[b].constant &&
      current && !contradicts)
    contradicts = Contradiction{current, *nodes[a].constant, *nodes[b].constant};
  if (!nodes[a].constant)
    nodes[a].constant = nodes[b].constant;
  if (!nodes[a].saveEvery && nodes[b].saveEvery) {
    nodes[a].saveEvery = nodes[b].saveEvery;
    llvm::copy(nodes[b].slotsOf, nodes[a].slotsOf);
  }
  if (!nodes[a].segments && nodes[b].segments) {
    nodes[a].segments = nodes[b].segments;
    nodes[a].packed = nodes[b].packed;
    llvm::copy(nodes[b].slotsOf, nodes[a].slotsOf);
  }
  if (!nodes[a].operation && nodes[b].operation) {
    nodes[a].operation = nodes[b].operation;
    llvm::copy(nodes[b].operands, nodes[a].operands);
  }
  int less = nodes[b].minusOne;
  if (nodes[a].minusOne < 0)
    nodes[a].minusOne = less;
  else if (less >= 0)
    unify(nodes[a].minusOne, less);
}

unsigned ShapeAnalysis::node(Value value, unsigned dim) {
  auto [it, isNew] = nodeOf.try_emplace({value, dim}, nodes.size());
  if (!isNew)
    return it->second;
  unsigned id = makeNode();
  int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(dim);
  if (!ShapedType::isDynamic(size))
    nodes[id].constant = size;
  return id;
}

unsigned ShapeAnalysis::makeOperation(DimExpr::Operator op, unsigned a, unsigned b) {
  unsigned id = makeNode();
  nodes[id].operation = op;
  nodes[id].operands[0] = a;
  nodes[id].operands[1] = b;
  return id;
}

unsigned ShapeAnalysis::node(Value index) {
  auto [it, isNew] = nodeOf.try_emplace({index, 0}, nodes.size());
  if (!isNew)
    return it->second;
  unsigned id = makeNode();
  Operation *op = index.getDefiningOp();
  APInt number;
  using O = DimExpr::Operator;
  std::optional<O> operation;
  if (matchPattern(index, m_ConstantInt(&number)))
    nodes[id].constant = number.getSExtValue();
  else if (auto dim = dyn_cast_or_null<tensor::DimOp>(op)) {
    // An index that the tensor does not have is no error before it runs.
    auto place = dim.getConstantIndex();
    if (auto type = dyn_cast<RankedTensorType>(dim.getSource().getType());
        type && place && *place >= 0 && *place < type.getRank())
      unify(node(dim.getSource(), *place), id);
  } else if (isa_and_nonnull<arith::AddIOp>(op))
    operation = O::add;
  else if (isa_and_nonnull<arith::MulIOp>(op))
    operation = O::multiply;
  else if (isa_and_nonnull<arith::DivUIOp>(op))
    operation = O::floorDivide;
  else if (isa_and_nonnull<arith::CeilDivUIOp>(op))
    operation = O::ceilDivide;
  else if (isa_and_nonnull<arith::MinSIOp>(op))
    operation = O::minimum;
  else if (isa_and_nonnull<arith::MaxSIOp>(op))
    operation = O::maximum;
  if (operation) {
    unsigned a = node(op->getOperand(0)), b = node(op->getOperand(1));
    unify(makeOperation(*operation, a, b), id);
  }
  return id;
}

DimExpr ShapeAnalysis::expr(unsigned id) const {
  const Node &root = nodes[find(id)];
  if (root.constant)
    return {DimExpr::Kind::constant, *root.constant, {}};
  if (root.saveEvery) {
    DimExpr slots{DimExpr::Kind::slots, root.saveEvery, {}, {}};
    for (unsigned factor : root.slotsOf)
      slots.factors.push_back(expr(factor));
    ArrayRef<DimExpr> f = slots.factors;
    if (llvm::any_of(f, [](const DimExpr &e) { return e.kind != DimExpr::Kind::constant; }))
      return slots;
    return {DimExpr::Kind::constant, f[0].value * f[1].value / root.saveEvery + f[2].value, {}};
  }
  if (root.segments)
    return DimExpr::countSegments(root.segments, expr(root.slotsOf[0]), expr(root.slotsOf[1]),
                                  expr(root.slotsOf[2]), root.packed);
  if (root.operation && root.name.empty())
    return DimExpr::make(*root.operation, expr(root.operands[0]), expr(root.operands[1]));
  if (root.minusOne < 0)
    return {DimExpr::Kind::symbol, 0, root.name};
  const Node &less = nodes[find(root.minusOne)];
  if (less.constant)
    return {DimExpr::Kind::constant, *less.constant + 1, {}};
  return {DimExpr::Kind::symbolPlusOne, 0, less.name};
}

DimExpr ShapeAnalysis::dim(Value value, unsigned dim) const {
  auto it = nodeOf.find({value, dim});
  if (it != nodeOf.end())
    return expr(it->second);
  int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(dim);
  assert(!ShapedType::isDynamic(size) && "a tensor from another function");
  return {DimExpr::Kind::constant, size, {}};
}

void ShapeAnalysis::name(unsigned id, StringRef role) {
  Node &root = nodes[find(id)];
  if (root.constant || !root.name.empty() || root.minusOne >= 0 || root.isDerived())
    return;
  std::string name = role.str();
  for (unsigned n = 2; llvm::is_contained(used, name); ++n)
    name = (role + Twine(n)).str();
  root.name = name;
  used.push_back(name);
}

void ShapeAnalysis::requireDivides(unsigned divisor, unsigned dividend, StringRef what,
                                   StringRef ofWhat) {
  DimExpr a = expr(divisor), b = expr(dividend);
  // Equal sizes, and numbers that the verifier has seen, need no check.
  if (a == b || (a.kind == DimExpr::Kind::constant && b.kind == DimExpr::Kind::constant) ||
      (a.kind == DimExpr::Kind::constant && a.value == 1))
    return;
  for (const Divides &d : divides)
    if (d.divisor == a && d.dividend == b)
      return;
  divides.push_back(
      {a, b, (what + ", " + a.str() + ", must divide " + ofWhat + ", " + b.str()).str()});
}

void ShapeAnalysis::requireOne(unsigned id, StringRef what) {
  DimExpr e = expr(id);
  if (e.kind == DimExpr::Kind::constant)
    return;
  for (const IsOne &one : isOne)
    if (one.dim == e)
      return;
  isOne.push_back({e, what.str()});
}

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
  for (auto states : {ValueRange(scan.getInitialStates()), ValueRange(scan.getFinalStates())})
    for (Value state : states) {
      if (scan.getSegments()) {
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
  if (isa<ReadStatesOp, WriteStatesOp>(op)) {
    auto read = dyn_cast<ReadStatesOp>(op);
    auto write = dyn_cast<WriteStatesOp>(op);
    Value pool = read ? read.getPool() : write.getPool();
    Value index = read ? read.getIndex() : write.getIndex();
    Value states = read ? read.getStates() : write.getStates();
    unify(node(index, 0), node(states, 0));
    for (unsigned dim = 1; dim < 4; ++dim)
      unify(node(pool, dim), node(states, dim));
    if (write)
      unifyAll(pool, write.getResult());
    return;
  }
  if (isa<RepeatHeadsOp, FirstHeadsOp>(op)) {
    Value states = op->getOperand(0), like = op->getOperand(1), result = op->getResult(0);
    auto repeat = dyn_cast<RepeatHeadsOp>(op);
    unsigned heads = repeat ? repeat.getDim() : cast<FirstHeadsOp>(op).getDim();
    for (unsigned dim = 0, e = rankOf(states); dim < e; ++dim)
      unify(dim == 1 ? node(like, heads) : node(states, dim), node(result, dim));
    return;
  }
  if (auto combine = dyn_cast<CombineSegmentsOp>(op)) {
    unifyAll(combine.getTotals(), combine.getStarts());
    if (combine.getInitial())
      unifyAll(combine.getInitial(), combine.getFinalState());
    unify(sequencesNode(node(combine.getLike(), 0), combine.getOffsets()),
          node(combine.getFinalState(), 0));
    for (unsigned dim = 0; dim < 2; ++dim)
      unify(node(combine.getTotals(), dim), node(combine.getTransitions(), dim));
    for (unsigned dim = 1; dim < 4; ++dim)
      unify(node(combine.getTotals(), dim), node(combine.getFinalState(), dim));
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
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
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

/// Takes over what a function says of its own interface: sizes of one symbol
/// are one size, and keep their name.
void ShapeAnalysis::constrainByDescription(func::FuncOp function) {
  auto symbolNode = [&](StringRef symbol) {
    for (const auto &[known, id] : described)
      if (known == symbol)
        return id;
    described.emplace_back(symbol.str(), makeNode());
    return described.back().second;
  };
  auto take = [&](Value value, ArrayAttr shape) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!shape || !type || int64_t(shape.size()) != type.getRank())
      return;
    for (auto [dim, attr] : llvm::enumerate(shape.getAsRange<StringAttr>())) {
      StringRef size = attr.getValue();
      int64_t number;
      if (!size.getAsInteger(10, number)) {
        // The op that says the same may be gone.
        Node &known = nodes[find(node(value, dim))];
        if (!known.constant)
          known.constant = number;
        continue;
      }
      if (size.contains('/'))
        continue; // its op says the same
      if (!size.consume_back("+1")) {
        unify(symbolNode(size), node(value, dim));
        continue;
      }
      unsigned less = symbolNode(size);
      if (int known = nodes[find(node(value, dim))].minusOne; known >= 0)
        unify(known, less);
      else
        nodes[find(node(value, dim))].minusOne = less;
    }
  };
  if (function.isExternal())
    return;
  for (BlockArgument arg : function.getArguments())
    take(arg, function.getArgAttrOfType<ArrayAttr>(arg.getArgNumber(), kShapeAttr));
  auto ret = dyn_cast<func::ReturnOp>(function.getBody().back().getTerminator());
  for (auto [i, value] : llvm::enumerate(ret ? ValueRange(ret.getOperands()) : ValueRange()))
    take(value, function.getResultAttrOfType<ArrayAttr>(i, kShapeAttr));
}

void ShapeAnalysis::breakCycles(func::FuncOp function) {
  enum class State : char { unseen, open, done };
  std::vector<State> states(nodes.size(), State::unseen);
  // The sizes that `id` is computed from.
  auto sources = [&](const Node &root) {
    SmallVector<unsigned> all;
    if (root.saveEvery || root.segments)
      llvm::append_range(all, root.slotsOf);
    if (root.operation)
      llvm::append_range(all, root.operands);
    return all;
  };
  std::vector<unsigned> cyclic;
  auto visit = [&](auto &self, unsigned id) -> void {
    id = find(id);
    if (states[id] == State::open)
      cyclic.push_back(id);
    if (states[id] != State::unseen || nodes[id].constant)
      return;
    states[id] = State::open;
    for (unsigned source : sources(nodes[id]))
      self(self, source);
    states[id] = State::done;
  };
  for (unsigned id = 0; id < nodes.size(); ++id)
    visit(visit, id);
  for (unsigned id : cyclic) {
    nodes[id].saveEvery = 0;
    nodes[id].segments = {};
    nodes[id].operation = std::nullopt;
  }
  if (cyclic.empty())
    return;
  circular = function;
  function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType()))
        for (int64_t dim = 0; dim < type.getRank(); ++dim)
          if (auto it = nodeOf.find({result, dim});
              it != nodeOf.end() && llvm::is_contained(cyclic, find(it->second))) {
            circular = op;
            return WalkResult::interrupt();
          }
    return WalkResult::advance();
  });
}

LogicalResult ShapeAnalysis::verify() const {
  if (contradicts)
    return contradicts->op->emitError() << "needs one size where its tensors have "
                                        << contradicts->one << " and " << contradicts->other;
  if (circular)
    return circular->emitError("a size of its tensors is computed from itself: an op or "
                               "'ejk.shape' says that two tensors have one size, and one of these "
                               "sizes follows from the other");
  return success();
}

ShapeAnalysis::ShapeAnalysis(func::FuncOp function) {
  if (!function.isExternal())
    function.walk([&](Operation *op) {
      current = op;
      constrain(op);
    });
  current = nullptr;
  constrainByDescription(function);
  breakCycles(function);
  // A size known only through cu_seqlens, or only through N, passes both ways.
  for (const auto &[key, id] : nodeOf) {
    Node &root = nodes[find(id)];
    if (root.minusOne >= 0 && root.constant)
      nodes[find(root.minusOne)].constant = *root.constant - 1;
  }
  if (function.isExternal())
    return;
  for (const auto &[symbol, id] : described)
    name(id, symbol);
  // Names go to recurrences first, in the order of the program, whatever comes
  // before them.
  function.walk([&](Operation *op) {
    if (Recurrence::of(op))
      nameRecurrence(op);
    else if (auto scan = dyn_cast<ScanOp>(op))
      nameScan(scan);
    else if (auto program = dyn_cast<tile::ProgramOp>(op))
      nameScan(program);
    else if (auto read = dyn_cast<ReadStatesOp>(op))
      name(node(read.getPool(), 0), "P");
    else if (auto write = dyn_cast<WriteStatesOp>(op))
      name(node(write.getPool(), 0), "P");
  });
  unsigned next = 0;
  auto nameRest = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    for (int64_t dim = 0; type && dim < type.getRank(); ++dim) {
      Node &root = nodes[find(node(value, dim))];
      if (root.constant || !root.name.empty() || root.minusOne >= 0 || root.isDerived())
        continue;
      root.name = "d" + std::to_string(next++);
      used.push_back(root.name);
    }
  };
  for (Block &block : function.getBody())
    for (Value argument : block.getArguments())
      nameRest(argument);
  function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      nameRest(result);
  });
}
