//===- FrontOps.cpp - the ops of a chunk's front ---------------------------===//
#include "passes/program/FrontOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

llvm::DenseSet<Operation *> ejk::opsOfSlice(ProgramOp program) {
  llvm::DenseSet<Operation *> ops;
  SmallVector<Value> left = {program.getSlice()};
  while (!left.empty())
    for (Operation *user : left.pop_back_val().getUsers())
      if (!isa<scf::ForOp>(user) &&
          ops.insert(user).second) // what loops carry depends on the state
        llvm::append_range(left, user->getResults());
  return ops;
}

void ejk::hoistRowsAlone(scf::ForOp loop, const llvm::DenseSet<Operation *> &others) {
  // Values of the loop's body that are of the rows alone.
  llvm::DenseSet<Value> known = {loop.getInductionVar()};
  auto isKnown = [&](Value operand) {
    return known.contains(operand) ||
           operand.getParentRegion()->isProperAncestor(&loop.getRegion());
  };
  auto isOfRows = [&](Operation &op) {
    return op.getNumRegions() == 0 && !others.contains(&op) &&
           llvm::all_of(op.getOperands(), isKnown);
  };
  for (Operation &op : llvm::make_early_inc_range(*loop.getBody())) {
    if (auto branch = dyn_cast<GuardedOp>(op)) {
      for (Operation &inner :
           llvm::make_early_inc_range(branch.getFastBlock()->without_terminator()))
        if (isMemoryEffectFree(&inner) && isOfRows(inner)) {
          inner.moveBefore(branch);
          known.insert(inner.result_begin(), inner.result_end());
        }
    } else if ((isMemoryEffectFree(&op) || isa<LoadOp>(op)) && isOfRows(op)) {
      known.insert(op.result_begin(), op.result_end());
    }
  }
}

/// Whether nothing but the exact path of `branch` uses `value`, or is made of it.
static bool isForExactPath(GuardedOp branch, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return branch.getExact().isAncestor(user->getParentRegion()) ||
           (isa<arith::ExtFOp>(user) && isForExactPath(branch, user->getResult(0)));
  });
}

/// Gives the exact path of `branch` its own `value`, if that is rows or made of rows alone, and if
/// no other path uses it or `always` holds.
static Value forExactPath(GuardedOp branch, Value value, bool always, IRMapping &map) {
  if (Value own = map.lookupOrNull(value))
    return own;
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != branch->getBlock() || !isa<LoadOp, arith::ExtFOp>(def) ||
      !(always || isForExactPath(branch, value)))
    return value;
  if (auto widened = dyn_cast<arith::ExtFOp>(def))
    forExactPath(branch, widened.getIn(), always, map);
  OpBuilder b(branch.getContext());
  Block *exact = branch.getExactBlock();
  // After the rows that it is made of.
  Operation *own = map.lookupOrDefault(def->getOperand(0)).getDefiningOp();
  if (own && own->getBlock() == exact)
    b.setInsertionPointAfter(own);
  else
    b.setInsertionPointToStart(exact);
  return b.clone(*def, map)->getResult(0);
}

void ejk::loadOnExactPaths(scf::ForOp loop) {
  loop.walk([&](GuardedOp branch) {
    bool isInner = branch->getParentOp() != loop;
    IRMapping map;
    branch.getExact().walk([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(forExactPath(branch, operand.get(), isInner, map));
    });
  });
}

bool ejk::isZeroPastEnd(Value tile) {
  Operation *def = tile.getDefiningOp();
  if (!def)
    return false;
  auto operandIs = [&](unsigned i) { return isZeroPastEnd(def->getOperand(i)); };
  return llvm::TypeSwitch<Operation *, bool>(def)
      .Case<LoadOp>([](auto) { return true; })
      .Case<arith::TruncFOp, arith::ExtFOp, arith::NegFOp>([&](auto) { return operandIs(0); })
      .Case<arith::MulFOp>([&](auto) { return operandIs(0) || operandIs(1); })
      .Case<arith::AddFOp, arith::SubFOp>([&](auto) { return operandIs(0) && operandIs(1); })
      .Case([&](MaskOp mask) { return mask.getOtherwise().isZero() && operandIs(0); })
      .Case([&](DotOp dot) {
        return !dot.getLhsTransposed() && isZeroPastEnd(dot.getLhs()) &&
               isZeroPastEnd(dot.getAcc());
      })
      .Default([&](Operation *) { return matchPattern(tile, m_AnyZeroFloat()); });
}

/// Whether `op` is a number of a guard's, which its uses alone read.
static bool isForGuards(Operation *op) {
  return llvm::all_of(op->getUsers(), [](Operation *user) {
    return isa<RangeGuardOp>(user) || (isa<arith::SelectOp>(user) && isForGuards(user));
  });
}

bool ejk::isWithoutPlaces(scf::ForOp loop, const llvm::DenseSet<Operation *> &ops) {
  return llvm::all_of(*loop.getBody(), [&](Operation &op) {
    if (!ops.contains(&op))
      return true;
    if (op.getNumRegions() != 0)
      return false;
    bool givesIndices = llvm::all_of(op.getResultTypes(), llvm::IsaPred<IndexType>);
    bool takesIndices = llvm::any_of(op.getOperandTypes(), llvm::IsaPred<IndexType>);
    return !takesIndices || givesIndices || isa<LoadOp>(op) ||
           (isa<arith::CmpIOp>(op) && isForGuards(&op));
  });
}

//===----------------------------------------------------------------------===//
// One order of ops
//===----------------------------------------------------------------------===//

/// What `first` is `chunk` times, if it is computed in `loop`, and nothing else of `ops` says which
/// chunk is at hand; otherwise null. `computing` becomes the ops that compute it.
static Value numberOfChunk(scf::ForOp loop, const llvm::DenseSet<Operation *> &ops, Value first,
                           int64_t chunk, llvm::DenseSet<Operation *> &computing) {
  auto times = first.getDefiningOp<arith::MulIOp>();
  if (!times || getConstantIntValue(times.getRhs()) != chunk)
    return {};
  Value number = times.getLhs();
  SmallVector<Value> left = {number};
  while (!left.empty())
    if (Operation *def = left.pop_back_val().getDefiningOp();
        def && def->getBlock() == loop.getBody() && computing.insert(def).second)
      llvm::append_range(left, def->getOperands());
  bool isAlone = llvm::all_of(*loop.getBody(), [&](Operation &op) {
    return !ops.contains(&op) || computing.contains(&op) ||
           llvm::none_of(op.getOperands(), [&](Value operand) {
             Operation *def = operand.getDefiningOp();
             return operand == loop.getInductionVar() ||
                    (def && def != number.getDefiningOp() && computing.contains(def));
           });
  });
  return number.getDefiningOp() && isAlone ? number : Value();
}

void ejk::cloneInOneOrder(OpBuilder &b, scf::ForOp loop, const llvm::DenseSet<Operation *> &ops,
                          Value first, int64_t chunk, IRMapping &map) {
  llvm::DenseSet<Operation *> computing;
  if (Value number = numberOfChunk(loop, ops, first, chunk, computing))
    map.map(number, map.lookup(loop.getInductionVar()));
  else
    computing.clear();
  SmallVector<Operation *> left;
  for (Operation &op : *loop.getBody())
    if (ops.contains(&op) && !computing.contains(&op))
      left.push_back(&op);
  // By name, and by when the operands were made.
  llvm::DenseMap<Value, int64_t> places;
  auto placesOf = [&](Operation *op) {
    SmallVector<int64_t> all;
    for (Value operand : op->getOperands()) {
      Value made = map.lookupOrDefault(operand);
      auto arg = dyn_cast<BlockArgument>(made);
      all.push_back(arg ? int64_t(arg.getArgNumber()) - 1000 : places.lookup(made));
    }
    if (op->hasTrait<OpTrait::IsCommutative>())
      llvm::sort(all);
    return all;
  };
  auto isReady = [&](Operation *op) {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return operand.getParentBlock() != loop.getBody() || map.contains(operand);
    });
  };
  auto comesBefore = [&](Operation *x, Operation *y) {
    StringRef nameOfX = x->getName().getStringRef(), nameOfY = y->getName().getStringRef();
    return nameOfX != nameOfY ? nameOfX < nameOfY : placesOf(x) < placesOf(y);
  };
  while (!left.empty()) {
    SmallVector<Operation *> ready = llvm::filter_to_vector(left, isReady);
    Operation *next = *std::min_element(ready.begin(), ready.end(), comesBefore);
    Operation *made = b.clone(*next, map);
    if (made->hasTrait<OpTrait::IsCommutative>() && made->getNumOperands() == 2 &&
        places.lookup(made->getOperand(1)) < places.lookup(made->getOperand(0)))
      made->setOperands({made->getOperand(1), made->getOperand(0)});
    for (Value result : made->getResults())
      places[result] = int64_t(places.size()) + 1;
    llvm::erase(left, next);
  }
}
