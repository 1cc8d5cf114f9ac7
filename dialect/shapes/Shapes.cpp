//===- Shapes.cpp - symbolic sizes of a function's tensors ----------------===//
#include "dialect/shapes/Shapes.h"
#include "dialect/ejk/EjkShifts.h"
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
  if (segments.isWhole())
    return make(O::add, rows, number(1));
  DimExpr least = number(segments.getLeast()), most = number(segments.getMost());
  if (least == most)
    return most;
  DimExpr unit = number(segments.getLeast() * segments.getCount());
  DimExpr wanted = make(O::multiply, make(O::ceilDivide, rows, unit), least);
  DimExpr given = make(O::maximum, wanted, least);
  return segments.getExact() ? given : make(O::minimum, given, most);
}

DimExpr DimExpr::segmentsOfEach(SegmentsAttr segments, DimExpr rows) {
  using O = Operator;
  if (segments.isOneEach())
    return number(1);
  if (segments.getExact())
    return number(segments.getCount());
  return make(O::maximum, make(O::ceilDivide, rows, rowsOfSegments(segments, rows)), number(1));
}

DimExpr DimExpr::countSegments(SegmentsAttr segments, DimExpr batch, DimExpr rows,
                               DimExpr sequences, bool packed) {
  using O = Operator;
  if (segments.isOneEach())
    return packed ? sequences : batch;
  if (segments.getExact())
    return make(O::multiply, batch, number(segments.getCount()));
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
  auto requireOneWithOffsets = [&](Value rows, Value cuSeqlens) {
    if (cuSeqlens)
      requireOne(node(rows, 0), "B must be 1 with 'cu_seqlens'");
  };
  // Names go to recurrences first, in the order of the program, whatever comes
  // before them.
  function.walk([&](Operation *op) {
    if (Recurrence::of(op))
      nameRecurrence(op);
    else if (auto scan = dyn_cast<ScanOp>(op))
      nameScan(scan);
    else if (auto program = dyn_cast<tile::ProgramOp>(op))
      nameScan(program);
    else if (auto shift = dyn_cast<ShiftOp>(op))
      requireOneWithOffsets(shift.getRows(), shift.getCuSeqlens());
    else if (auto last = dyn_cast<LastRowsOp>(op))
      requireOneWithOffsets(last.getRows(), last.getCuSeqlens());
    else if (auto read = dyn_cast<ReadStatesOp>(op))
      namePool(read.getPool(), read.getIndex());
    else if (auto write = dyn_cast<WriteStatesOp>(op))
      namePool(write.getPool(), write.getIndex());
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
