//===- AssignTileLayouts.cpp - a layout for each tile ----------------------===//
//
// One pass in program order. A result gets the layout in which its op computes it: its type
// decides, and for `wgmma` also the matmuls that use it (TileOrientation.h). An operand in another
// layout gets a conversion before its first user, which later users share.
//
// For example, a tile of q rows is loaded to shared memory (`swizzled`) and read there by a matmul;
// the matmul's result is in `fragments`.
//
//===----------------------------------------------------------------------===//
#include "dialect/tile/Branch.h"
#include "lowering/Passes.h"
#include "lowering/layout/RowPlacement.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/layout/TileOrientation.h"
#include "lowering/layout/VectorLayouts.h"
#include "lowering/target/CostModel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/program/RegisterPressure.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace ejk {
#define GEN_PASS_DEF_ASSIGNTILELAYOUTS
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
class Assigner {
public:
  /// For `givenWarps` warps, or as many as suit the program if that is 0.
  Assigner(ProgramOp program, bool warpgroups, unsigned givenWarps, bool vectorsFromShared)
      : program(program), context(program.getContext()), warpgroups(warpgroups),
        warps(givenWarps ? givenWarps : chooseWarps()), vectorsFromShared(vectorsFromShared),
        orientation(program, warps, warpgroups) {}

  LogicalResult run() {
    program->setAttr(kWarpsAttr, IntegerAttr::get(IntegerType::get(context, 64), warps));
    for (RowByRow matrix : findRowByRow(program))
      rowByRow.insert_range(
          ArrayRef<Value>{matrix.argument(), matrix.insert.getResult(), matrix.result()});
    if (warpgroups) {
      program->setAttr(kWarpgroupsAttr, UnitAttr::get(context));
      rematerialise();
      vectors.emplace(program, [&](Value matrix) { return computed(matrix); });
    }
    for (BlockArgument arg : program.getBlock().getArguments())
      if (failed(checkShape(program, arg.getType())))
        return failure();
    return visitBlock(program.getBlock());
  }

  unsigned toShared = 0, toFragments = 0, toLanes = 0;

private:
  static bool isTile(Type type) { return isa<VectorType>(type); }
  LayoutAttr layout(LayoutKind kind) { return LayoutAttr::get(context, kind, 0, 0); }
  LayoutAttr computed(Value value) {
    return rowByRow.contains(value) ? layout(LayoutKind::shared) : inRegisters(value);
  }
  LayoutAttr inRegisters(Value value) {
    auto type = dyn_cast<VectorType>(value.getType());
    if (!type || type.getRank() == 1) {
      LayoutAttr rows = type && vectors ? vectors->layoutOf(value) : LayoutAttr();
      return rows ? rows : computedLayout(value.getType(), warps);
    }
    auto rematerialised = rematerialisedFor.find(value);
    return rematerialised == rematerialisedFor.end() ? orientation.layoutOf(value)
                                                     : rematerialised->second;
  }
  /// The layout of `value` in shared memory, for matmuls and other readers.
  LayoutAttr inShared(Value value, bool transposed) {
    if (!warpgroups || !fitsSwizzled(value.getType(), transposed))
      return layout(LayoutKind::shared);
    return layout(transposed ? LayoutKind::transposed_swizzled : LayoutKind::swizzled);
  }
  bool loadsToRegisters(LoadOp load) { return warpgroups && ejk::loadsToRegisters(load); }
  /// Whether threads read f32 rows as fragments or row by row, as the swizzle of TMA allows. A matrix that an
  /// exact path reads would take registers for its addresses. KDA with a bound has such a path: with its gradients
  /// it takes 7.06 ms so, and 6.74 by threads, at 4, 4096, 64 heads of an H200.
  bool areReadFromWords(LoadOp load) {
    return warpgroups && fitsSwizzledWords(load.getType()) && !isOnExactPath(load) &&
           llvm::all_of(load->getUses(), [&](OpOperand &use) {
             return isa<vector::ExtractOp>(use.getOwner()) ||
                    (isFragments(wantedFor(use)) && !isOnExactPath(use.getOwner()));
           });
  }
  bool isUniform(Value value) {
    return !isTile(value.getType()) || layoutOf(value).getKind() == LayoutKind::uniform;
  }

  /// The layout that the op expects `operand` in.
  LayoutAttr wantedFor(OpOperand &operand) {
    Operation *op = operand.getOwner();
    unsigned number = operand.getOperandNumber();
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return inRegisters(loop.getTiedLoopResult(&operand));
    if (isa<scf::YieldOp, tile::YieldOp>(op))
      return computed(op->getParentOp()->getResult(number));
    if (auto dot = dyn_cast<DotOp>(op))
      return computed(operand == dot.getAccMutable() ? dot.getResult() : operand.get());
    auto shapeOf = [](Value value) {
      auto type = dyn_cast<VectorType>(value.getType());
      return type ? type.getShape() : ArrayRef<int64_t>();
    };
    bool passesOn = op->getNumResults() == 1 && !isa<tile::SumOp, RangeGuardOp, BroadcastOp>(op) &&
                    shapeOf(op->getResult(0)) == shapeOf(operand.get());
    return passesOn ? computed(op->getResult(0)) : inRegisters(operand.get());
  }

  /// Rematerialises broadcasts, widened rows, and rows that are loaded to registers, once for each
  /// layout in which they are used. That is cheaper than a conversion.
  void rematerialise() {
    SmallVector<Operation *> makers;
    program.walk([&](Operation *op) {
      if (op->getNumResults() == 1 && TileOrientation::isRematerialised(op->getResult(0)) &&
          !isUniformTile(op->getResult(0)) &&
          (!isa<LoadOp>(op) || loadsToRegisters(cast<LoadOp>(op))))
        makers.push_back(op);
    });
    // Users first, because a maker's layout depends on its users' layouts.
    for (Operation *maker : llvm::reverse(makers)) {
      llvm::SmallMapVector<LayoutAttr, SmallVector<OpOperand *>, 2> uses;
      for (OpOperand &use : maker->getResult(0).getUses())
        uses[wantedFor(use)].push_back(&use);
      for (auto &[layout, operands] : uses) {
        Value made = maker->getResult(0);
        if (layout != uses.front().first) {
          made = OpBuilder(maker).clone(*maker)->getResult(0);
          for (OpOperand *operand : operands)
            operand->set(made);
        }
        rematerialisedFor[made] = layout;
      }
    }
  }

  unsigned chooseWarps() {
    bool isBusy = false;
    program.walk([&](Operation *op) {
      isBusy |= isa<DotOp>(op) && !warpgroups && hasManyMatmuls(*op->getBlock());
    });
    return cost::warpsFor(largestMatrix(program), warpgroups, isBusy || hasF32Matmuls(program));
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

  /// Where to convert `value` for `user`: before the outermost loop in which `value` is invariant,
  /// but never before an `if` that may not run it.
  Operation *pointFor(Value value, Operation *user) {
    while (user->getBlock() != value.getParentBlock() && isa<scf::ForOp>(user->getParentOp()))
      user = user->getParentOp();
    return user;
  }

  void need(OpOperand &operand, LayoutAttr wanted, bool uniformWillDo = true) {
    // A conversion between two layouts in shared memory goes through registers.
    if (rowByRow.contains(operand.get()) && isInShared(wanted) && wanted != layoutOf(operand.get()))
      need(operand, inRegisters(operand.get()));
    Value value = operand.get();
    if (ConvertOp shared = spilledCopy(operand); shared && wanted == layoutOf(value)) {
      OpBuilder b(operand.getOwner());
      operand.set(ConvertOp::create(b, value.getLoc(), value.getType(), shared, wanted));
      ++toLanes;
      return;
    }
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
    // Registers are scarcer than shared memory, so store the tile as soon as it is computed.
    if (isInShared(wanted) && value.getDefiningOp())
      b.setInsertionPointAfter(value.getDefiningOp());
    auto convert = ConvertOp::create(b, user->getLoc(), value.getType(), value, wanted);
    conversions[value].push_back(convert);
    operand.set(convert);
    if (layoutOf(value).getKind() == LayoutKind::uniform)
      return; // no data moves
    ++(isInShared(wanted) ? toShared : isFragments(wanted) ? toFragments : toLanes);
  }

  /// The layout in which a vector is broadcast. A vector in `rows` layout whose rows are not the
  /// matrix's is broadcast from shared memory.
  LayoutAttr broadcastLayout(Value vector, LayoutAttr matrix, unsigned dim) {
    LayoutAttr own = layoutOf(vector);
    if (vectorsFromShared && isInShared(own))
      return own;
    if (!isRows(own))
      return layout(LayoutKind::lanes);
    bool isAlong = dim == unsigned(isTransposed(matrix));
    return isAlong && own.getRowParts() == matrix.getRowParts() ? own : layout(LayoutKind::shared);
  }

  /// Spills vectors that are defined before `branch` and used in its `then` region to shared
  /// memory. In `lanes` layout each would occupy registers of all warps. A broadcast from shared
  /// memory also loads two adjacent elements at a time, where shuffles fetch one.
  void spillVectorsFor(Branch branch) {
    llvm::SetVector<Value> vectors;
    branch.getThenRegion().walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (auto type = dyn_cast<VectorType>(operand.getType());
            type && type.getRank() == 1 && type.getElementType().isF32() &&
            operand.getParentBlock() == branch->getBlock() &&
            layoutOf(operand).getKind() == LayoutKind::lanes)
          vectors.insert(operand);
    });
    for (Value vector : vectors) {
      OpBuilder b(branch->getContext());
      b.setInsertionPointAfterValue(vector);
      auto convert = ConvertOp::create(b, vector.getLoc(), vector.getType(), vector,
                                       layout(LayoutKind::shared));
      spilledVectors[vector] = convert;
      ++toShared;
    }
  }

  /// The spilled copy of `operand` if it was defined before the branch that its user is in.
  ConvertOp spilledCopy(OpOperand &operand) {
    ConvertOp shared = spilledVectors.lookup(operand.get());
    return shared && shared->getBlock() != operand.getOwner()->getBlock() ? shared : ConvertOp();
  }

  void needComputed(OpOperand &operand, bool uniformWillDo = true) {
    if (isTile(operand.get().getType()))
      need(operand, wantedFor(operand), uniformWillDo);
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
          setLayouts(load, isTf32Operand(load)      ? layout(LayoutKind::swizzled)
                           : loadsToRegisters(load) ? computed(load.getResult())
                           : areReadFromWords(load) ? layout(LayoutKind::swizzled_words)
                                                    : inShared(load, /*transposed=*/false));
          return success();
        })
        .Case<MakeRingOp, WarpSpecializeOp>([&](Operation *later) {
          return later->emitError("tiles are laid out before rows pass through rings");
        })
        .Case([&](DotOp dot) { return visitDot(dot); })
        .Case([&](BroadcastOp spread) {
          if (ConvertOp shared = spilledCopy(spread.getVectorMutable()))
            spread.getVectorMutable().set(shared);
          else
            need(
                spread.getVectorMutable(),
                broadcastLayout(spread.getVector(), computed(spread.getResult()), spread.getDim()));
          setLayouts(spread, isUniform(spread.getVector()) ? layout(LayoutKind::uniform)
                                                           : computed(spread.getResult()));
          return success();
        })
        .Case([&](vector::BroadcastOp broadcast) { return visitBroadcast(broadcast); })
        .Case([&](vector::ExtractOp extract) { return visitExtract(extract); })
        .Case([&](vector::InsertOp insert) { return visitInsert(insert); })
        .Case([&](StoreOp store) {
          if (warpgroups && storesFromSwizzled(store))
            need(store.getTileMutable(), layout(LayoutKind::swizzled), /*uniformWillDo=*/false);
          else
            needComputed(store.getTileMutable(), /*uniformWillDo=*/false);
          return success();
        })
        .Case<InvertDiagonalOp, MergeInversesOp>([&](auto blocks) {
          need(blocks.getMatrixMutable(), layout(LayoutKind::shared), /*uniformWillDo=*/false);
          setLayouts(blocks, layout(LayoutKind::shared));
          return success();
        })
        .Case<CumsumOp, MaskOp, WindowOp, tile::SumOp, RangeGuardOp, StoreSlotOp>(
            [&](Operation *tileOp) {
              for (OpOperand &operand : tileOp->getOpOperands())
                needComputed(operand, /*uniformWillDo=*/isa<RangeGuardOp>(tileOp));
              setComputed(tileOp);
              return success();
            })
        .Case<LoadSlotOp, scf::YieldOp, tile::YieldOp, EndOp>([&](Operation *other) {
          for (OpOperand &operand : other->getOpOperands())
            needComputed(operand, /*uniformWillDo=*/false);
          setComputed(other);
          return success();
        })
        .Case([&](scf::ForOp loop) {
          for (auto [init, result] : llvm::zip(loop.getInitArgsMutable(), loop.getResults()))
            if (rowByRow.contains(result))
              startInShared(init);
            else
              needComputed(init, /*uniformWillDo=*/false);
          setComputed(loop);
          return visitBlock(*loop.getBody());
        })
        .Case<GuardedOp, scf::IfOp>([&](Operation *either) {
          Branch branch = Branch::of(either);
          setComputed(either);
          if (warpgroups)
            spillVectorsFor(branch);
          if (failed(visitBlock(*branch.thenBlock())))
            return failure();
          return branch.elseBlock() ? visitBlock(*branch.elseBlock()) : success();
        })
        .Default([&](Operation *other) { return visitElementwise(other); });
  }

  void setComputed(Operation *op) {
    if (!llvm::any_of(op->getResultTypes(), isTile))
      return;
    setLayouts(op, llvm::map_to_vector(op->getResults(), [&](Value v) { return computed(v); }));
  }

  LogicalResult visitDot(DotOp dot) {
    if (failed(checkMatmulTypes(dot)))
      return failure();
    LayoutAttr result = computed(dot.getResult());
    for (OpOperand *operand : {&dot.getLhsMutable(), &dot.getRhsMutable()}) {
      Value value = operand->get();
      if (rowByRow.contains(value))
        need(*operand, inRegisters(value));
      LayoutAttr own = layoutOf(operand->get());
      if (dot.isInTf32()) {
        if (!isInShared(own) && !isRegisterOperand(*operand, own, result))
          need(*operand,
               layout(isTransposed(own) ? LayoutKind::transposed_swizzled : LayoutKind::swizzled),
               /*uniformWillDo=*/false);
        continue;
      }
      if (dot.getAlgorithm()) { // warps split what they load
        need(*operand, layout(LayoutKind::shared), /*uniformWillDo=*/false);
        continue;
      }
      // Operand A stays in registers, unless it lies in shared memory for another matmul, or on the
      // exact path, where registers are scarcer than time.
      Operation *maker = value.getDefiningOp();
      bool staysInShared = (orientation.isStored(value) || (maker && isOnExactPath(maker))) &&
                           fitsSwizzled(value.getType(), isTransposed(own));
      if (warpgroups && isRegisterOperand(*operand, own, result) && !staysInShared)
        continue;
      if (!isInShared(own))
        need(*operand, inShared(value, isTransposed(own)), /*uniformWillDo=*/false);
    }
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
    return broadcast.emitError("broadcasts a vector; tile.broadcast says along which dimension");
  }

  LogicalResult visitExtract(vector::ExtractOp extract) {
    auto from = extract.getSourceVectorType();
    // A row of a tile in shared memory is read from there.
    bool direct = isInShared(layoutOf(extract.getSource())) && from.getRank() == 2 &&
                  !rowByRow.contains(extract.getSource());
    if (!direct)
      needComputed(extract.getSourceMutable());
    // A row of fragments is stored to shared memory; users in `lanes` layout load it later.
    if (!isTile(extract.getType()))
      return success();
    LayoutAttr own = computed(extract.getResult());
    setLayouts(extract, isUniform(extract.getSource())               ? layout(LayoutKind::uniform)
                        : isRows(own)                                ? own
                        : isFragments(layoutOf(extract.getSource())) ? layout(LayoutKind::shared)
                                                                     : layout(LayoutKind::lanes));
    return success();
  }

  /// Gives the loop a buffer of its own, initialised with the init value.
  void startInShared(OpOperand &init) {
    OpBuilder b(init.getOwner());
    Value start = init.get();
    if (isInShared(layoutOf(start)))
      start = ConvertOp::create(b, start.getLoc(), start.getType(), start, inRegisters(start));
    init.set(
        ConvertOp::create(b, start.getLoc(), start.getType(), start, layout(LayoutKind::shared)));
    ++toShared;
  }

  LogicalResult visitInsert(vector::InsertOp insert) {
    if (insert.getDestVectorType().getRank() != 2 || !isTile(insert.getValueToStoreType()))
      return insert.emitError("puts a number into a tile; rows can be put into a matrix");
    needComputed(insert.getDestMutable(), /*uniformWillDo=*/false);
    LayoutAttr matrix = computed(insert.getResult());
    if (isFragments(matrix))
      need(insert.getValueToStoreMutable(),
           broadcastLayout(insert.getValueToStore(), matrix, /*dim=*/1));
    setComputed(insert);
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
    if (!isTileArithmetic(op))
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
  bool warpgroups;
  unsigned warps;
  bool vectorsFromShared;
  TileOrientation orientation;
  std::optional<VectorLayouts> vectors;
  llvm::DenseSet<Value> rowByRow;
  llvm::DenseMap<Value, LayoutAttr> rematerialisedFor;
  llvm::DenseMap<Value, SmallVector<ConvertOp>> conversions;
  llvm::DenseMap<Value, ConvertOp> spilledVectors;
};

struct AssignTileLayoutsPass : ejk::impl::AssignTileLayoutsBase<AssignTileLayoutsPass> {
  using AssignTileLayoutsBase::AssignTileLayoutsBase;

  void runOnOperation() override {
    const Target *target = findTarget(arch, getOperation()->getLoc());
    if (!target)
      return signalPassFailure();
    WalkResult result = getOperation()->walk([&](ProgramOp program) {
      if (program->hasAttr(kWarpsAttr))
        return WalkResult::advance(); // laid out already
      // `wgmma` takes 16-bit operands: terms would need more shared memory than the f32 operand.
      bool warpgroups = target->hasWgmma && !hasF32Matmuls(program);
      Assigner assigner(program, warpgroups, warpgroups ? unsigned(this->warps) : 0, vectorsFromShared);
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
