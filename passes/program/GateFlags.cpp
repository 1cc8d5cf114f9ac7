//===- GateFlags.cpp - whether gates are weak, by sequence and head --------===//
#include "passes/program/GateFlags.h"
#include "dialect/shapes/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "passes/program/SimplifyProgram.h"
#include "passes/program/SplitByState.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The scalars of a program without segments.
static constexpr unsigned kScalarsOfSequence = 4;

namespace {
/// Clones what the guard of a program's first chunk is computed from.
class FlagWriter {
public:
  explicit FlagWriter(ProgramOp from) : from(from), loop(loopOverChunks(from)) {}

  std::optional<GateFlags> write(double share) {
    if (!loop || from.getTrailing() || !findGuard() || !findOps())
      return {};
    ProgramOp flags = create();
    OpBuilder b(&flags.getBlock(), flags.getBlock().begin());
    Location loc = guard.getLoc();
    map.map(loop.getInductionVar(), loop.getLowerBound());
    for (Operation *op : ops)
      b.clone(*op, map);
    auto exponents =
        llvm::map_to_vector(tiles, [&](Value tile) { return map.lookupOrDefault(tile); });
    auto bound = b.getF32FloatAttr(float(guard.getBound().convertToDouble() * share));
    Value isWeak = RangeGuardOp::create(b, loc, bound, exponents);
    auto number = [&](float x) -> Value {
      return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(x));
    };
    Value first = arith::ConstantIndexOp::create(b, loc, 0);
    for (bool ofWeak : {true, false}) {
      Value flag = arith::SelectOp::create(b, loc, isWeak, number(ofWeak), number(!ofWeak));
      StoreSlotOp::create(b, loc, flag, flags.getFinalArgs()[!ofWeak], first, ValueRange());
    }
    EndOp::create(b, loc);
    simplifyProgram(flags);
    return GateFlags{flags.getFinalStates()[0], flags.getFinalStates()[1]};
  }

private:
  /// Finds the guard of gates, and what it looks at that is made of rows. Whether a chunk has few
  /// rows is decided for each by itself.
  bool findGuard() {
    for (auto each : loop.getBody()->getOps<RangeGuardOp>()) {
      tiles =
          llvm::filter_to_vector(each.getTiles(), [&](Value tile) { return isMadeOfRows(tile); });
      if (tiles.empty())
        continue;
      guard = each;
      return true;
    }
    return false;
  }

  bool isMadeOfRows(Value value) {
    Operation *def = value.getDefiningOp();
    return def && (isa<LoadOp>(def) || llvm::any_of(def->getOperands(), [&](Value operand) {
                     return isMadeOfRows(operand);
                   }));
  }

  /// Collects, in their order, the ops that compute the tiles; false where one of them depends on
  /// what the loop carries, or on a place in a segment.
  bool findOps() {
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> left(tiles);
    left.push_back(loop.getLowerBound());
    while (!left.empty()) {
      Value value = left.pop_back_val();
      bool isOfSegment =
          llvm::is_contained(from.getScalars().drop_front(kScalarsOfSequence), value);
      if (llvm::is_contained(loop.getRegionIterArgs(), value) || value == from.getSlice() ||
          isOfSegment)
        return false;
      Operation *def = value.getDefiningOp();
      if (!def || !needed.insert(def).second)
        continue;
      if (def->getNumRegions() || isa<LoadSlotOp>(def))
        return false;
      llvm::append_range(left, def->getOperands());
    }
    for (Block *block : {&from.getBlock(), loop.getBody()})
      for (Operation &op : *block)
        if (needed.contains(&op))
          ops.push_back(&op);
    return true;
  }

  bool isLoaded(Value rows) {
    return llvm::any_of(rows.getUsers(),
                        [&](Operation *user) { return llvm::is_contained(ops, user); });
  }

  ProgramOp create() {
    // The first sequence says how many heads there are, so it is one of as many as the program's
    // first.
    ShapeAnalysis shapes(from->getParentOfType<func::FuncOp>());
    auto hasAllHeads = [&](Value tensor) {
      return shapes.dim(tensor, 2) == shapes.dim(from.getSequences().front(), 2);
    };
    SmallVector<Value> sequences, sequenceArgs;
    for (auto [rows, tensor] : llvm::zip(from.getSequenceArgs(), from.getSequences()))
      if (isLoaded(rows)) {
        sequences.push_back(tensor);
        sequenceArgs.push_back(rows);
      }
    auto first = llvm::find_if(sequences, hasAllHeads);
    if (first == sequences.end()) {
      sequences.insert(sequences.begin(), from.getSequences().front());
      sequenceArgs.insert(sequenceArgs.begin(), from.getSequenceArgs().front());
    } else {
      std::swap(sequenceArgs.front(), sequenceArgs[first - sequences.begin()]);
      std::swap(sequences.front(), *first);
    }
    auto rows = cast<RankedTensorType>(sequences.front().getType());
    bool isBatch = !from.getCuSeqlens();
    Type type = RankedTensorType::get(
        {isBatch ? rows.getDimSize(0) : ShapedType::kDynamic, rows.getDimSize(2)},
        Float32Type::get(from.getContext()));
    OpBuilder b(from);
    auto flags = ProgramOp::create(
        b, from.getLoc(), TypeRange(), TypeRange{type, type}, TypeRange(), sequences,
        from.getParameters(), ValueRange(), ValueRange(), from.getCuSeqlens(), /*turns=*/Value(),
        /*remembered=*/Value(),
        /*skipped=*/Value(), /*into=*/ValueRange(), from.getChunk(), IntegerAttr(), SegmentsAttr(),
        /*slices=*/1, /*corrects=*/false, IntegerAttr(), /*trailing_reverse=*/false,
        /*into_results=*/nullptr);
    Block &block = flags.getBody().emplaceBlock();
    for (Type argument : flags.argumentTypes(from.getParameterArgs().getTypes()))
      block.addArgument(argument, from.getLoc());
    map.map(sequenceArgs, flags.getSequenceArgs());
    map.map(from.getParameterArgs(), flags.getParameterArgs());
    map.map(from.getScalars().take_front(kScalarsOfSequence), flags.getScalars());
    return flags;
  }

  ProgramOp from;
  scf::ForOp loop;
  RangeGuardOp guard;
  SmallVector<Value> tiles;
  SmallVector<Operation *> ops;
  IRMapping map;
};
} // namespace

std::optional<GateFlags> ejk::makeGateFlags(ProgramOp program, double share) {
  return FlagWriter(program).write(share);
}
