//===- SplitPays.cpp - when segments side by side are faster --------------===//
//
// A thread block scans one sequence and head, or one segment of it; of wide states, a slice.
// Unsplit, the longest sequence takes as long as its segments, one after the other. Split, the
// multiprocessors take as many rounds as the segments of all sequences and heads fill, some passes
// each.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "lowering/target/CostModel.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;

/// How many thread blocks have a part each of one head's largest state.
static int64_t slicesOf(ScanOp scan) {
  int64_t elements = 0;
  for (Value state : scan.getFinalStates())
    elements =
        std::max(elements, ShapedType::getNumElements(
                               cast<RankedTensorType>(state.getType()).getShape().drop_front(2)));
  return llvm::divideCeil(elements, cost::kStateElementsPerBlock);
}

/// Whether segments of `scan` start from saved states.
static bool restartsFromSaves(ScanOp scan) {
  return llvm::any_of(scan.getInitialStates(),
                      [](Value state) { return state.getDefiningOp<SegmentStartsOp>(); });
}

/// The condition for one scan. Of packed sequences the mean length is known on the host, and the
/// longest one has no fewer rows.
static ArrayAttr scanPays(Builder &b, const ShapeAnalysis &shapes, ScanOp scan, int64_t passesOf,
                          bool inOneRound, bool besideHalves) {
  using O = DimExpr::Operator;
  SegmentsAttr segments = *scan.getSegments();
  bool inHalves = segments.getExact(), restarts = restartsFromSaves(scan);
  bool isDerivative = scan->getParentOp()->hasAttr(kDerivativeOfAttr);
  // Halves beside one segment that does not restart would be as long as the whole.
  int64_t fewestRows = restarts ? (besideHalves ? 1 : cost::kRowsToRestart) + cost::kRowsToRestart
                       : !inHalves    ? cost::kFewestRowsToSplit
                       : isDerivative ? cost::kFewestRowsForHalvesOfDerivative
                                      : cost::kFewestRowsForHalves;
  Value first = scan.getSequences().front(), cu = scan.getCuSeqlens();
  DimExpr batch = shapes.dim(first, 0), rows = shapes.dim(first, 1), heads = shapes.dim(first, 2);
  DimExpr most = DimExpr::number(segments.getMost()), longest, all;
  if (rows.kind == DimExpr::Kind::constant && rows.value < fewestRows)
    return {};
  if (cu) {
    DimExpr sequences = sequencesOf(shapes.dim(cu, 0));
    all = DimExpr::countSegments(segments, batch, rows, sequences, /*packed=*/true);
    longest = DimExpr::make(
        O::floorDivide, rows,
        DimExpr::make(O::multiply, DimExpr::make(O::maximum, sequences, DimExpr::number(1)), most));
  } else {
    // SegmentsAttr::countOf for so many rows, in a formula that reads well.
    longest = segments.getExact() ? DimExpr::number(segments.getCount())
                                  : DimExpr::make(O::maximum, DimExpr::number(segments.getCount()),
                                                  DimExpr::make(O::ceilDivide, rows, most));
    all = DimExpr::make(O::multiply, batch, longest);
  }
  all = DimExpr::make(O::multiply, all, DimExpr::number(slicesOf(scan)));
  Attribute blocks = sizeAttribute(b, DimExpr::make(O::multiply, all, heads));
  Attribute inTurn = sizeAttribute(b, longest), length = sizeAttribute(b, rows);
  if (!blocks || !inTurn || !length)
    return {};
  StringAttr multiprocessors = b.getStringAttr("device.multiprocessors");
  ArrayAttr enoughRows = condition(b, ">=", length, b.getI64IntegerAttr(fewestRows));
  if (inOneRound || inHalves)
    enoughRows = both(b, enoughRows, condition(b, ">=", multiprocessors, blocks));
  if (restarts)
    return both(b, enoughRows, condition(b, ">=", inTurn, b.getI64IntegerAttr(2)));
  if (inHalves)
    return enoughRows;
  ArrayAttr rounds = condition(b, "ceildiv", blocks, multiprocessors);
  ArrayAttr passes = condition(b, "*", b.getI64IntegerAttr(passesOf), rounds);
  return both(b, enoughRows, condition(b, "<", passes, inTurn));
}

ArrayAttr ejk::splitPays(func::FuncOp function, bool inOneRound) {
  Builder b(function.getContext());
  ShapeAnalysis shapes(function);
  llvm::SetVector<Attribute> conditions;
  bool corrects = !function.getBody().getOps<CombineSegmentsOp>().empty();
  int64_t passes = corrects ? cost::kCorrectedSegmentPasses : cost::kSegmentPasses;
  auto scans = function.getBody().getOps<ScanOp>();
  bool inHalves = llvm::any_of(
      scans, [](ScanOp scan) { return scan.getSegments() && scan.getSegments()->getExact(); });
  for (ScanOp scan : scans) {
    // One for each sequence are no split.
    if (!scan.getSegments() || scan.getSegments()->isOneEach())
      continue;
    ArrayAttr own = scanPays(b, shapes, scan, passes, inOneRound, inHalves);
    if (!own)
      return {};
    conditions.insert(own);
  }
  ArrayAttr all;
  for (Attribute own : conditions)
    all = both(b, all, cast<ArrayAttr>(own));
  return all;
}
