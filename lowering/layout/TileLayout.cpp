//===- TileLayout.cpp - the layouts that tiles are computed in -------------===//
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Divides a matrix over warps. Parts should be square: a matmul reads (rows + columns) · K
/// elements for each. Of two equal choices, the one with fewer parts along rows. Every part has
/// whole 16×16 blocks, so a small matrix uses fewer warps, and the other warps repeat their work.
static std::pair<int64_t, int64_t> divide(int64_t rows, int64_t columns, unsigned warps) {
  std::pair<int64_t, int64_t> best = {1, 1};
  auto cost = [&](std::pair<int64_t, int64_t> parts) {
    return std::make_pair(-parts.first * parts.second, rows / parts.first + columns / parts.second);
  };
  for (int64_t r = 1; r <= warps; ++r)
    for (int64_t c = 1; r * c <= warps; ++c)
      if (rows % (16 * r) == 0 && columns % (16 * c) == 0 && cost({r, c}) < cost(best))
        best = {r, c};
  return best;
}

LayoutAttr ejk::computedLayout(Type type, unsigned warps) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return {};
  MLIRContext *context = type.getContext();
  if (vector.getRank() == 1)
    return LayoutAttr::get(context, LayoutKind::lanes, 0, 0);
  auto [rows, columns] = divide(vector.getDimSize(0), vector.getDimSize(1), warps);
  return LayoutAttr::get(context, LayoutKind::fragments, rows, columns);
}

LayoutAttr ejk::warpgroupLayout(Type type, unsigned warps, bool transposed) {
  auto vector = cast<VectorType>(type);
  int64_t rows = vector.getDimSize(transposed), columns = vector.getDimSize(!transposed);
  std::pair<int64_t, int64_t> parts = {1, 1};
  if (rows % (16 * kWarpgroup) == 0) {
    parts.first = kWarpgroup;
    while (parts.first * 2 <= warps && rows % (32 * parts.first) == 0)
      parts.first *= 2;
    while (parts.first * parts.second * 2 <= warps && columns % (32 * parts.second) == 0)
      parts.second *= 2;
  } else {
    parts = divide(rows, columns, warps);
  }
  LayoutKind kind = transposed ? LayoutKind::transposed_fragments : LayoutKind::fragments;
  return LayoutAttr::get(type.getContext(), kind, parts.first, parts.second);
}

LogicalResult ejk::checkMatmulTypes(DotOp dot) {
  Type element = dot.getLhs().getType().getElementType();
  if (element.isBF16() || element.isF16() || dot.getAlgorithm())
    return success();
  return dot.emitError() << "multiplies tiles of " << element
                         << "; tensor cores take bf16 or f16, or f32 in bf16 terms ('in bf16x6')";
}

bool ejk::hasF32Matmuls(ProgramOp program) {
  return program
      .walk([](DotOp dot) {
        bool inTerms = dot.getAlgorithm() && !dot.isInTf32();
        return inTerms ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

bool ejk::isTileArithmetic(Operation *op) {
  bool isKnown = isa<RoundToTf32Op>(op) ||
                 isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect());
  return isKnown && op->getNumRegions() == 0 && op->getNumResults() == 1;
}

bool ejk::isTf32Operand(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto dot = dyn_cast<DotOp>(user);
    return dot && dot.isInTf32() && dot.getAcc() != value;
  });
}

int64_t ejk::largestMatrix(ProgramOp program) {
  int64_t most = 0;
  program.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto vector = dyn_cast<VectorType>(type))
        most = std::max(most, vector.getNumElements());
  });
  return most;
}

bool ejk::usesWarpMatmuls(Block &block) {
  auto dots = block.getOps<DotOp>();
  int64_t byWarps = llvm::count_if(
      dots, [](DotOp dot) { return layoutOf(dot.getResult()).getRowParts() % kWarpgroup != 0; });
  return 2 * byWarps > int64_t(llvm::range_size(dots));
}

bool ejk::hasWarpgroupSums(Type type, LayoutAttr layout) {
  auto vector = cast<VectorType>(type);
  return isFragments(layout) && layout.getRowParts() % kWarpgroup == 0 &&
         (!isTransposed(layout) || layout.getColumnParts() == 1) &&
         vector.getDimSize(0) % kSwizzledColumns == 0 &&
         vector.getDimSize(1) % kSwizzledColumns == 0;
}

SmallVector<CumsumOp> ejk::cumsumsReadBy(Operation *reader) {
  SmallVector<CumsumOp> sums;
  if (isa<ConvertOp>(reader))
    for (Operation *widened : reader->getUsers())
      if (isa<arith::ExtFOp>(widened))
        for (Operation *user : widened->getUsers())
          if (auto sum = dyn_cast<CumsumOp>(user))
            sums.push_back(sum);
  return sums;
}

bool ejk::isOfGates(Value tile) {
  return llvm::any_of(tile.getUsers(), [&](Operation *user) {
    bool isOfTile = OpTrait::hasElementwiseMappableTraits(user) || isa<WindowOp>(user);
    isOfTile &= llvm::all_of(user->getOperands(), [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      return operand == tile || operand.getType() != tile.getType() ||
             (def && (isa<BroadcastOp>(def) || def->hasTrait<OpTrait::ConstantLike>()));
    });
    return isa<CumsumOp>(user) || (isOfTile && isOfGates(user->getResult(0)));
  });
}

unsigned ejk::elementsOfThread(Type type, LayoutAttr layout) {
  switch (layout.getKind()) {
  case LayoutKind::fragments:
  case LayoutKind::transposed_fragments:
    return Fragments::of(type, layout).size();
  case LayoutKind::lanes:
    return lanesSize(lanesLength(type));
  case LayoutKind::rows:
    return 2 * Fragments::ofRows(type, layout).rowTiles();
  case LayoutKind::uniform:
    return 1;
  case LayoutKind::shared:
  case LayoutKind::swizzled_words:
  case LayoutKind::swizzled:
  case LayoutKind::transposed_swizzled:
    return 0;
  }
  llvm_unreachable("unknown layout");
}

LayoutAttr ejk::layoutOf(Value value) {
  auto layoutIn = [](Operation *op, unsigned index) {
    auto layouts = op->getAttrOfType<ArrayAttr>(kLayoutsAttr);
    return layouts && index < layouts.size() ? dyn_cast<LayoutAttr>(layouts[index]) : LayoutAttr();
  };
  if (auto result = dyn_cast<OpResult>(value)) {
    if (auto convert = dyn_cast<ConvertOp>(result.getOwner()))
      return convert.getLayout();
    return layoutIn(result.getOwner(), result.getResultNumber());
  }
  auto arg = cast<BlockArgument>(value);
  Operation *parent = arg.getOwner()->getParentOp();
  if (isa<ProgramOp>(parent))
    return {}; // memory and scalars
  // The first argument of a loop's body is its counter.
  return arg.getArgNumber() && isa<scf::ForOp>(parent) ? layoutIn(parent, arg.getArgNumber() - 1)
                                                       : LayoutAttr();
}

bool ejk::isSwizzledF32(Value tile) {
  auto type = dyn_cast<VectorType>(tile.getType());
  return type && type.getElementType().isF32() && isSwizzled(layoutOf(tile));
}

bool ejk::isRegisterOperand(OpOperand &use, LayoutAttr own, LayoutAttr result) {
  auto dot = cast<DotOp>(use.getOwner());
  bool isLhs = use == dot.getLhsMutable();
  // The rows of operand A must be the result's rows in stored orientation.
  bool isFlipped = isLhs ? dot.getLhsTransposed() : !dot.getRhsTransposed();
  return use != dot.getAccMutable() && isLhs != isTransposed(result) &&
         isRegisterOperand(own, isFlipped, result);
}
