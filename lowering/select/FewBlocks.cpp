//===- FewBlocks.cpp - functions for launches of few thread blocks --------===//
#include "lowering/select/FewBlocks.h"
#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ejk;

Attribute ejk::countBlocks(Builder &b, const ShapeAnalysis &shapes, tile::ProgramOp program) {
  using O = DimExpr::Operator;
  Value first = program.getSequences().front(), cu = program.getCuSeqlens();
  DimExpr sequences = cu ? sequencesOf(shapes.dim(cu, 0)) : shapes.dim(first, 0);
  DimExpr heads = DimExpr::make(O::multiply, shapes.dim(first, 2), DimExpr::number(program.getSlices()));
  return sizeAttribute(b, DimExpr::make(O::multiply, sequences, heads));
}

func::FuncOp ejk::cloneForFewBlocks(func::FuncOp function) {
  StringRef schedule = scheduleOf(function);
  // Segments are many.
  if (function.isPrivate() || (!schedule.empty() && schedule != kChunkSchedule))
    return {};
  Builder b(function.getContext());
  ShapeAnalysis shapes(function);
  llvm::SmallSetVector<Attribute, 2> all;
  for (auto program : function.getBody().getOps<tile::ProgramOp>()) {
    Attribute blocks = countBlocks(b, shapes, program);
    if (!blocks || (program.getSegments() && !program.getSegments()->isWhole()))
      return {};
    all.insert(condition(b, ">=", b.getStringAttr("device.multiprocessors"), blocks));
  }
  auto when = function->getAttrOfType<ArrayAttr>(kWhenAttr);
  for (Attribute areFew : all)
    when = both(b, when, cast<ArrayAttr>(areFew));
  func::FuncOp clone = cloneAlternative(function, "few_blocks", kChunkSchedule, /*before=*/true);
  clone->setAttr(kWhenAttr, when);
  function->setAttr(kScheduleAttr, b.getStringAttr(kChunkSchedule));
  return clone;
}
