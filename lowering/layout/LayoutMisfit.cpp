//===- LayoutMisfit.cpp - whether a tile can have a layout ----------------===//
#include "lowering/layout/LayoutMisfit.h"
#include "lowering/layout/TileLayout.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

std::string ejk::misfitOf(VectorType type, LayoutAttr layout, int64_t warps) {
  Type element = type.getElementType();
  bool isFloat = isa<Float32Type, Float16Type, BFloat16Type>(element);
  if (type.isScalable() || type.getRank() < 1 || type.getRank() > 2 ||
      !(isFloat || element.isSignlessInteger()))
    return "a tile is a vector of rank 1 or 2 of f32, f16 or bf16";
  if (layout.getKind() == LayoutKind::uniform)
    return "";
  if (type.getNumElements() > kMostTileElements)
    return "it has more elements than a block's registers";
  bool isMatrix = type.getRank() == 2;
  if (isMatrix && (type.getDimSize(0) % 16 || type.getDimSize(1) % 16))
    return "matrices have sizes that are multiples of 16";
  int64_t rowParts = layout.getRowParts(), columnParts = layout.getColumnParts();
  bool hasParts = rowParts > 0 && columnParts > 0 && rowParts <= warps && columnParts <= warps &&
                  rowParts * columnParts <= warps;
  switch (layout.getKind()) {
  case LayoutKind::lanes:
    return isMatrix ? "only vectors lie over lanes" : "";
  case LayoutKind::rows:
    return !isMatrix && hasParts && columnParts == 1 && type.getDimSize(0) % (16 * rowParts) == 0
               ? ""
               : "it takes vectors of 16 elements for each of the parts";
  case LayoutKind::fragments:
  case LayoutKind::transposed_fragments: {
    if (!isMatrix || !hasParts)
      return "it takes a matrix, and as many parts as there are warps at most";
    bool isFlipped = isTransposed(layout);
    return type.getDimSize(isFlipped) % (16 * rowParts) ||
                   type.getDimSize(!isFlipped) % (16 * columnParts)
               ? "parts are of whole 16x16 blocks"
               : "";
  }
  case LayoutKind::shared:
    return isFloat ? "" : "shared memory holds f32, f16 or bf16";
  case LayoutKind::swizzled_words:
    return fitsSwizzledWords(type) ? "" : "it takes a matrix of f32 in blocks of 8 by 32";
  case LayoutKind::swizzled:
  case LayoutKind::transposed_swizzled:
    return isFloat && (fitsSwizzled(type, isTransposed(layout)) ||
                       fitsSwizzledTf32(type, isTransposed(layout)))
               ? ""
               : "a swizzled tile is a matrix of floats in blocks of 128 bytes";
  case LayoutKind::uniform:
    break;
  }
  return "";
}
