//===- CheckLayouts.cpp - verification of layouts --------------------------===//
//
// Verifies each tile by itself (does its type fit the layout?) and each op with its
// operands (can it be emitted for these layouts?). Malformed input thus fails with a
// diagnostic, and not with an assertion during emission.
//
//===----------------------------------------------------------------------===//
#include "lowering/layout/CheckLayouts.h"
#include "dialect/tile/Branch.h"
#include "lowering/layout/LayoutMisfit.h"
#include "lowering/layout/MatmulOperands.h"
#include "lowering/layout/TileLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static constexpr int64_t kMostWarps = 32; // of a block
/// More shared memory than any block has, and small enough that sums of sizes do not overflow.
static constexpr int64_t kMostSharedBytes = 1 << 20;

static bool isTile(Value value) { return isa<VectorType>(value.getType()); }

static bool isNumber(Type type) {
  return type.isIndex() || type.isSignlessInteger() || isa<Float16Type, BFloat16Type>(type) ||
         isa<Float32Type, Float64Type>(type);
}

namespace {
class LayoutChecker {
public:
  explicit LayoutChecker(ProgramOp program) : program(program) {}

  LogicalResult run() {
    auto laidOut = program->getAttrOfType<IntegerAttr>(kWarpsAttr);
    if (!laidOut)
      return program.emitError("is not laid out; run --ejk-assign-tile-layouts first");
    warps = laidOut.getInt();
    warpgroups = program->hasAttr(kWarpgroupsAttr);
    if (warps < 1 || warps > kMostWarps || (warpgroups && warps % kWarpgroup))
      return program.emitError() << "must be laid out for 1 to " << kMostWarps << " warps"
                                 << (warpgroups ? " in groups of four" : "") << ", not " << warps;
    WalkResult walked = program.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == program)
        return WalkResult::advance();
      if (auto partition = dyn_cast<PartitionOp>(op))
        warps = partition.getWarps();
      bool isChecked = succeeded(checkValues(op)) && succeeded(check(op));
      return isChecked ? WalkResult::advance() : WalkResult::interrupt();
    });
    return failure(walked.wasInterrupted());
  }

private:
  //===--------------------------------------------------------------------===//
  // Each tile by itself
  //===--------------------------------------------------------------------===//

  LogicalResult checkTile(Operation *op, Value value) {
    if (!isTile(value)) {
      if (isNumber(value.getType()) || isa<RowsType, SlotsType, RingType>(value.getType()))
        return success();
      return op->emitError() << "makes a " << value.getType()
                             << ", which no op of a block program becomes";
    }
    LayoutAttr layout = layoutOf(value);
    if (!layout)
      return op->emitError("makes a tile that has no layout");
    if (std::string why = misfitOf(cast<VectorType>(value.getType()), layout, warps); !why.empty())
      return op->emitError() << "has " << value.getType() << " in " << layout << ": " << why;
    return success();
  }

  LogicalResult checkValues(Operation *op) {
    // A pass that knows no layouts may have dropped results, such as a loop's that does not change.
    auto layouts = op->getAttrOfType<ArrayAttr>(kLayoutsAttr);
    if (layouts && layouts.size() > op->getNumResults())
      return op->emitError() << "has more layouts than results: " << layouts.size() << " for "
                             << op->getNumResults();
    for (Value result : op->getResults())
      if (failed(checkTile(op, result)))
        return failure();
    // Loop arguments need no check of their own: they have the layouts of the loop's results.
    for (Region &region : op->getRegions()) {
      if (!region.empty() && !region.hasOneBlock())
        return op->emitError("has a region of several blocks");
      for (BlockArgument arg : region.getArguments())
        if (!isTile(arg) && !isNumber(arg.getType()))
          return op->emitError() << "has a " << arg.getType() << " as an argument";
    }
    for (Value operand : op->getOperands())
      if (isTile(operand) && !layoutOf(operand))
        return op->emitError("uses a tile that has no layout");
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Each op with its operands
  //===--------------------------------------------------------------------===//

  static bool is(Value value, LayoutKind kind) { return layoutOf(value).getKind() == kind; }
  static bool isUniform(Value value) { return is(value, LayoutKind::uniform); }
  static bool isInFragments(Value value) { return isFragments(layoutOf(value)); }
  /// Whether threads have the tile's elements in registers.
  static bool isInRegisters(Value value) {
    return isInFragments(value) || is(value, LayoutKind::lanes) || isRows(layoutOf(value));
  }
  /// Whether the tile can be loaded from and stored to global memory directly.
  static bool isDivided(Value value) {
    return isInFragments(value) || is(value, LayoutKind::lanes);
  }

  LogicalResult need(Operation *op, bool holds, StringRef what) {
    return holds ? success() : op->emitError() << "cannot be lowered with these layouts: " << what;
  }

  LogicalResult sameAs(Operation *op, Value operand, Value result, bool uniformWillDo = false) {
    // Ops inside of this one were not looked at before it.
    LayoutAttr own = layoutOf(operand), there = layoutOf(result);
    if (!own || !there)
      return op->emitError("uses a tile that has no layout");
    bool isSame = own.withoutPlace() == there.withoutPlace();
    return need(op, isSame || (uniformWillDo && isUniform(operand)),
                "an operand lies as the result does");
  }

  LogicalResult check(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<MakeRingOp>([&](auto ring) { return checkRing(ring); })
        .Case<AcquireOp, FillOp, TakeOp, ReleaseOp, WarpSpecializeOp, EndOp, BarrierOp, FenceOp,
              WaitMatmulsOp, WaitCopiesOp, WaitStoresOp, AwaitTurnOp, PassTurnOp, PrefetchOp>(
            [&](auto) { return success(); })
        .Case<PartitionOp>([&](PartitionOp partition) {
          return need(partition, !warpgroups || partition.getWarps() % kWarpgroup == 0,
                      "the warps of a partition come in groups of four");
        })
        .Case<PutOp>([&](PutOp put) {
          return need(put, llvm::all_of(put.getTiles(), isInRegisters),
                      "threads put what they have in registers");
        })
        .Case<LoadOp, StoreOp, SlotRowsOp, LoadSlotOp, StoreSlotOp>(
            [&](auto access) { return checkAccess(access); })
        .Case<ConvertOp, DotOp, CumsumOp, BroadcastOp, tile::SumOp, SplitTermOp, TriangleOp,
              AddCumsumOp, PartialSumOp, AddPartsOp>([&](auto tileOp) { return checkOp(tileOp); })
        .Case<MaskOp>([&](MaskOp keep) -> LogicalResult {
          if (failed(need(keep, isInFragments(keep.getResult()), "a mask takes fragments")))
            return failure();
          return sameAs(keep, keep.getTile(), keep.getResult());
        })
        .Case<InvertDiagonalOp, MergeInversesOp>([&](auto blocks) {
          return need(blocks,
                      is(blocks.getMatrix(), LayoutKind::shared) &&
                          is(blocks.getResult(), LayoutKind::shared),
                      "blocks are inverted in rows of shared memory");
        })
        .Case<WindowOp>([&](WindowOp window) -> LogicalResult {
          if (failed(
                  need(window, isDivided(window.getResult()), "a window takes fragments or lanes")))
            return failure();
          return sameAs(window, window.getTile(), window.getResult());
        })
        .Case<RangeGuardOp>([&](RangeGuardOp within) {
          return need(
              within,
              llvm::none_of(within.getTiles(), [](Value v) { return isInShared(layoutOf(v)); }),
              "a bound takes tiles in registers");
        })
        .Case<vector::ExtractOp, vector::InsertOp, vector::BroadcastOp>(
            [&](auto vectorOp) { return checkOp(vectorOp); })
        .Case<scf::ForOp>([&](auto loop) { return checkOp(loop); })
        .Case<GuardedOp, scf::IfOp>([&](Operation *branch) { return checkOp(Branch::of(branch)); })
        .Case<scf::YieldOp, tile::YieldOp>([](auto) { return success(); })
        .Default([&](Operation *other) { return checkElementwise(other); });
  }

  LogicalResult checkRing(MakeRingOp ring) {
    RingType type = ring.getRing().getType();
    int64_t bytes = 0;
    for (Type tile : type.getTiles()) {
      auto vector = cast<VectorType>(tile);
      if (vector.getNumElements() > kMostTileElements)
        return ring.emitError() << "has a tile of " << tile << ", more than a block can hold";
      bytes += int64_t(vector.getDimSize(0)) * sharedPitch(tile);
    }
    if (bytes && type.getStages() > kMostSharedBytes / bytes)
      return ring.emitError() << "has " << type.getStages() << " stages of " << bytes
                              << " bytes, more than the shared memory of a block";
    return success();
  }

  /// The index, as in ProgramOp::args, of the group of program arguments that `memory` is from.
  std::optional<unsigned> groupOf(Value memory) {
    if (auto rows = memory.getDefiningOp<SlotRowsOp>())
      memory = rows.getSlots();
    if (!isa<BlockArgument>(memory))
      return std::nullopt;
    ValueRange groups[] = {program.getSequenceArgs(), program.getParameterArgs(),
                           program.getInitialArgs(),  program.getSavedArgs(),
                           program.getOutputArgs(),   program.getFinalArgs(),
                           program.getSaveArgs()};
    for (auto [number, group] : llvm::enumerate(groups))
      if (llvm::is_contained(group, memory))
        return number;
    return std::nullopt;
  }

  template <typename Access> LogicalResult checkAccess(Access access) {
    constexpr unsigned firstOutput = 4;
    constexpr bool isStore = std::is_same_v<Access, StoreOp> || std::is_same_v<Access, StoreSlotOp>;
    Value memory;
    if constexpr (std::is_same_v<Access, LoadOp> || std::is_same_v<Access, StoreOp>)
      memory = access.getRows();
    else
      memory = access.getSlots();
    std::optional<unsigned> group = groupOf(memory);
    if (!group)
      return access.emitError("takes rows or slots that are no argument of the program");
    if constexpr (std::is_same_v<Access, SlotRowsOp>)
      return success();
    if (isStore != (*group >= firstOutput))
      return access.emitError(isStore ? "stores to what the program only reads"
                                      : "loads what the program only stores");
    Value tile;
    if constexpr (isStore)
      tile = access.getTile();
    else if constexpr (!std::is_same_v<Access, SlotRowsOp>)
      tile = access.getResult();
    if (!isTile(tile))
      return success();
    bool fits = isDivided(tile) || (std::is_same_v<Access, LoadOp> && isInShared(layoutOf(tile)) &&
                                    !isTransposed(layoutOf(tile)));
    if constexpr (std::is_same_v<Access, StoreOp>)
      fits |=
          is(tile, LayoutKind::swizzled) && isa<VectorType>(access.getRows().getType().getRow());
    return need(access, fits, "memory is read and written in fragments or lanes");
  }

  LogicalResult checkOp(ConvertOp convert) {
    LayoutAttr from = layoutOf(convert.getTile()), to = convert.getLayout();
    bool fromUniform = from.getKind() == LayoutKind::uniform;
    bool fits = to.getKind() != LayoutKind::uniform && from != to &&
                !(isInShared(from) && isInShared(to)) && !isSwizzledWords(to) &&
                // A uniform tile has no transpose to store.
                !(fromUniform && to.getKind() == LayoutKind::transposed_swizzled);
    Type element = cast<VectorType>(convert.getType()).getElementType();
    bool isFloat = isa<Float32Type, Float16Type, BFloat16Type>(element);
    return need(convert, fits && (isFloat || fromUniform),
                "a conversion goes from registers to others, or to or from shared memory");
  }

  LogicalResult checkOp(DotOp dot) {
    LayoutAttr result = layoutOf(dot.getResult());
    if (failed(checkMatmulTypes(dot)))
      return failure();
    if (failed(need(dot, isFragments(result), "a product is made in fragments")) ||
        failed(sameAs(dot, dot.getAcc(), dot.getResult(), /*uniformWillDo=*/true)))
      return failure();
    for (OpOperand *operand : {&dot.getLhsMutable(), &dot.getRhsMutable()}) {
      LayoutAttr own = layoutOf(operand->get());
      if (dot.isInTf32())
        continue;
      if (dot.getAlgorithm()) {
        if (failed(need(dot, !warpgroups && is(operand->get(), LayoutKind::shared),
                        "an f32 operand lies in rows of shared memory, for single warps")))
          return failure();
        continue;
      }
      if (failed(need(dot, isInShared(own) || isRegisterOperand(*operand, own, result),
                      "an operand lies in shared memory, or is the left one in fragments of the "
                      "result's rows")))
        return failure();
    }
    return need(
        dot, !dot.isInTf32() || isByWarpgroups(dot),
        "warpgroups multiply in tf32, an operand A in fragments by a swizzled operand B whose "
        "rows lie along the sum");
  }

  LogicalResult checkOp(CumsumOp sums) {
    LayoutAttr layout = layoutOf(sums.getResult());
    bool fits = layout.getKind() == LayoutKind::lanes ||
                (isFragments(layout) && (!isTransposed(layout) ||
                                         (warpgroups && hasWarpgroupSums(sums.getType(), layout))));
    // The cumsum of a widened tile reads the tile before widening.
    if (auto widened = sums.getTile().getDefiningOp<arith::ExtFOp>())
      fits &= !isUniform(widened.getIn());
    if (failed(need(sums, fits, "running sums take lanes, or fragments that groups of warps sum")))
      return failure();
    return sameAs(sums, sums.getTile(), sums.getResult());
  }

  LogicalResult checkOp(SplitTermOp split) {
    if (failed(need(split, isInFragments(split.getTile()), "terms are split off fragments")) ||
        failed(sameAs(split, split.getTile(), split.getTerm())))
      return failure();
    return sameAs(split, split.getTile(), split.getRest());
  }

  LogicalResult checkOp(TriangleOp triangle) {
    return need(triangle,
                warpgroups && is(triangle, LayoutKind::swizzled) &&
                    cast<VectorType>(triangle.getType()).getDimSize(0) % (16 * kWarpgroup) == 0,
                "warpgroups read a triangle from a swizzled tile");
  }

  LogicalResult checkOp(AddCumsumOp sums) {
    LayoutAttr layout = layoutOf(sums), term = layoutOf(sums.getTerm());
    bool fits =
        isFragments(layout) && !isTransposed(layout) && isInShared(term) && !isTransposed(term);
    if (fits && sums.getTriangle())
      fits = warpgroups && isSwizzled(term) && hasWarpgroupSums(sums.getType(), layout) &&
             endsSwizzled(Fragments::of(sums.getType(), layout).partColumns());
    if (failed(need(sums, fits, "cumsums of a tile in shared memory go to fragments")))
      return failure();
    return sameAs(sums, sums.getAcc(), sums.getResult(), /*uniformWillDo=*/true);
  }

  LogicalResult checkOp(PartialSumOp sum) {
    if (failed(need(sum, isInFragments(sum.getTile()) && is(sum, LayoutKind::shared),
                    "fragments are summed in parts to shared memory")))
      return failure();
    Fragments f = Fragments::of(sum.getTile().getType(), layoutOf(sum.getTile()));
    int64_t parts = f.storedDim(sum.getDim()) == 1 ? f.columnParts : f.rowParts;
    int64_t length = sum.getTile().getType().getDimSize(1 - sum.getDim());
    return need(sum, sum.getType().getDimSize(0) == parts * length,
                "there is a part for each of the warps that share a sum");
  }

  LogicalResult checkOp(AddPartsOp sum) {
    return need(sum, is(sum.getParts(), LayoutKind::shared) && is(sum, LayoutKind::lanes),
                "parts in shared memory are added to lanes");
  }

  /// Whether `vector` can be broadcast along dimension `dim` of a matrix: it is in `lanes` layout,
  /// or in `rows` layout of the matrix's stored rows.
  static bool isAlong(Value vector, LayoutAttr matrix, unsigned dim) {
    LayoutAttr own = layoutOf(vector);
    return !isRows(own) ||
           (dim == unsigned(isTransposed(matrix)) && own.getRowParts() == matrix.getRowParts());
  }

  LogicalResult checkOp(BroadcastOp spread) {
    LayoutAttr matrix = layoutOf(spread.getResult());
    if (matrix.getKind() == LayoutKind::uniform)
      return sameAs(spread, spread.getVector(), spread.getResult());
    return need(spread, isFragments(matrix) && isAlong(spread.getVector(), matrix, spread.getDim()),
                "a vector is spread to fragments, of whose rows it may be");
  }

  LogicalResult checkOp(tile::SumOp sum) {
    LayoutAttr matrix = layoutOf(sum.getTile()), own = layoutOf(sum.getResult());
    bool isWhole = !isRows(own) || (isFragments(matrix) && matrix.getColumnParts() == 1 &&
                                    isAlong(sum.getResult(), matrix, 1 - sum.getDim()));
    return need(
        sum, isFragments(matrix) && isWhole && (isRows(own) || own.getKind() == LayoutKind::lanes),
        "fragments are summed up to lanes, or whole rows of them to rows");
  }

  LogicalResult checkOp(vector::BroadcastOp broadcast) {
    Value source = broadcast.getSource();
    if (source.getType().isIndex() || (isTile(source) && !isUniform(source)))
      return broadcast.emitError("broadcasts a vector; tile.broadcast says along which dimension");
    return need(broadcast, !isTile(broadcast.getResult()) || !isInShared(layoutOf(broadcast)),
                "a number is repeated in registers");
  }

  /// Whether positions are in range. A poison position is negative.
  static bool arePositions(ArrayRef<int64_t> positions, ArrayRef<int64_t> shape) {
    return llvm::all_of(llvm::zip(positions, shape), [](auto pair) {
      auto [position, size] = pair;
      return ShapedType::isDynamic(position) || (position >= 0 && position < size);
    });
  }

  LogicalResult checkOp(vector::ExtractOp extract) {
    Value source = extract.getSource(), result = extract.getResult();
    VectorType type = extract.getSourceVectorType();
    ArrayRef<int64_t> positions = extract.getStaticPosition();
    if (positions.empty() || !arePositions(positions, type.getShape()))
      return extract.emitError("takes out what is not in the tile");
    LayoutAttr from = layoutOf(source);
    if (!isTile(result))
      return need(extract,
                  isUniform(source) ||
                      (type.getRank() == 1 ? from.getKind() == LayoutKind::lanes
                                           : isInFragments(source) || isInShared(from)),
                  "an element is taken out of lanes, fragments or shared memory");
    LayoutAttr to = layoutOf(result);
    bool fits = false;
    if (isUniform(source))
      fits = isUniform(result);
    else if (isFragments(from))
      fits = to.getKind() == LayoutKind::shared ||
             (isRows(to) && isTransposed(from) && from.getColumnParts() == 1 &&
              to.getRowParts() == from.getRowParts());
    else if (isInShared(from))
      fits = !isTransposed(from) && (to.getKind() == LayoutKind::lanes || isRows(to));
    return need(extract, fits,
                "a row goes from fragments to shared memory, and from there to "
                "lanes or rows");
  }

  LogicalResult checkOp(vector::InsertOp insert) {
    if (insert.getDestVectorType().getRank() != 2 || !isTile(insert.getValueToStore()) ||
        insert.getStaticPosition().size() != 1)
      return insert.emitError("puts a number into a tile; rows can be put into a matrix");
    if (!arePositions(insert.getStaticPosition(), insert.getDestVectorType().getShape()))
      return insert.emitError("puts a row where the tile has none");
    LayoutAttr matrix = layoutOf(insert.getResult());
    bool fits = matrix.getKind() == LayoutKind::shared ||
                (isFragments(matrix) && isAlong(insert.getValueToStore(), matrix, /*dim=*/1));
    if (failed(need(insert, fits, "a row is put into fragments, or into shared memory")))
      return failure();
    return sameAs(insert, insert.getDest(), insert.getResult());
  }

  LogicalResult checkOp(scf::ForOp loop) {
    if (!loop.getInductionVar().getType().isIndex() || loop.getUnsignedCmp())
      return loop.emitError("counts by another type than a signed index");
    for (auto [init, result, next] :
         llvm::zip(loop.getInitArgs(), loop.getResults(), loop.getYieldedValues()))
      if (isTile(result) && (failed(sameAs(loop, init, result)) ||
                             failed(sameAs(loop.getBody()->getTerminator(), next, result))))
        return failure();
    return success();
  }

  LogicalResult checkOp(Branch branch) {
    for (Block *side : {branch.thenBlock(), branch.elseBlock()})
      if (side)
        for (auto [result, given] :
             llvm::zip(branch->getResults(), side->getTerminator()->getOperands()))
          if (isTile(result) && failed(sameAs(side->getTerminator(), given, result)))
            return failure();
    return success();
  }

  LogicalResult checkElementwise(Operation *op) {
    bool isConstant = op->hasTrait<OpTrait::ConstantLike>();
    if (!isTileArithmetic(op) || !(isConstant || OpTrait::hasElementwiseMappableTraits(op)))
      return op->emitError() << "'" << op->getName() << "' cannot be lowered in a block program";
    Value result = op->getResult(0);
    if (isTile(result) && isConstant) {
      DenseElementsAttr constant;
      if (!matchPattern(op, m_Constant(&constant)) || !constant.isSplat())
        return op->emitError("a constant tile must be one number in every element");
      return need(op, isUniform(result), "a constant is uniform");
    }
    if (isTile(result) && isInShared(layoutOf(result)))
      return need(op, false, "an elementwise op makes its result in registers");
    for (Value operand : op->getOperands())
      if (isTile(operand) && failed(sameAs(op, operand, result, /*uniformWillDo=*/true)))
        return failure();
    if (auto oneIn = op->getAttr(kPolynomialAttr)) {
      auto number = dyn_cast<IntegerAttr>(oneIn);
      if (!number || number.getInt() < 1)
        return op->emitError() << "'" << kPolynomialAttr << "' must be a positive number";
    }
    return success();
  }

  ProgramOp program;
  int64_t warps = 0;
  bool warpgroups = false;
};
} // namespace

LogicalResult ejk::checkLayouts(ProgramOp program) { return LayoutChecker(program).run(); }

LogicalResult ejk::checkLayoutsIn(Operation *op) {
  WalkResult walked = op->walk([](ProgramOp program) {
    return !program->hasAttr(kWarpsAttr) || succeeded(checkLayouts(program))
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}
