//===- CpuTileValues.cpp - elements of a block program's tiles on a CPU ---===//
#include "lowering/cpu/CpuTileEmitter.h"
#include "dialect/ejk/Searches.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ejk;

/// Blocks of matmuls, in registers: as many sums as hide their latency, four rows of four
/// registers; or a register's square, of which a triangle is made without the rest.
static constexpr int64_t kBlockRows = 4, kBlockVectors = 4;

//===----------------------------------------------------------------------===//
// Memory on the stack
//===----------------------------------------------------------------------===//

Value CpuTileEmitter::allocate(int64_t bytes) {
  stackBytes += bytes;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  Type type = LLVM::LLVMArrayType::get(b.getI8Type(), unsigned(bytes));
  return b.make<LLVM::AllocaOp>(b.pointer(), type, b.i64(1), /*alignment=*/64);
}

Value CpuTileEmitter::allocateFor(Value tile) {
  auto type = cast<VectorType>(tile.getType());
  return allocate(llvm::alignTo(type.getNumElements(), kLanes) * CpuBuilder::elementBytes(type));
}

/// Where element (row, column) of a tile in memory lies.
Value CpuTileEmitter::place(Value tile, Value row, Value column) {
  if (rank(tile) == 1)
    return b.at(buffers.lookup(tile), elementOf(tile), column);
  Value stride = strides.lookup(tile);
  Value start = stride ? b.mul(row, stride) : b.mul(row, dim(tile, 1));
  return b.at(buffers.lookup(tile), elementOf(tile), b.add(start, column));
}

//===----------------------------------------------------------------------===//
// Pending tiles
//===----------------------------------------------------------------------===//

/// Whether to compute a pending tile's elements twice would cost more than to load them.
bool CpuTileEmitter::isCostly(Value tile) const {
  Operation *op = tile.getDefiningOp();
  if (!op || buffers.lookup(tile))
    return false;
  if (isa<tile::DotOp, arith::DivFOp>(op) ||
      (op->getDialect() && op->getDialect()->getNamespace() == "math"))
    return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return isTile(operand) && rank(operand) == 2 && isCostly(operand);
  });
}

/// Whether elements of `tile` are computed from what `buffer`, or its pack, holds.
bool CpuTileEmitter::readsBuffer(Value tile, Value buffer) const {
  if (Value known = buffers.lookup(tile))
    return known == buffer;
  Operation *op = tile.getDefiningOp();
  if (auto dot = dyn_cast_or_null<tile::DotOp>(op)) { // whose operands are packed by then
    Value pack = packsOfBuffers.lookup(buffer);
    return (pack && rowPacks.lookup(dot.getRhs()) == pack) || readsBuffer(dot.getAcc(), buffer);
  }
  return op && llvm::any_of(op->getOperands(), [&](Value operand) {
           return isTile(operand) && readsBuffer(operand, buffer);
         });
}

/// `op` on `lanes` channels of its operands.
Value CpuTileEmitter::evaluateOp(Operation *op, unsigned lanes, ArrayRef<Value> operands) {
  if (isa<math::ExpOp, math::Exp2Op>(op) && rank(op->getResult(0)) == 2)
    return exponential(operands[0], isa<math::Exp2Op>(op));
  OperationState state(b.loc, op->getName());
  state.addOperands(operands);
  state.addAttributes(op->getAttrs());
  state.addTypes(CpuBuilder::withCount(op->getResult(0).getType(), lanes));
  return b.create(state)->getResult(0);
}

/// Channels from `position` on of a vector.
Value CpuTileEmitter::evaluateLine(Value vector, Value position, unsigned lanes) {
  Type type = CpuBuilder::withCount(vector.getType(), lanes);
  if (buffers.lookup(vector))
    return b.loadLanes(type, place(vector, {}, position));
  Operation *op = vector.getDefiningOp();
  DenseElementsAttr constant;
  if (matchPattern(vector, m_Constant(&constant)) && constant.isSplat())
    return b.splat(
        b.make<arith::ConstantOp>(cast<TypedAttr>(constant.getSplatValue<Attribute>())), lanes);
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
    return b.splat(scalars.lookup(broadcast.getSource()), lanes);
  if (auto window = dyn_cast<tile::WindowOp>(op))
    return evaluateWindow(window, position, lanes);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isTile(operand) ? evaluateLine(operand, position, lanes)
                                       : scalars.lookup(operand));
  return evaluateOp(op, lanes, operands);
}

Value CpuTileEmitter::evaluateWindow(tile::WindowOp op, Value position, unsigned lanes) {
  Value inner = evaluateLine(op.getTile(), position, lanes), index = b.narrow(position);
  if (lanes > 1) {
    auto type = VectorType::get({int64_t(lanes)}, b.getI32Type());
    auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
    index = b.add(b.splat(index, lanes), b.make<arith::ConstantOp>(DenseElementsAttr::get(
                                             type, ArrayRef<int32_t>(numbers))));
  }
  auto bound = [&](Value value) { return b.splat(b.narrow(asI64(value)), lanes); };
  Value from = b.make<arith::CmpIOp>(arith::CmpIPredicate::sge, index, bound(op.getFrom()[0]));
  Value to = b.make<arith::CmpIOp>(arith::CmpIPredicate::slt, index, bound(op.getTo()[0]));
  return b.make<arith::SelectOp>(b.both(from, to), inner,
                                 b.number(op.getOtherwise().convertToDouble(), lanes));
}

/// A block of a pending tile, or of one in memory.
CpuTileEmitter::Block CpuTileEmitter::evaluate(Value tile, const Area &at) {
  Type type = CpuBuilder::withCount(tile.getType(), kLanes);
  auto forEach = [&](llvm::function_ref<Value(Value row, Value column)> compute) {
    Block block;
    for (int64_t r = 0; r < at.rows; ++r)
      for (int64_t v = 0; v < at.vectors; ++v)
        block.push_back(compute(b.add(at.row, r), b.add(at.column, v * kLanes)));
    return block;
  };
  if (buffers.lookup(tile))
    return forEach([&](Value row, Value column) {
      return b.loadLanes(type, place(tile, row, column));
    });
  Operation *op = tile.getDefiningOp();
  if (op && op == atHand.first)
    return atHand.second;
  DenseElementsAttr constant;
  if (matchPattern(tile, m_Constant(&constant)) && constant.isSplat()) {
    Value number = b.splat(
        b.make<arith::ConstantOp>(cast<TypedAttr>(constant.getSplatValue<Attribute>())), kLanes);
    return forEach([&](Value, Value) { return number; });
  }
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
    Value vector = broadcast.getVector();
    return forEach([&](Value row, Value column) {
      return broadcast.getDim() == 0 ? b.splat(evaluateLine(vector, row, 1), kLanes)
                                     : evaluateLine(vector, column, kLanes);
    });
  }
  if (auto broadcast = dyn_cast<vector::BroadcastOp>(op)) {
    Value number = b.splat(scalars.lookup(broadcast.getSource()), kLanes);
    return forEach([&](Value, Value) { return number; });
  }
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return evaluateDot(dot, at);
  if (auto mask = dyn_cast<tile::MaskOp>(op))
    return evaluateMask(mask, at);
  if (Value inverse = inverseAtHand(op)) {
    Block block = evaluate(inverse, at);
    return llvm::map_to_vector(block, [&](Value element) { return reciprocal(element); });
  }
  auto evaluateAll = [&] {
    SmallVector<Block> operands;
    for (Value operand : op->getOperands())
      operands.push_back(isTile(operand) ? evaluate(operand, at)
                                         : Block(at.rows * at.vectors, scalars.lookup(operand)));
    Block block;
    for (int64_t i = 0; i < at.rows * at.vectors; ++i)
      block.push_back(
          evaluateOp(op, kLanes, llvm::map_to_vector(operands, [&](const Block &operand) {
                       return operand[i];
                     })));
    return block;
  };
  tile::MaskOp mask = isa<arith::MulFOp>(op) ? maskOf(tile) : tile::MaskOp();
  return mask ? onOneSide(mask, at, 0, evaluateAll) : evaluateAll();
}

/// A block that lies on the other side of the diagonal is not computed.
CpuTileEmitter::Block CpuTileEmitter::onOneSide(tile::MaskOp mask, const Area &at, double otherwise,
                                                llvm::function_ref<Block()> compute) {
  bool upper = mask.getUpper();
  Value other = b.number(otherwise, kLanes);
  Value begins = upper ? at.row : at.column;
  Value ends = upper ? b.add(at.column, at.vectors * kLanes) : b.add(at.row, at.rows);
  SmallVector<Type> types(at.rows * at.vectors, other.getType());
  auto branch = b.make<scf::IfOp>(types, b.less(begins, ends), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  b.make<scf::YieldOp>(compute());
  b.setInsertionPointToStart(branch.elseBlock());
  b.make<scf::YieldOp>(Block(types.size(), other));
  return Block(branch.getResults());
}

CpuTileEmitter::Block CpuTileEmitter::evaluateMask(tile::MaskOp op, const Area &at) {
  return onOneSide(op, at, op.getOtherwise().convertToDouble(), [&] { return applyMask(op, at); });
}

CpuTileEmitter::Block CpuTileEmitter::applyMask(tile::MaskOp op, const Area &at) {
  bool upper = op.getUpper();
  Value other = b.number(op.getOtherwise().convertToDouble(), kLanes);
  Block block = evaluate(op.getTile(), at);
  auto indices = VectorType::get({kLanes}, b.getI32Type());
  auto lanes = llvm::to_vector(llvm::seq<int32_t>(0, kLanes));
  Value lane = b.make<arith::ConstantOp>(DenseElementsAttr::get(indices, ArrayRef<int32_t>(lanes)));
  auto predicate = upper ? (op.getStrict() ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::sge)
                         : (op.getStrict() ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle);
  for (int64_t r = 0; r < at.rows; ++r)
    for (int64_t v = 0; v < at.vectors; ++v) {
      Value column = b.add(at.column, v * kLanes);
      Value diagonal = b.splat(b.narrow(b.sub(b.add(at.row, r), column)), kLanes);
      Value keeps = b.make<arith::CmpIOp>(predicate, lane, diagonal);
      Value &element = block[r * at.vectors + v];
      element = b.make<arith::SelectOp>(keeps, element, other);
    }
  return block;
}

//===----------------------------------------------------------------------===//
// From pending to memory
//===----------------------------------------------------------------------===//

/// Puts what the matmuls of a pending tile multiply where they read it. A block of a register's
/// square reads sixteen rows of the left operand at once, which lie side by side in column pairs.
void CpuTileEmitter::prepare(Value tile, bool inSquares) {
  Operation *op = tile.getDefiningOp();
  if (!op || buffers.lookup(tile))
    return;
  if (auto dot = dyn_cast<tile::DotOp>(op)) {
    if (dot.getLhsTransposed())
      rowPairs(dot.getLhs());
    else if (inSquares)
      columnPairs(dot.getLhs());
    else if (!columnPacks.lookup(dot.getLhs()))
      inRows(dot.getLhs());
    if (dot.getRhsTransposed())
      columnPairs(dot.getRhs());
    else
      rowPairs(dot.getRhs());
    return prepare(dot.getAcc(), inSquares);
  }
  for (Value operand : op->getOperands())
    if (isTile(operand))
      prepare(operand, inSquares);
}

/// Whether a masked matmul is computed for `tile`.
static bool isTriangle(Value tile) {
  return meetsAmongOperands(tile, [](Value part) {
    Operation *op = part.getDefiningOp();
    return isa_and_nonnull<tile::MaskOp>(op)                    ? Met::wanted
           : op && op->getDialect() && !isa<tile::DotOp>(op) ? Met::more
                                                                : Met::nothing;
  });
}

void CpuTileEmitter::forEachBlock(Value tile, Visit visit, bool asksForNext) {
  int64_t numRows = dim(tile, 0), vectors = dim(tile, 1) / kLanes;
  bool triangle = isPending(tile) && isTriangle(tile) && numRows % kLanes == 0;
  prepare(tile, /*inSquares=*/triangle);
  int64_t height = triangle ? kLanes : kBlockRows;
  int64_t width = triangle ? 1 : std::min(vectors, kBlockVectors);
  while (numRows % height)
    height /= 2;
  while (vectors % width)
    --width;
  int64_t across = vectors / width, blocks = numRows / height * across;
  bool prefetches = asksForNext && mayPrefetch(tile);
  b.loop(b.i64(0), b.i64(numRows), height, {}, [&](Value row, ValueRange) {
    b.loop(b.i64(0), b.i64(vectors * kLanes), width * kLanes, {}, [&](Value column, ValueRange) {
      if (prefetches)
        prefetchNext(b.add(b.mul(b.div(row, height), across), b.div(column, width * kLanes)),
                     blocks);
      Area at{row, column, height, width};
      visit(at, evaluateToStore(tile, at));
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
  if (prefetches)
    accesses.clear();
}

/// The channels of a vector, a register of them at a time.
void CpuTileEmitter::forEachLine(Value vector,
                                 llvm::function_ref<void(Value position, Value lanes)> visit) {
  int64_t length = dim(vector, 0), lanes = length % kLanes ? length : kLanes;
  b.loop(b.i64(0), b.i64(length), lanes, {}, [&](Value position, ValueRange) {
    visit(position, evaluateLine(vector, position, lanes));
    return SmallVector<Value>();
  });
}

/// A block as it goes to memory. One instruction rounds two registers of f32 to one of bf16.
CpuTileEmitter::Block CpuTileEmitter::evaluateToStore(Value tile, const Area &at) {
  auto round = isPending(tile) ? tile.getDefiningOp<arith::TruncFOp>() : arith::TruncFOp();
  if (!round || !elementOf(tile).isBF16() || at.vectors % 2)
    return evaluate(tile, at);
  Block wide = evaluate(round.getIn(), at), narrow;
  for (size_t i = 0; i < wide.size(); i += 2)
    narrow.push_back(roundBoth(wide[i], wide[i + 1]));
  return narrow;
}

/// Stores row `row` of a block of `evaluateToStore`.
void CpuTileEmitter::storeRow(const Area &at, const Block &block, int64_t row,
                              llvm::function_ref<Value(Value column)> placeOf) {
  int64_t perRow = block.size() / at.rows, lanes = at.vectors * kLanes / perRow;
  for (int64_t i = 0; i < perRow; ++i)
    b.storeLanes(block[row * perRow + i], placeOf(b.add(at.column, i * lanes)));
}

void CpuTileEmitter::write(Value tile, Value buffer) {
  Type element = elementOf(tile);
  if (rank(tile) == 1)
    return forEachLine(tile, [&](Value position, Value lanes) {
      b.storeLanes(lanes, b.at(buffer, element, position));
    });
  Value pack = packsOfBuffers.lookup(buffer);
  forEachBlock(tile, [&](const Area &at, const Block &block) {
    for (int64_t r = 0; r < at.rows; ++r)
      storeRow(at, block, r, [&](Value column) {
        Value offset = b.add(b.mul(b.add(at.row, r), dim(tile, 1)), column);
        return b.at(buffer, element, offset);
      });
    if (pack)
      storeRowPairs(at, block, dim(tile, 1), pack);
  }, /*asksForNext=*/true);
}

/// The buffer of `tile`, which is computed if it is pending.
Value CpuTileEmitter::inMemory(Value tile) {
  if (Value known = buffers.lookup(tile))
    return known;
  Value made = allocateFor(tile);
  write(tile, made);
  return buffers[tile] = made;
}

/// Puts a tile's rows one behind the other. Sixteen rows that are a run-time stride apart have as
/// many addresses, for which a matmul's loop has no registers.
void CpuTileEmitter::inRows(Value tile) {
  inMemory(tile);
  if (!strides.lookup(tile))
    return;
  Value made = allocateFor(tile);
  Type type = VectorType::get({2 * kLanes}, b.getBF16Type());
  int64_t columns = dim(tile, 1);
  b.loop(b.i64(0), b.i64(dim(tile, 0)), 1, {}, [&](Value row, ValueRange) {
    for (int64_t column = 0; column < columns; column += 2 * kLanes)
      b.storeLanes(b.loadLanes(type, place(tile, row, b.i64(column))),
                   b.at(made, b.getBF16Type(), b.add(b.mul(row, columns), column)));
    return SmallVector<Value>();
  });
  buffers[tile] = made;
  strides.erase(tile);
}

/// Gives each buffer its tile's elements, and its pack. A tile may be computed from what its own
/// buffer holds at the same places. Those that read another's buffer come before that one; where
/// they read each other's, all are computed first.
void CpuTileEmitter::assign(ArrayRef<std::pair<Value, Value>> buffersAndTiles) {
  SmallVector<std::pair<Value, Value>> left(buffersAndTiles);
  for (auto [buffer, tile] : left)
    prepare(tile);
  auto put = [&](Value buffer, Value tile) {
    if (buffers.lookup(tile) != buffer)
      write(tile, buffer);
    else if (packsOfBuffers.lookup(buffer) && !packed.contains(tile))
      packWhole(tile, packsOfBuffers.lookup(buffer));
  };
  while (!left.empty()) {
    auto unread = llvm::find_if(left, [&](auto &target) {
      return llvm::none_of(left, [&](auto &other) {
        return other.first != target.first && readsBuffer(other.second, target.first);
      });
    });
    if (unread == left.end())
      break;
    put(unread->first, unread->second);
    left.erase(unread);
  }
  for (auto [buffer, tile] : left)
    inMemory(tile);
  for (auto [buffer, tile] : left)
    put(buffer, tile);
}
