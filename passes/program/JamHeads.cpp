//===- JamHeads.cpp - several heads in one block program ------------------===//
#include "passes/program/JamHeads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The dimension of heads in rows, [B,T,H] or [B,T,H,C], and in states, [N,H,K] or [N,H,K,V].
static constexpr unsigned kHeadsOfRows = 2, kHeadsOfStates = 1;

static int64_t elementsOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

//===----------------------------------------------------------------------===//
// What can be jammed
//===----------------------------------------------------------------------===//

/// Whether `op`, of a program, is one that `HeadJam` clones for each head. A tile has all channels
/// of a row and all of a slot, and none past their end: there is another head.
static bool isClonable(Operation *op) {
  auto isWholeRow = [](auto access, Type tile) {
    auto row = dyn_cast<VectorType>(access.getRows().getType().getRow());
    auto matrix = cast<VectorType>(tile);
    return !row || (matrix.getRank() == 2 && matrix.getDimSize(1) == row.getDimSize(0));
  };
  if (auto load = dyn_cast<LoadOp>(op))
    return isWholeRow(load, load.getType());
  if (auto store = dyn_cast<StoreOp>(op))
    return isWholeRow(store, store.getTile().getType());
  if (auto load = dyn_cast<LoadSlotOp>(op))
    return load.getSlots().getType().getSlot() == load.getResult().getType();
  if (auto store = dyn_cast<StoreSlotOp>(op))
    return store.getSlots().getType().getSlot() == store.getTile().getType();
  return isa<scf::ForOp, scf::YieldOp, EndOp>(op) ||
         (isMemoryEffectFree(op) && op->getNumRegions() == 0 && !isa<SlotRowsOp>(op));
}

/// The dimension of `parameter`, whose argument is of type `arg`, that counts heads, if it has one.
static std::optional<unsigned> headsOfParameter(Value parameter, Type arg) {
  auto slots = dyn_cast<SlotsType>(arg);
  unsigned ofStep = slots ? cast<VectorType>(slots.getSlot()).getRank() : 0,
           prefix = cast<RankedTensorType>(parameter.getType()).getRank() - ofStep;
  return prefix ? std::optional(prefix - 1) : std::nullopt;
}

static bool areNumbers(Value rows) {
  return cast<RankedTensorType>(rows.getType()).getRank() == kHeadsOfRows + 1;
}

SumHeadsOp ejk::sumOverHeads(Value output) {
  auto sum = output.hasOneUse() ? dyn_cast<SumHeadsOp>(*output.user_begin()) : SumHeadsOp();
  return sum && sum.getTensor() == output && sum.getDim() == kHeadsOfRows && !areNumbers(output)
             ? sum
             : SumHeadsOp();
}

std::optional<ProgramHeads> ejk::headsToJam(const ShapeAnalysis &shapes, ProgramOp program) {
  auto segments = program.getSegments();
  if (program.getSlices() != 1 || program.getTrailing() || program.getTurns() ||
      program.getSkipped() || !program.getInto().empty() || (segments && !segments->isWhole()))
    return std::nullopt;
  ProgramHeads heads;
  heads.all = shapes.dim(program.getSequences().front(), kHeadsOfRows);
  auto note = [&](SmallVector<DimExpr> &others, Value tensor, unsigned dim) {
    DimExpr own = shapes.dim(tensor, dim);
    if (!(own == heads.all) && !llvm::is_contained(others, own))
      others.push_back(own);
  };
  for (Value rows : program.getSequences())
    note(areNumbers(rows) ? heads.same : heads.shared, rows, kHeadsOfRows);
  for (auto [parameter, arg] : llvm::zip(program.getParameters(), program.getParameterArgs()))
    if (std::optional<unsigned> dim = headsOfParameter(parameter, arg.getType()))
      note(heads.same, parameter, *dim);
  for (Value states : program.getInitialStates())
    note(heads.same, states, kHeadsOfStates);
  for (Value output : program.getOutputs())
    if (SumHeadsOp sum = sumOverHeads(output))
      note(heads.shared, sum.getLike(), kHeadsOfRows);
  auto noteChannels = [&](ValueRange tensors, unsigned dim) {
    for (Value tensor : tensors)
      if (auto type = cast<RankedTensorType>(tensor.getType());
          type.getRank() > int64_t(dim) + 1 && shapes.dim(tensor, dim) == heads.all)
        heads.channels = std::max(heads.channels, type.getDimSize(dim + 1));
  };
  for (ValueRange rows : {ValueRange(program.getSequences()), ValueRange(program.getOutputs())})
    noteChannels(rows, kHeadsOfRows);
  for (ValueRange states :
       {ValueRange(program.getInitialStates()), ValueRange(program.getSavedStates()),
        ValueRange(program.getFinalStates()), ValueRange(program.getSaves())})
    noteChannels(states, kHeadsOfStates);
  bool allClonable = true;
  program.getBlock().walk([&](Operation *op) {
    auto store = dyn_cast<StoreOp>(op);
    allClonable &= isClonable(op) &&
                   (!store || llvm::is_contained(program.getOutputArgs(), store.getRows()));
    if (auto loop = dyn_cast<scf::ForOp>(op))
      for (Type type : loop.getResultTypes())
        if (auto vector = dyn_cast<VectorType>(type); vector && vector.getRank() == 2)
          heads.carried += elementsOf(type);
  });
  if (!allClonable || heads.shared.empty())
    return std::nullopt;
  return heads;
}

//===----------------------------------------------------------------------===//
// Several heads' tensors as those of one
//===----------------------------------------------------------------------===//

/// The same elements in another shape.
static Value reshape(OpBuilder &b, Location loc, Value tensor, RankedTensorType type,
                     ArrayRef<Value> sizes) {
  if (tensor.getType() == type)
    return tensor;
  Value shape = tensor::FromElementsOp::create(b, loc, sizes);
  return tensor::ReshapeOp::create(b, loc, type, tensor, shape);
}

/// The sizes of `tensor`, whose heads, along `dim`, are `heads`.
static SmallVector<Value> sizesOf(OpBuilder &b, Location loc, Value tensor, unsigned dim,
                                  RankedTensorType type, Value heads) {
  SmallVector<Value> sizes;
  for (auto [d, size] : llvm::enumerate(type.getShape()))
    sizes.push_back(d == dim && ShapedType::isDynamic(size) ? heads
                    : ShapedType::isDynamic(size)
                        ? tensor::DimOp::create(b, loc, tensor, d).getResult()
                        : arith::ConstantIndexOp::create(b, loc, size).getResult());
  return sizes;
}

/// The type of `type`'s tensor with `count` heads along `dim` in each, one after the other.
static RankedTensorType joinedType(RankedTensorType type, unsigned dim, int64_t count) {
  SmallVector<int64_t> shape(type.getShape());
  if (!ShapedType::isDynamic(shape[dim]))
    shape[dim] /= count;
  if (shape.size() == dim + 1)
    shape.push_back(count);
  else
    shape[dim + 1] *= count;
  return type.clone(shape);
}

//===----------------------------------------------------------------------===//
// Their program
//===----------------------------------------------------------------------===//

namespace {
class HeadJam {
public:
  HeadJam(const ShapeAnalysis &shapes, ProgramOp program, int64_t count)
      : shapes(shapes), program(program), count(count), maps(count), b(program),
        loc(program.getLoc()) {}

  ProgramOp run() {
    makeProgram();
    findValuesOfHeads();
    b.setInsertionPointToStart(&made.getBlock());
    mapArguments();
    cloneBlock(program.getBlock());
    b.setInsertionPointAfter(made);
    replaceResults();
    return made;
  }

private:
  bool isShared(Value rows) {
    return !areNumbers(rows) &&
           !(shapes.dim(rows, kHeadsOfRows) == shapes.dim(first(), kHeadsOfRows));
  }
  Value first() { return program.getSequences().front(); }

  void makeProgram() {
    headsOfAll = tensor::DimOp::create(b, loc, first(), kHeadsOfRows);
    jammedHeads = arith::DivUIOp::create(b, loc, headsOfAll, index(count));
    made = cast<ProgramOp>(program->cloneWithoutRegions());
    auto join = [&](MutableOperandRange tensors, unsigned dim) {
      for (OpOperand &tensor : tensors)
        if (dim == kHeadsOfStates || !isShared(tensor.get()))
          tensor.set(joined(tensor.get(), dim));
    };
    join(made.getSequencesMutable(), kHeadsOfRows);
    SmallVector<Type> parameters(program.getParameterArgs().getTypes());
    for (auto [parameter, type] : llvm::zip(made.getParametersMutable(), parameters))
      if (std::optional<unsigned> dim = headsOfParameter(parameter.get(), type)) {
        parameter.set(joined(parameter.get(), *dim));
        type = slotOfParameter(type);
      }
    join(made.getInitialStatesMutable(), kHeadsOfStates);
    join(made.getSavedStatesMutable(), kHeadsOfStates);
    auto retype = [&](ResultRange results, unsigned dim) {
      for (Value result : results)
        result.setType(joinedType(cast<RankedTensorType>(result.getType()), dim, count));
    };
    retype(made.getFinalStates(), kHeadsOfStates);
    retype(made.getSaves(), kHeadsOfStates);
    for (auto [output, before] : llvm::zip(made.getOutputs(), program.getOutputs()))
      output.setType(typeOfOutput(before));
    b.insert(made);
    Block &block = made.getBody().emplaceBlock();
    for (Type type : made.argumentTypes(parameters))
      block.addArgument(type, loc);
  }

  SlotsType slotOfParameter(Type arg) {
    auto slots = dyn_cast<SlotsType>(arg);
    auto vector = slots ? cast<VectorType>(slots.getSlot()) : VectorType::get({1}, arg);
    SmallVector<int64_t> shape(vector.getShape());
    shape.front() *= count;
    return SlotsType::get(b.getContext(), VectorType::get(shape, vector.getElementType()));
  }

  /// Rows that heads add up are those of one.
  RankedTensorType typeOfOutput(Value output) {
    auto type = cast<RankedTensorType>(output.getType());
    if (!sumOverHeads(output))
      return joinedType(type, kHeadsOfRows, count);
    SmallVector<int64_t> shape(type.getShape());
    if (!ShapedType::isDynamic(shape[kHeadsOfRows]))
      shape[kHeadsOfRows] /= count;
    return type.clone(shape);
  }

  Value joined(Value tensor, unsigned dim) {
    RankedTensorType type = joinedType(cast<RankedTensorType>(tensor.getType()), dim, count);
    return reshape(b, loc, tensor, type, sizesOf(b, loc, tensor, dim, type, jammedHeads));
  }

  void replaceResults() {
    for (auto [before, after] : llvm::zip(program.getResults(), made.getResults())) {
      bool isRows = before.getResultNumber() < program.getOutputs().size();
      auto type = cast<RankedTensorType>(before.getType());
      unsigned dim = isRows ? kHeadsOfRows : kHeadsOfStates;
      Value whole = after;
      if (!isRows || !sumOverHeads(before))
        whole = reshape(b, loc, after, type, sizesOf(b, loc, after, dim, type, headsOfAll));
      before.replaceAllUsesWith(whole);
    }
    program.erase();
  }

  /// What is another value for each head, which is what is computed of rows and slots that they do
  /// not share.
  void findValuesOfHeads() {
    for (auto [rows, arg] : llvm::zip(program.getSequences(), program.getSequenceArgs()))
      if (!isShared(rows))
        ofHeads.insert(arg);
    for (auto [parameter, arg] : llvm::zip(program.getParameters(), program.getParameterArgs()))
      if (headsOfParameter(parameter, arg.getType()))
        ofHeads.insert(arg);
    for (ValueRange args : {program.getInitialArgs(), program.getSavedArgs(),
                            program.getOutputArgs(), program.getFinalArgs(), program.getSaveArgs()})
      ofHeads.insert(args.begin(), args.end());
    ofHeads.insert(program.getHead());
    program.getBlock().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        ofHeads.insert(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
        ofHeads.insert(loop.result_begin(), loop.result_end());
      } else if (isOfHeads(op)) {
        ofHeads.insert(op->result_begin(), op->result_end());
      }
    });
  }
  bool isOfHeads(Operation *op) {
    return llvm::any_of(op->getOperands(),
                        [&](Value operand) { return ofHeads.contains(operand); });
  }

  void mapArguments() {
    for (auto [before, after] :
         llvm::zip(program.getBlock().getArguments(), made.getBlock().getArguments()))
      mapAll(before, after);
    for (auto [before, after] : llvm::zip(program.getParameterArgs(), made.getParameterArgs()))
      if (ofHeads.contains(before) && !isa<SlotsType>(before.getType()))
        for (auto [number, map] : llvm::enumerate(maps))
          map.map(before,
                  LoadSlotOp::create(b, loc, before.getType(), after, index(0), index(number))
                      .getResult());
    if (!program.getNumHeads().use_empty())
      mapAll(program.getNumHeads(), mul(made.getNumHeads(), count));
    if (!program.getHead().use_empty())
      for (auto [number, map] : llvm::enumerate(maps))
        map.map(program.getHead(), add(mul(made.getHead(), count), number));
  }
  void mapAll(Value before, Value after) {
    for (IRMapping &map : maps)
      map.map(before, after);
  }

  void cloneBlock(Block &block) {
    llvm::MapVector<Operation *, SmallVector<Value>> terms;
    SmallVector<Operation *> run;
    for (Operation &op : block) {
      auto loop = dyn_cast<scf::ForOp>(op);
      if (!loop && !op.hasTrait<OpTrait::IsTerminator>()) {
        run.push_back(&op);
        continue;
      }
      cloneRun(run, terms);
      run.clear();
      if (loop)
        cloneLoop(loop);
    }
    for (auto &[store, tiles] : terms) {
      Value all = sum(tiles);
      cast<StoreOp>(b.clone(*store, maps.back())).getTileMutable().assign(all);
    }
    if (isa<EndOp>(block.getTerminator()))
      b.clone(*block.getTerminator());
  }

  /// Ops without regions: all of them for the first head, then those for each of the others. Notes
  /// the rows that each head adds to a sum.
  void cloneRun(ArrayRef<Operation *> ops,
                llvm::MapVector<Operation *, SmallVector<Value>> &terms) {
    for (auto [number, map] : llvm::enumerate(maps))
      for (Operation *op : ops) {
        auto store = dyn_cast<StoreOp>(op);
        if (store && sumOverHeads(outputOf(store))) {
          terms[store].push_back(map.lookup(store.getTile()));
          continue;
        }
        if (isOfHeads(op)) {
          place(b.clone(*op, map), *op, number);
        } else if (number == 0) {
          Operation *clone = b.clone(*op, map);
          for (auto [before, after] : llvm::zip(op->getResults(), clone->getResults()))
            mapAll(before, after);
        }
      }
  }

  /// A loop whose iterations are those of all heads.
  void cloneLoop(scf::ForOp loop) {
    auto ofAll = [&](ValueRange values) {
      SmallVector<Value> all;
      for (IRMapping &map : maps)
        for (Value value : values)
          all.push_back(map.lookup(value));
      return all;
    };
    IRMapping &map = maps.front();
    auto clone = scf::ForOp::create(b, loop.getLoc(), map.lookup(loop.getLowerBound()),
                                    map.lookup(loop.getUpperBound()), map.lookup(loop.getStep()),
                                    ofAll(loop.getInitArgs()));
    clone->setAttrs(loop->getAttrs());
    mapAll(loop.getInductionVar(), clone.getInductionVar());
    unsigned carried = loop.getNumRegionIterArgs();
    for (auto [number, own] : llvm::enumerate(maps)) {
      own.map(loop.getRegionIterArgs(), clone.getRegionIterArgs().slice(number * carried, carried));
      own.map(loop.getResults(), clone.getResults().slice(number * carried, carried));
    }
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(clone.getBody());
    cloneBlock(*loop.getBody());
    SmallVector<Value> yielded =
        ofAll(cast<scf::YieldOp>(loop.getBody()->getTerminator()).getResults());
    // A loop that carries nothing has its terminator.
    if (!yielded.empty())
      scf::YieldOp::create(b, loop.getLoc(), yielded);
  }

  Value outputOf(StoreOp store) {
    for (auto [output, arg] : llvm::zip(program.getOutputs(), program.getOutputArgs()))
      if (arg == store.getRows())
        return output;
    llvm_unreachable("a store is to an output's rows");
  }

  /// Has `clone` of `op` access the rows and slots of head `number` of those of `made`.
  void place(Operation *clone, Operation &op, int64_t number) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(clone);
    auto shift = [&](OpOperand &place, int64_t by) { place.set(add(place.get(), number * by)); };
    if (auto load = dyn_cast<LoadOp>(op); load && ofHeads.contains(load.getRows()))
      shift(cast<LoadOp>(clone).getChannelMutable(), elementsOf(load.getRows().getType().getRow()));
    else if (auto store = dyn_cast<StoreOp>(op))
      shift(cast<StoreOp>(clone).getChannelMutable(),
            elementsOf(store.getRows().getType().getRow()));
    else if (auto load = dyn_cast<LoadSlotOp>(op); load && ofHeads.contains(load.getSlots()))
      placeSlot(cast<LoadSlotOp>(clone).getOffsetsMutable(), load.getSlots().getType(), number);
    else if (auto store = dyn_cast<StoreSlotOp>(op))
      placeSlot(cast<StoreSlotOp>(clone).getOffsetsMutable(), store.getSlots().getType(), number);
  }
  /// Slots that are numbers become vectors of one for each head.
  void placeSlot(MutableOperandRange offsets, SlotsType slots, int64_t number) {
    auto vector = dyn_cast<VectorType>(slots.getSlot());
    if (!vector)
      return offsets.assign(index(number));
    OpOperand &first = *offsets.begin();
    first.set(add(first.get(), number * vector.getDimSize(0)));
  }

  /// The sum of one value of each head. Products with a matrix that they share become the product
  /// of a sum.
  Value sum(ArrayRef<Value> terms) {
    if (Value product = sumOfProducts(terms))
      return product;
    Value all = terms.front();
    for (Value term : terms.drop_front())
      all = arith::AddFOp::create(b, loc, all, term);
    return all;
  }
  Value sumOfProducts(ArrayRef<Value> terms) {
    auto product = terms.front().getDefiningOp<DotOp>();
    SmallVector<Value> factors, accumulators;
    for (Value term : terms) {
      auto each = term.getDefiningOp<DotOp>();
      auto rounded = each ? each.getLhs().getDefiningOp<arith::TruncFOp>() : arith::TruncFOp();
      if (!rounded || each.getRhs() != product.getRhs() || each->getAttrs() != product->getAttrs())
        return {};
      factors.push_back(rounded.getIn());
      accumulators.push_back(each.getAcc());
    }
    auto rounded = product.getLhs().getDefiningOp<arith::TruncFOp>();
    IRMapping map;
    map.map(
        product.getLhs(),
        arith::TruncFOp::create(b, rounded.getLoc(), rounded.getType(), sum(factors)).getResult());
    map.map(product.getAcc(), sum(accumulators));
    return b.clone(*product, map)->getResult(0);
  }

  Value index(int64_t number) { return arith::ConstantIndexOp::create(b, loc, number); }
  Value add(Value value, int64_t number) {
    return number ? b.createOrFold<arith::AddIOp>(loc, value, index(number)) : value;
  }
  Value mul(Value value, int64_t number) {
    return arith::MulIOp::create(b, loc, value, index(number));
  }

  const ShapeAnalysis &shapes;
  ProgramOp program, made;
  int64_t count;
  SmallVector<IRMapping> maps; // of each head
  llvm::DenseSet<Value> ofHeads;
  Value headsOfAll, jammedHeads;
  OpBuilder b;
  Location loc;
};
} // namespace

ProgramOp ejk::jamHeads(const ShapeAnalysis &shapes, ProgramOp program, int64_t count) {
  return HeadJam(shapes, program, count).run();
}
