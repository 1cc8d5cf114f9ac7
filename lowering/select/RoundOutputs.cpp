//===- RoundOutputs.cpp - outputs that are only used rounded --------------===//
#include "lowering/select/RoundOutputs.h"
#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;

/// The one user of `value` but for its sizes.
static Operation *onlyUser(Value value) {
  Operation *found = nullptr;
  for (Operation *user : value.getUsers()) {
    if (isa<tensor::DimOp>(user))
      continue;
    if (found)
      return nullptr;
    found = user;
  }
  return found;
}

static BlockArgument argumentOf(OpResult output) {
  auto program = cast<tile::ProgramOp>(output.getOwner());
  return cast<BlockArgument>(program.getOutputArgs()[output.getResultNumber()]);
}

/// Whether `value` is an output of a program that only stores its rows, or of a scan.
static bool mayRound(Value value) {
  auto output = dyn_cast<OpResult>(value);
  if (!output)
    return false;
  if (auto scan = dyn_cast<ScanOp>(output.getOwner()))
    return output.getResultNumber() < scan.getOutputs().size();
  auto program = dyn_cast<tile::ProgramOp>(output.getOwner());
  return program && output.getResultNumber() < program.getOutputs().size() &&
         llvm::all_of(argumentOf(output).getUsers(), llvm::IsaPred<tile::StoreOp>);
}

static Value rounded(OpBuilder &b, Location loc, Value value, Type element) {
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = vector.clone(element);
  return arith::TruncFOp::create(b, loc, type, value);
}

static void round(OpResult output, Type element) {
  if (auto scan = dyn_cast<ScanOp>(output.getOwner())) {
    ejk::YieldOp yield = scan.getYield();
    OpBuilder b(yield);
    OpOperand &yielded = yield.getOutputsMutable()[output.getResultNumber()];
    yielded.set(rounded(b, yield.getLoc(), yielded.get(), element));
  } else {
    BlockArgument rows = argumentOf(output);
    auto type = cast<tile::RowsType>(rows.getType());
    auto row = dyn_cast<VectorType>(type.getRow());
    for (Operation *user : rows.getUsers()) {
      auto store = cast<tile::StoreOp>(user);
      OpBuilder b(store);
      store.getTileMutable().set(rounded(b, store.getLoc(), store.getTile(), element));
    }
    rows.setType(tile::RowsType::get(rows.getContext(), row ? Type(row.clone(element)) : element));
  }
  output.setType(cast<RankedTensorType>(output.getType()).clone(element));
}

/// What `output` of a program starts as; null where that is nothing.
static Value startOf(Value output) {
  auto program = output.getDefiningOp<tile::ProgramOp>();
  if (program)
    for (auto [start, result] : llvm::zip(program.getInto(), program.getResultsFromInto()))
      if (result == output)
        return start;
  return {};
}

unsigned ejk::roundOutputs(ModuleOp module) {
  SmallVector<arith::TruncFOp> roundings;
  module.walk([&](arith::TruncFOp op) {
    if (isa<RankedTensorType>(op.getType()) && getElementTypeOrSelf(op.getIn()).isF32())
      roundings.push_back(op);
  });
  unsigned count = 0;
  for (arith::TruncFOp rounding : roundings) {
    Value value = rounding.getIn();
    if (onlyUser(value) != rounding)
      continue;
    SmallVector<Value> outputs = {value};
    auto choose = value.getDefiningOp<tile::ChooseOp>();
    if (choose) // sequences of one row are a scan's
      outputs = {choose.getSingle(), choose.getSeveral()};
    auto isRoundable = [&](Value output) {
      return mayRound(output) && onlyUser(output) == (choose ? choose.getOperation() : rounding);
    };
    if (!llvm::all_of(outputs, isRoundable))
      continue;
    SmallVector<Value> starts;
    for (Value output : outputs)
      if (Value start = startOf(output))
        starts.push_back(start);
    auto isUsedOnce = [](Value start) { return mayRound(start) && onlyUser(start); };
    if (!llvm::all_of(starts, isUsedOnce))
      continue;
    llvm::append_range(outputs, starts);
    for (Value output : outputs)
      round(cast<OpResult>(output), getElementTypeOrSelf(rounding.getType()));
    if (choose)
      choose.getResult().setType(cast<RankedTensorType>(rounding.getType()));
    rounding.getResult().replaceAllUsesWith(value);
    rounding.erase();
    ++count;
  }
  return count;
}
