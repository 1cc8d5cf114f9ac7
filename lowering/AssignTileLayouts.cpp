//===- AssignTileLayouts.cpp - how each tile lies over the threads --------===//
//
// One walk in program order. An op's results have the layout that it computes
// in, which only their type decides; an operand in another layout gets a
// conversion, made where the first op needs it and shared by those behind.
//
//===----------------------------------------------------------------------===//
#include "lowering/Passes.h"
#include "lowering/TileLayout.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

namespace ejk {
#define GEN_PASS_DEF_ASSIGNTILELAYOUTS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// Numbers of a matrix that a thread of four warps can hold, four or five such
/// matrices at a time, in its registers; larger ones get eight warps.
static constexpr int64_t kFourWarpElements = 64 * 64;

namespace {
class Assigner {
public:
  explicit Assigner(ProgramOp program) : program(program), context(program.getContext()) {}

  LogicalResult run() {
    warps = chooseWarps();
    program->setAttr(kWarpsAttr, IntegerAttr::get(IntegerType::get(context, 64), warps));
    for (BlockArgument arg : program.getBlock().getArguments())
      if (failed(checkShape(program, arg.getType())))
        return failure();
    return visitBlock(program.getBlock());
  }

  unsigned toShared = 0, toFragments = 0, toLanes = 0;

private:
  static bool isTile(Type type) { return isa<VectorType>(type); }
  LayoutAttr layout(LayoutKind kind) { return LayoutAttr::get(context, kind, 0, 0); }
  LayoutAttr computed(Type type) { return computedLayout(type, warps); }
  bool isUniform(Value value) {
    return !isTile(value.getType()) || layoutOf(value).getKind() == LayoutKind::uniform;
  }

  unsigned chooseWarps() {
    int64_t most = 0;
    program.walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        if (auto vector = dyn_cast<VectorType>(type))
          most = std::max(most, vector.getNumElements());
    });
    return most > kFourWarpElements ? 8 : 4;
  }

  LogicalResult checkShape(Operation *op, Type type) {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector || vector.getRank() < 2)
      return success();
    if (vector.getRank() == 2 && vector.getDimSize(0) % 16 == 0 && vector.getDimSize(1) % 16 == 0)
      return success();
    return op->emitError() << "has a tile of " << type
                           << "; tensor cores take matrices whose sizes are multiples of 16";
  }

  void setLayouts(Operation *op, ArrayRef<LayoutAttr> layouts) {
    SmallVector<Attribute> attributes;
    for (LayoutAttr layout : layouts)
      attributes.push_back(layout ? Attribute(layout) : UnitAttr::get(context));
    op->setAttr(kLayoutsAttr, ArrayAttr::get(context, attributes));
  }

  /// The conversion goes before the outermost loop that does not make `value`
  /// anew, but never out of a branch that may not be taken.
  Operation *pointFor(Value value, Operation *user) {
    while (user->getBlock() != value.getParentBlock() && isa<scf::ForOp>(user->getParentOp()))
      user = user->getParentOp();
    return user;
  }

  void need(OpOperand &operand, LayoutAttr wanted, bool uniformWillDo = true) {
    Value value = operand.get();
    if (!isTile(value.getType()) || layoutOf(value) == wanted ||
        (uniformWillDo && isUniform(value)))
      return;
    Operation *user = operand.getOwner();
    for (ConvertOp known : conversions[value])
      if (known.getLayout() == wanted &&
          known->getBlock()->getParent()->isAncestor(user->getParentRegion())) {
        operand.set(known);
        return;
      }
    OpBuilder b(pointFor(value, user));
    // Registers are scarcer than shared memory: what goes there goes at once.
    if (wanted.getKind() == LayoutKind::shared && value.getDefiningOp())
      b.setInsertionPointAfter(value.getDefiningOp());
    auto convert = ConvertOp::create(b, user->getLoc(), value.getType(), value, wanted);
    conversions[value].push_back(convert);
    operand.set(convert);
    if (layoutOf(value).getKind() == LayoutKind::uniform)
      return; // moves nothing
    ++(wanted.getKind() == LayoutKind::shared      ? toShared
       : wanted.getKind() == LayoutKind::fragments ? toFragments
                                                   : toLanes);
  }
  void needComputed(OpOperand &operand, bool uniformWillDo = true) {
    if (isTile(operand.get().getType()))
      need(operand, computed(operand.get().getType()), uniformWillDo);
  }

  LogicalResult visitBlock(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      for (Type type : op.getResultTypes())
        if (failed(checkShape(&op, type)))
          return failure();
      if (failed(visit(&op)))
        return failure();
    }
    return success();
  }

  LogicalResult visit(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](LoadOp load) {
          setLayouts(load, layout(LayoutKind::shared));
          return success();
        })
        .Case([&](DotOp dot) { return visitDot(dot); })
        .Case([&](SpreadOp spread) {
          need(spread.getVectorMutable(), layout(LayoutKind::lanes));
          setLayouts(spread, isUniform(spread.getVector()) ? layout(LayoutKind::uniform)
                                                           : computed(spread.getType()));
          return success();
        })
        .Case([&](vector::BroadcastOp broadcast) { return visitBroadcast(broadcast); })
        .Case([&](vector::ExtractOp extract) { return visitExtract(extract); })
        .Case<CumsumOp, KeepOp, WindowOp, tile::SumOp, MaxOp, StoreOp, StoreCellOp>(
            [&](Operation *tileOp) {
              for (OpOperand &operand : tileOp->getOpOperands())
                needComputed(operand, /*uniformWillDo=*/false);
              setComputed(tileOp);
              return success();
            })
        .Case<LoadCellOp, scf::YieldOp, EndOp>([&](Operation *other) {
          for (OpOperand &operand : other->getOpOperands())
            needComputed(operand, /*uniformWillDo=*/false);
          setComputed(other);
          return success();
        })
        .Case([&](scf::ForOp loop) {
          for (OpOperand &init : loop.getInitArgsMutable())
            needComputed(init, /*uniformWillDo=*/false);
          setComputed(loop);
          return visitBlock(*loop.getBody());
        })
        .Case([&](scf::IfOp branch) {
          setComputed(branch);
          if (failed(visitBlock(*branch.thenBlock())))
            return failure();
          return branch.elseBlock() ? visitBlock(*branch.elseBlock()) : success();
        })
        .Default([&](Operation *other) { return visitElementwise(other); });
  }

  void setComputed(Operation *op) {
    if (!llvm::any_of(op->getResultTypes(), isTile))
      return;
    setLayouts(op, llvm::map_to_vector(op->getResultTypes(), [&](Type t) { return computed(t); }));
  }

  LogicalResult visitDot(DotOp dot) {
    Type element = getElementTypeOrSelf(dot.getLhs().getType());
    if (!element.isBF16() && !element.isF16())
      return dot.emitError() << "multiplies tiles of " << element
                             << "; tensor cores take bf16 or f16";
    need(dot.getLhsMutable(), layout(LayoutKind::shared), /*uniformWillDo=*/false);
    need(dot.getRhsMutable(), layout(LayoutKind::shared), /*uniformWillDo=*/false);
    needComputed(dot.getAccMutable());
    setComputed(dot);
    return success();
  }

  LogicalResult visitBroadcast(vector::BroadcastOp broadcast) {
    auto from = dyn_cast<VectorType>(broadcast.getSource().getType());
    if (!from || isUniform(broadcast.getSource())) {
      setLayouts(broadcast, layout(LayoutKind::uniform));
      return success();
    }
    return broadcast.emitError("broadcasts a vector; tile.spread says along which dimension");
  }

  LogicalResult visitExtract(vector::ExtractOp extract) {
    auto from = extract.getSourceVectorType();
    LayoutKind kind = layoutOf(extract.getSource()).getKind();
    // A row of what lies in shared memory is read from there.
    bool direct = kind == LayoutKind::shared && from.getRank() == 2;
    if (!direct)
      needComputed(extract.getSourceMutable());
    if (isTile(extract.getType()))
      setLayouts(extract, isUniform(extract.getSource()) ? layout(LayoutKind::uniform)
                                                         : layout(LayoutKind::lanes));
    return success();
  }

  LogicalResult visitElementwise(Operation *op) {
    if (!llvm::any_of(op->getOperandTypes(), isTile) && !llvm::any_of(op->getResultTypes(), isTile))
      return success();
    if (op->hasTrait<OpTrait::ConstantLike>()) {
      DenseElementsAttr constant;
      if (!matchPattern(op, m_Constant(&constant)) || !constant.isSplat())
        return op->emitError("a constant tile must be one number in every element");
      setLayouts(op, layout(LayoutKind::uniform));
      return success();
    }
    bool known = isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
                 op->getNumRegions() == 0 && op->getNumResults() == 1;
    if (!known)
      return op->emitError() << "'" << op->getName() << "' cannot be lowered in a block program";
    if (llvm::all_of(op->getOperands(), [&](Value v) { return isUniform(v); })) {
      setLayouts(op, layout(LayoutKind::uniform));
      return success();
    }
    for (OpOperand &operand : op->getOpOperands())
      needComputed(operand);
    setComputed(op);
    return success();
  }

  ProgramOp program;
  MLIRContext *context;
  unsigned warps = 4;
  llvm::DenseMap<Value, SmallVector<ConvertOp>> conversions;
};

struct AssignTileLayoutsPass : ejk::impl::AssignTileLayoutsBase<AssignTileLayoutsPass> {
  void runOnOperation() override {
    WalkResult result = getOperation()->walk([&](ProgramOp program) {
      Assigner assigner(program);
      if (failed(assigner.run()))
        return WalkResult::interrupt();
      toShared += assigner.toShared;
      toFragments += assigner.toFragments;
      toLanes += assigner.toLanes;
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
