//===- SegmentViews.cpp - states of segments as rows of sequences ---------===//
#include "passes/scan/SegmentViews.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "passes/scan/TensorSums.h"

using namespace mlir;
using namespace ejk;

static RankedTensorType typeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()); }

static OpFoldResult sizeOfDim(OpBuilder &b, Location loc, Value x, unsigned dim) {
  int64_t size = cast<RankedTensorType>(x.getType()).getDimSize(dim);
  if (!ShapedType::isDynamic(size))
    return b.getIndexAttr(size);
  return tensor::DimOp::create(b, loc, x, dim).getResult();
}

/// ⌈T/L⌉.
static OpFoldResult countOfEach(OpBuilder &b, Location loc, Value first, SegmentsAttr segments) {
  if (segments.getExact())
    return b.getIndexAttr(segments.getCount());
  int64_t known = cast<RankedTensorType>(first.getType()).getDimSize(1);
  if (!ShapedType::isDynamic(known))
    return b.getIndexAttr(llvm::divideCeil(known, segments.rowsOf(known)));
  Value rows = tensor::DimOp::create(b, loc, first, 1);
  auto index = [&](int64_t i) -> Value { return arith::ConstantIndexOp::create(b, loc, i); };
  Value least = index(segments.getLeast()), each = least;
  if (segments.getLeast() != segments.getMost()) {
    Value unit = index(segments.getLeast() * segments.getCount());
    each = arith::MulIOp::create(b, loc, arith::CeilDivUIOp::create(b, loc, rows, unit), least);
    each = arith::MaxSIOp::create(b, loc, each, least);
    each = arith::MinSIOp::create(b, loc, each, index(segments.getMost()));
  }
  return arith::CeilDivUIOp::create(b, loc, rows, each).getResult();
}

Value ejk::emptyOfSegments(OpBuilder &b, Location loc, Value first, Value cu, SegmentsAttr segments,
                           ArrayRef<int64_t> channels) {
  SmallVector<int64_t> shape = {ScanOp::countStates(first, cu, segments),
                                cast<RankedTensorType>(first.getType()).getDimSize(2)};
  shape.append(channels.begin(), channels.end());
  auto type = RankedTensorType::get(shape, b.getF32Type());
  auto value = [&](OpFoldResult size) { return getValueOrCreateConstantIndexOp(b, loc, size); };
  SmallVector<Value> sizes;
  if (type.isDynamicDim(0)) {
    bool isWhole = !segments || segments.isOneEach();
    Value count = value(sizeOfDim(b, loc, cu ? cu : first, 0));
    if (cu)
      count = arith::SubIOp::create(b, loc, count, arith::ConstantIndexOp::create(b, loc, 1));
    if (!isWhole && cu) {
      Value each = arith::ConstantIndexOp::create(b, loc, segments.getMost());
      Value rows = arith::DivUIOp::create(b, loc, value(sizeOfDim(b, loc, first, 1)), each);
      count = arith::AddIOp::create(b, loc, rows, count);
    } else if (!isWhole && !segments.getOnly()) {
      count = arith::MulIOp::create(b, loc, count, value(countOfEach(b, loc, first, segments)));
    }
    sizes.push_back(count);
  }
  if (type.isDynamicDim(1))
    sizes.push_back(value(sizeOfDim(b, loc, first, 2)));
  return tensor::EmptyOp::create(b, loc, type, sizes);
}

OpFoldResult SegmentViews::sizeOf(Value x, unsigned dim) { return sizeOfDim(b, loc, x, dim); }

OpFoldResult SegmentViews::segmentsOfEach() {
  return countOfEach(b, loc, scan.getSequences().front(), segments);
}

Value SegmentViews::castTo(Value x, RankedTensorType type) {
  return typeOf(x) == type ? x : tensor::CastOp::create(b, loc, type, x).getResult();
}

Value SegmentViews::expand(Value x, ArrayRef<ReassociationIndices> groups,
                           ArrayRef<OpFoldResult> sizes) {
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamic;
  dispatchIndexOpFoldResults(sizes, dynamic, shape);
  auto type = RankedTensorType::get(shape, typeOf(x).getElementType());
  // A dimension of the source is as static as those that it becomes.
  RankedTensorType source = tensor::CollapseShapeOp::inferCollapsedType(type, groups);
  return tensor::ExpandShapeOp::create(b, loc, type, castTo(x, source), groups, sizes);
}

/// Groups of one dimension each, but that of `first`, which has the next one too.
static SmallVector<ReassociationIndices> joined(unsigned rank, unsigned first) {
  SmallVector<ReassociationIndices> groups;
  for (unsigned dim = 0; dim < rank; ++dim) {
    if (dim == first + 1)
      groups.back().push_back(dim);
    else
      groups.push_back({int64_t(dim)});
  }
  return groups;
}

RankedTensorType SegmentViews::mergedKeysType(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  int64_t keys = shape[2];
  shape.erase(shape.begin() + 2);
  if (!ShapedType::isDynamic(shape[1]))
    shape[1] *= keys;
  return RankedTensorType::get(shape, type.getElementType());
}

Value SegmentViews::mergeKeys(Value states) {
  RankedTensorType type = typeOf(states);
  return tensor::CollapseShapeOp::create(b, loc, mergedKeysType(type), states,
                                         joined(type.getRank(), 1));
}

Value SegmentViews::separateKeys(Value states, RankedTensorType type) {
  SmallVector<OpFoldResult> sizes = {sizeOf(states, 0), sizeOf(scan.getSequences().front(), 2)};
  if (!type.isDynamicDim(1))
    sizes[1] = b.getIndexAttr(type.getDimSize(1));
  for (int64_t size : type.getShape().drop_front(2))
    sizes.push_back(b.getIndexAttr(size));
  return castTo(expand(states, joined(type.getRank(), 1), sizes), type);
}

RankedTensorType SegmentViews::perSegment(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  shape.front() =
      ScanOp::countStates(scan.getSequences().front(), scan.getCuSeqlens(), segments);
  return RankedTensorType::get(shape, type.getElementType());
}

Value SegmentViews::bySegment(Value states, bool merge) {
  if (merge)
    states = mergeKeys(states);
  RankedTensorType type = typeOf(states);
  SmallVector<OpFoldResult> sizes;
  if (scan.getCuSeqlens())
    sizes = {b.getIndexAttr(1), sizeOf(states, 0)};
  else
    sizes = {sizeOf(scan.getSequences().front(), 0), segmentsOfEach()};
  for (int64_t dim = 1; dim < type.getRank(); ++dim)
    sizes.push_back(sizeOf(states, dim));
  return expand(states, joined(type.getRank() + 1, 0), sizes);
}

Value SegmentViews::fromSegments(Value rows, RankedTensorType type) {
  Value states = tensor::CollapseShapeOp::create(b, loc, rows, joined(typeOf(rows).getRank(), 0));
  return type.getRank() == 4 ? separateKeys(states, type) : castTo(states, type);
}

SmallVector<OpFoldResult> SegmentViews::sizesOfStates(RankedTensorType type) {
  Value first = scan.getSequences().front();
  SmallVector<OpFoldResult> sizes = {sizeOf(first, 0), sizeOf(first, 2)};
  for (int64_t channels : type.getShape().drop_front(2))
    sizes.push_back(b.getIndexAttr(channels));
  return sizes;
}

Value SegmentViews::startsOfHalves(Value initial, Value end, RankedTensorType type, int64_t first) {
  SmallVector<OpFoldResult> sizes = sizesOfStates(type);
  sizes.insert(sizes.begin() + 1, b.getIndexAttr(2));
  Value empty = tensor::EmptyOp::create(b, loc, sizes, type.getElementType());
  AffineMap all = b.getMultiDimIdentityMap(sizes.size());
  SmallVector<AffineMap> maps(initial ? 2 : 1, all.dropResult(1));
  maps.push_back(all);
  SmallVector<utils::IteratorType> loops(sizes.size(), utils::IteratorType::parallel);
  SmallVector<Value> inputs = {end};
  if (initial)
    inputs.push_back(initial);
  auto made = linalg::GenericOp::create(
      b, loc, empty.getType(), inputs, empty, maps, loops,
      [&](OpBuilder &nested, Location l, ValueRange args) {
        Value half = linalg::IndexOp::create(nested, l, 1);
        Value isFirst = arith::CmpIOp::create(nested, l, arith::CmpIPredicate::eq, half,
                                              arith::ConstantIndexOp::create(nested, l, first));
        Value start = initial ? args[1]
                              : Value(arith::ConstantOp::create(
                                    nested, l, nested.getZeroAttr(type.getElementType())));
        linalg::YieldOp::create(
            nested, l, arith::SelectOp::create(nested, l, isFirst, start, args[0]).getResult());
      });
  Value starts =
      tensor::CollapseShapeOp::create(b, loc, made.getResult(0), joined(sizes.size(), 0));
  return castTo(starts, perSegment(type));
}

Value SegmentViews::endsOfHalves(Value ends, RankedTensorType type, int64_t last) {
  SmallVector<OpFoldResult> sizes = sizesOfStates(type);
  Value empty = tensor::EmptyOp::create(b, loc, sizes, type.getElementType());
  unsigned rank = sizes.size();
  sizes.insert(sizes.begin() + 1, b.getIndexAttr(2));
  Value halves = expand(ends, joined(rank + 1, 0), sizes);
  SmallVector<AffineExpr> place;
  for (unsigned dim = 0; dim < rank; ++dim)
    place.push_back(b.getAffineDimExpr(dim));
  place.insert(place.begin() + 1, b.getAffineConstantExpr(last));
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  auto made =
      linalg::GenericOp::create(b, loc, empty.getType(), halves, empty,
                                ArrayRef<AffineMap>{AffineMap::get(rank, 0, place, b.getContext()),
                                                    b.getMultiDimIdentityMap(rank)},
                                loops, [](OpBuilder &nested, Location l, ValueRange args) {
                                  linalg::YieldOp::create(nested, l, args[0]);
                                });
  return castTo(made.getResult(0), type);
}

Value SegmentViews::offsets() {
  Value cu = scan.getCuSeqlens();
  if (!cu || madeOffsets)
    return madeOffsets;
  RankedTensorType type = typeOf(cu);
  AffineMap map = b.getMultiDimIdentityMap(1);
  SmallVector<Value> dynamic;
  if (type.isDynamicDim(0))
    dynamic.push_back(tensor::DimOp::create(b, loc, cu, 0));
  Value empty = tensor::EmptyOp::create(b, loc, type, dynamic);
  Type element = type.getElementType();
  auto made = linalg::GenericOp::create(
      b, loc, type, cu, empty, ArrayRef<AffineMap>{map, map}, utils::IteratorType::parallel,
      [&](OpBuilder &nested, Location l, ValueRange args) {
        Value rows =
            arith::ConstantOp::create(nested, l, b.getIntegerAttr(element, segments.getMost()));
        Value before = arith::DivSIOp::create(nested, l, args[0], rows);
        Value number =
            arith::IndexCastOp::create(nested, l, element, linalg::IndexOp::create(nested, l, 0));
        linalg::YieldOp::create(nested, l,
                                arith::AddIOp::create(nested, l, before, number).getResult());
      });
  return madeOffsets = made.getResult(0);
}

Value SegmentViews::emptyOfSegments(ArrayRef<int64_t> channels) {
  return ejk::emptyOfSegments(b, loc, scan.getSequences().front(), scan.getCuSeqlens(), segments,
                              channels);
}

Value SegmentViews::zeros(ArrayRef<int64_t> channels) {
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  return linalg::FillOp::create(b, loc, zero, emptyOfSegments(channels)).getResult(0);
}

ScanOp SegmentViews::scanSegments(ValueRange sequences, Type output, Type type, Value initial) {
  return ScanOp::create(b, loc, output ? TypeRange(output) : TypeRange(), type, sequences,
                        ValueRange(), TypeRange(), initial, offsets(), bool(scan.getReverse()));
}

ScanOp SegmentViews::divideScan(ArrayRef<Value> starts) {
  SmallVector<Type> types, parameterTypes(scan.getParameterArgs().getTypes());
  for (Type type : scan.getFinalStates().getTypes())
    types.push_back(segments.isWhole() ? type : perSegment(cast<RankedTensorType>(type)));
  auto made = ScanOp::create(b, loc, scan.getOutputs().getTypes(), types, scan.getSequences(),
                             scan.getParameters(), parameterTypes, starts, scan.getCuSeqlens(),
                             scan.getReverse(), scan.getSaveEvery().value_or(0),
                             scan.getSavedStates(), scan.getSaves().getTypes(), segments);
  made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  made.getBody().takeBody(scan.getBody());
  return made;
}

Value SegmentViews::addUp(Value sums, Value initial, RankedTensorType type) {
  ScanOp added = scanSegments(bySegment(sums, false), {}, type, initial);
  OpBuilder step = OpBuilder::atBlockEnd(&added.getStep());
  Value next = arith::AddFOp::create(step, loc, added.getStateArgs().front(),
                                     added.getSequenceArgs().front());
  YieldOp::create(step, loc, next, ValueRange());
  return added.getFinalStates().front();
}

void SegmentViews::addUpNumbers(Value sums, Value final) {
  Value total;
  for (Operation *user : llvm::make_early_inc_range(final.getUsers())) {
    auto generic = dyn_cast<linalg::GenericOp>(user);
    if (!generic || !isSumOver(generic, 2))
      continue;
    auto type = cast<RankedTensorType>(generic.getResult(0).getType());
    if (!total)
      total = addUp(sumOver(b, loc, sums, 2), Value(), type);
    generic.getResult(0).replaceAllUsesWith(castLike(b, loc, total, generic.getResult(0)));
    generic.erase();
  }
  if (!total)
    return;
  // The sizes of `final` that both have, so that nothing is left of it.
  for (Operation *user : llvm::make_early_inc_range(final.getUsers()))
    if (auto dim = dyn_cast<tensor::DimOp>(user))
      if (std::optional<int64_t> number = dim.getConstantIndex(); number && *number < 2)
        dim.getSourceMutable().assign(total);
}
