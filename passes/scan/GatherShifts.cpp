//===- GatherShifts.cpp - sums of shifted products as one scan ------------===//
#include "dialect/ejk/EjkShifts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"
#include "passes/scan/ScanBuilder.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentTransitions.h"
#include "passes/scan/TensorSums.h"

namespace ejk {
#define GEN_PASS_DEF_GATHERSHIFTS
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// A term of a sum of tensors: an output of a scan, shifted or not, whose row is x ⊙ w.
struct Term {
  OpResult output;
  ShiftOp shift; // null where it is not shifted
  Value row, by; // of the step: what all terms have, and what is constant in time
};

/// The sum that `root` ends, in the order in which it is added.
class ShiftedSum {
public:
  static std::optional<ShiftedSum> find(arith::AddFOp root);
  /// Puts a scan in its place.
  void gather();

private:
  bool addTerms(Value value, bool isRoot);
  bool addTerm(Value value);

  arith::AddFOp root;
  ScanOp scan;
  SmallVector<Term> terms;
};
} // namespace

static Value withoutCasts(Value value) {
  while (auto cast = value.getDefiningOp<tensor::CastOp>()) {
    if (!value.hasOneUse())
      break;
    value = cast.getSource();
  }
  return value;
}

bool ShiftedSum::addTerm(Value value) {
  Term term;
  if (auto shift = value.getDefiningOp<ShiftOp>()) {
    if (shift.getHalo() || shift.getZeros() || !value.hasOneUse())
      return false;
    term.shift = shift;
    value = withoutCasts(shift.getRows());
  }
  auto maker = value.getDefiningOp<ScanOp>();
  if (!maker || !value.hasOneUse() || !llvm::is_contained(maker.getOutputs(), value) ||
      (scan && maker != scan) || maker.getSegments() || !maker.getQueries().empty())
    return false;
  scan = maker;
  term.output = cast<OpResult>(value);
  auto product =
      maker.getYield().getOutputs()[term.output.getResultNumber()].getDefiningOp<arith::MulFOp>();
  if (!product || !getElementTypeOrSelf(product.getType()).isF32())
    return false;
  bool isSecond = isConstantInTime(maker, product.getRhs());
  if (!isSecond && !isConstantInTime(maker, product.getLhs()))
    return false;
  term.row = isSecond ? product.getLhs() : product.getRhs();
  term.by = isSecond ? product.getRhs() : product.getLhs();
  if (!terms.empty() && terms.front().row != term.row)
    return false;
  terms.push_back(term);
  return true;
}

bool ShiftedSum::addTerms(Value value, bool isRoot) {
  value = isRoot ? value : withoutCasts(value);
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (add && (isRoot || value.hasOneUse()))
    return addTerms(add.getLhs(), false) && addTerms(add.getRhs(), false);
  return addTerm(value);
}

std::optional<ShiftedSum> ShiftedSum::find(arith::AddFOp root) {
  auto type = dyn_cast<RankedTensorType>(root.getType());
  if (!type || type.getRank() != 4 || !type.getElementType().isF32())
    return std::nullopt;
  ShiftedSum sum;
  sum.root = root;
  auto isShifted = [](const Term &term) { return bool(term.shift); };
  if (!sum.addTerms(root.getResult(), true) || llvm::none_of(sum.terms, isShifted))
    return std::nullopt;
  Value offsets = sum.scan.getCuSeqlens();
  for (Term &term : sum.terms)
    if (term.shift && term.shift.getCuSeqlens() != offsets)
      return std::nullopt;
  return sum;
}

/// `scan` with one more output, of the step's value `row`, in its place; its outputs that are there
/// come first.
static ScanOp withOutput(ScanOp scan, Value row, Type type) {
  SmallVector<Value> initials;
  for (unsigned i = 0; i < scan.getNumStates(); ++i)
    initials.push_back(scan.getInitialState(i));
  SmallVector<Type> types(scan.getOutputs().getTypes());
  types.push_back(type);
  scan.getYield().getOutputsMutable().append(row);
  OpBuilder b(scan);
  auto made = ScanOp::create(
      b, scan.getLoc(), types, scan.getFinalStates().getTypes(), scan.getSequences(),
      scan.getParameters(), SmallVector<Type>(scan.getParameterArgs().getTypes()), initials,
      scan.getCuSeqlens(), scan.getReverse(), scan.getSaveEvery().value_or(0),
      scan.getSavedStates(), scan.getSaves().getTypes());
  made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  made.getBody().takeBody(scan.getBody());
  for (auto [from, to] : llvm::zip_first(scan.getOutputs(), made.getOutputs()))
    from.replaceAllUsesWith(to);
  for (auto [from, to] : llvm::zip(scan.getFinalStates(), made.getFinalStates()))
    from.replaceAllUsesWith(to);
  for (auto [from, to] : llvm::zip(scan.getSaves(), made.getSaves()))
    from.replaceAllUsesWith(to);
  scan.erase();
  return made;
}

void ShiftedSum::gather() {
  auto type = cast<RankedTensorType>(terms.front().output.getType());
  scan = withOutput(scan, terms.front().row, type);
  Value rows = scan.getOutputs().back();
  OpBuilder outer(root);
  Location loc = root.getLoc();
  ScanBuilder made(outer, scan, /*turned=*/bool(scan.getReverse()), rows);
  SmallVector<Value> products;
  for (Term &term : terms) {
    Value from = rows;
    if (ShiftOp shift = term.shift)
      from = ShiftOp::create(outer, loc, type, rows, shift.getBy(), Value(), shift.getCuSeqlens(),
                             /*zeros=*/false);
    // What is constant in time is computed again.
    IRMapping map;
    llvm::SetVector<Value> needed = computedFrom(term.by);
    for (auto [arg, tensor] : llvm::zip(scan.getParameterArgs(), scan.getParameters()))
      if (needed.contains(arg))
        map.map(arg, made.addParameter(tensor, arg.getType()));
    for (Operation &op : scan.getStep().without_terminator())
      if (needed.contains(op.getResult(0)))
        made.b.clone(op, map);
    products.push_back(
        arith::MulFOp::create(made.b, loc, made.addSequence(from), map.lookup(term.by)));
  }
  Value sum = products.front();
  for (Value product : ArrayRef(products).drop_front())
    sum = arith::AddFOp::create(made.b, loc, sum, product);
  // Rounded here, where nothing else is made of the sum.
  Operation *target = root;
  if (root->hasOneUse())
    if (auto round = dyn_cast<arith::TruncFOp>(*root->user_begin())) {
      auto narrow = cast<VectorType>(sum.getType()).clone(getElementTypeOrSelf(round.getType()));
      sum = arith::TruncFOp::create(made.b, loc, narrow, sum);
      target = round;
    }
  unsigned output = made.addOutput(sum);
  made.finish();
  target->getResult(0).replaceAllUsesWith(
      castLike(outer, loc, made.output(output), target->getResult(0)));
}

namespace {
struct GatherShiftsPass : ejk::impl::GatherShiftsBase<GatherShiftsPass> {
  void runOnOperation() override {
    // The last add of a sum comes first.
    SmallVector<arith::AddFOp> adds;
    getOperation()->walk([&](arith::AddFOp add) {
      if (isa<RankedTensorType>(add.getType()))
        adds.push_back(add);
    });
    for (arith::AddFOp add : llvm::reverse(adds)) {
      if (add->use_empty())
        continue;
      if (std::optional<ShiftedSum> sum = ShiftedSum::find(add)) {
        sum->gather();
        ++numGathered;
      }
    }
  }
};
} // namespace
