//===- TileWarpgroup.cpp - matmuls by warpgroups (wgmma) -------------------===//
//
// Emits tile.dot by `wgmma`. Four warps multiply 64 rows of operand A, from shared memory or
// from their registers, by operand B in shared memory. The matmul runs asynchronously: it is
// issued where it stands in the program, and the plan says where to wait. Groups complete in
// order: waiting for one waits for all earlier ones.
//
// The matmul is inline assembly, because upstream's ops (nvvm.wgmma.mma_async, and
// nvgpu.warpgroup.mma, which becomes it) take operand A from shared memory only. Here A mostly
// comes from registers. One assembly text has all K steps, so that LLVM cannot move an
// instruction between them that writes a register which a running wgmma reads.
//
// A descriptor names an operand in shared memory: the address of its first 8 rows of 128
// bytes, the distance to the next 8 rows, and the distance to the next 128-byte block.
// The next elements along K, 16 of 16 bits or 8 of f32, for the next wgmma, are
//
//   16 rows further       if the operand's rows follow one another along K, and a row lies along M
//                         (for A) or N (for B)
//   32 bytes further      if its rows follow one another along M or N, and a row lies along K
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

/// The bytes of an operand's rows along K that one instruction takes.
static constexpr int64_t kStepBytes = 32;
/// Addresses in descriptors count 16 bytes.
static constexpr int64_t kUnit = 16;

static int64_t bytesOfElement(const Placed &tile) {
  return KernelBuilder::bytesOf(getElementTypeOrSelf(tile.type));
}
/// K of one instruction.
static int64_t stepOf(const Placed &operand) { return kStepBytes / bytesOfElement(operand); }

/// The bytes from one block of columns to the next.
static int64_t columnBlockBytesOf(const Placed &tile) {
  return cast<VectorType>(tile.type).getDimSize(isTransposed(tile.layout)) * kSwizzledPitch;
}

/// The descriptor of a swizzled operand, from row or column `first` across on.
Value TileEmitter::descriptorOf(const Placed &tile, bool rowsAcross, Value first) {
  int64_t blockBytes = columnBlockBytesOf(tile);
  Value offset = rowsAcross ? b.mul(first, kSwizzledPitch)
                            : b.add(b.mul(b.div(first, kSwizzledColumns), blockBytes),
                                    b.mul(b.rem(first, kSwizzledColumns), 2));
  // All descriptors are computed from one base, so that they differ by constants and share
  // registers.
  auto numberOf = [&](Value address) -> Value {
    return b.make<LLVM::PtrToIntOp>(b.getI32Type(), address);
  };
  Value all = numberOf(b.make<LLVM::AddressOfOp>(shared));
  Value start = b.make<arith::AndIOp>(b.div(all, kUnit), b.i32(0x3FFF));
  Value fromBase = b.sub(numberOf(tile.address), all);
  Value low = b.add(b.add(start, b.div(offset, kUnit)),
                    b.add(b.div(fromBase, kUnit), b.i32((blockBytes / kUnit) << 16)));
  int64_t groups = 8 * kSwizzledPitch / kUnit, swizzle128 = int64_t(1) << 62;
  return b.make<arith::OrIOp>(b.wide(low), b.i64(swizzle128 | groups << 32));
}

/// The distance of the descriptor of K step `step` from that of the first.
static int64_t descriptorOffset(const Placed &tile, bool rowsAcross, int64_t step) {
  int64_t bytes = step * stepOf(tile) * kSwizzledPitch;
  if (rowsAcross) {
    int64_t along = step * kStepBytes;
    bytes = along / kSwizzledPitch * columnBlockBytesOf(tile) + along % kSwizzledPitch;
  }
  return bytes / kUnit;
}

Value TileEmitter::callAsm(const std::string &text, const std::string &constraints,
                           ValueRange operands, Type result) {
  auto op = b.make<LLVM::InlineAsmOp>(
      result ? TypeRange(result) : TypeRange(), operands, text, constraints,
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr(), ArrayAttr());
  return result ? op.getRes() : Value();
}

static Type structOfF32(KernelBuilder &b, unsigned count) {
  return LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, b.getF32Type()));
}

static std::string listOf(const std::string &what, unsigned count) {
  std::string result;
  for (unsigned i = 0; i < count; ++i)
    result += (i ? "," : "") + what;
  return result;
}

/// "{$from, …}", of `count` operands.
static std::string operandList(unsigned from, unsigned count) {
  std::string list = "{";
  for (unsigned i = 0; i < count; ++i)
    list += (i ? ", $" : "$") + std::to_string(from + i);
  return list + "}";
}

/// Materialises `elements` here: passes them through an empty inline assembly, which LLVM cannot
/// move their computation past. 16-bit elements must come in an even number.
SmallVector<Value> TileEmitter::materializeHere(ArrayRef<Value> elements) {
  Type element = elements.front().getType();
  unsigned perWord = 32 / element.getIntOrFloatBitWidth();
  Type word = perWord == 1 ? element : VectorType::get({perWord}, element);
  SmallVector<Value> words;
  for (unsigned i = 0; i < elements.size(); i += perWord)
    words.push_back(b.make<LLVM::BitcastOp>(b.getI32Type(), b.pack(elements.slice(i, perWord))));
  std::string constraints = listOf("=r", words.size());
  for (unsigned i = 0; i < words.size(); ++i)
    constraints += "," + std::to_string(i);
  bool isSingle = words.size() == 1;
  Type type = b.getI32Type();
  if (!isSingle)
    type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(words.size(), type));
  Value made = callAsm("", constraints, words, type);
  SmallVector<Value> result;
  for (unsigned i = 0; i < words.size(); ++i) {
    Value own = isSingle ? made : Value(b.make<LLVM::ExtractValueOp>(made, int64_t(i)));
    result.append(b.unpack(b.make<LLVM::BitcastOp>(word, own)));
  }
  return result;
}

/// Whether `op` is the first one that adds to these rows of what a matmul with all rows gave. As
/// accumulators of both, they have ptxas wait for each `wgmma` of the kernel, for want of registers
/// (C7511); those of a copy do not.
static bool isPartOfOther(DotOp op) {
  auto before = op.getAcc().getDefiningOp<DotOp>();
  if (!before || before.getRows() == op.getRows())
    return false;
  while (before && before.getRows())
    before = before.getAcc().getDefiningOp<DotOp>();
  return bool(before);
}

void TileEmitter::emitWarpgroupDot(DotOp op, const MatmulOperands &operands) {
  DenseElementsAttr constant;
  bool fromZero = operands.columns.empty() && matchPattern(op.getAcc(), m_Constant(&constant)) &&
                  constant.isSplat() && constant.getSplatValue<APFloat>().isPosZero();
  Placed left = placed(operands.left), right = placed(operands.right);
  bool inRegisters = isFragments(left.layout);
  InFlight matmul{op.getResult(), groupsIssued + 1, {}, operands.columns};
  Placed result;
  bool copiesPart = !operands.columns.empty() && isPartOfOther(op) &&
                    llvm::none_of(inFlight, [&](auto &dot) { return dot.matmul == op.getAcc(); });
  if (!fromZero)
    result = accumulatorsFor(op.getAcc(), layoutOf(op.getResult()), matmul);
  result.type = op.getType();
  result.layout = layoutOf(op.getResult());
  Fragments f = Fragments::of(result.type, result.layout);
  if (copiesPart)
    f.forEachElement([&](unsigned slot, unsigned, unsigned column) {
      int64_t first = Fragments::columnOffset(column);
      Value &element = result.elements[slot];
      if (first >= operands.columns.front() && first < operands.columns.back())
        element = callAsm("mov.b32 $0, $1;", "=f,f", element, b.getF32Type());
    });
  bool rightAcross = operands.rowsAcross(right.layout, /*isLeft=*/false);
  auto words = [&](unsigned m, unsigned step) {
    return zeroBeyond(wordsOf(left, m, step), 16, partRow(f), f.rowOffset(2 * m), operands.rows);
  };
  if (inRegisters)
    matmul.registers.append(issueMatmul(result, fromZero, {operands.first, operands.last}, right,
                                        rightAcross, nullptr, false, words, operands.columns));
  else
    issueMatmul(result, fromZero, {operands.first, operands.last}, right, rightAcross, &left,
                operands.rowsAcross(left.layout, /*isLeft=*/true), nullptr, operands.columns);
  result.group = ++groupsIssued;
  tiles[op.getResult()] = result;
  inFlight.push_back(std::move(matmul));
}

/// Issues one wgmma group: result (+)= left · right, summed over `range` of K, in `columns` if it is
/// not empty. `left` is a swizzled operand, or null; then `words` gives A's registers for
/// accumulators m and K step. Returns those registers.
SmallVector<Value>
TileEmitter::issueMatmul(Placed &result, bool fromZero, std::pair<int64_t, int64_t> range,
                         const Placed &right, bool rightAcross, const Placed *left, bool leftAcross,
                         llvm::function_ref<SmallVector<Value>(unsigned, unsigned)> words,
                         ArrayRef<int64_t> columns) {
  SmallVector<Value> registers;
  Fragments f = Fragments::of(result.type, result.layout);
  result.elements.resize(f.size());
  int64_t firstColumn = columns.empty() ? 0 : columns.front();
  int64_t endColumn = columns.empty() ? f.partColumns() : columns.back();
  Value rightDescriptor = descriptorOf(right, rightAcross, b.add(partColumn(f), firstColumn));
  unsigned count = (endColumn - firstColumn) / 2;
  int64_t step = stepOf(right);
  unsigned first = range.first / step, last = range.second / step, steps = last - first;
  Type element = getElementTypeOrSelf(right.type);
  std::string type = element.isF32() ? "tf32" : element.isBF16() ? "bf16" : "f16";
  std::string opcode = "wgmma.mma_async.sync.aligned.m64n" +
                       std::to_string(endColumn - firstColumn) + "k" + std::to_string(step) +
                       ".f32." + type + "." + type + " ";

  for (unsigned m = 0; m < f.rowTiles(); ++m) {
    auto sumsHere =
        MutableArrayRef<Value>(result.elements).slice(f.index(m, firstColumn / 8, 0), count);
    SmallVector<Value> operands;
    // While the first K step accumulates, the next ones still read A: no register may be of both.
    std::string constraints = listOf(left ? "=f" : "=&f", count);
    if (!fromZero)
      for (unsigned i = 0; i < count; ++i) {
        constraints += "," + std::to_string(i);
        operands.push_back(sumsHere[i]);
      }
    unsigned firstLeft = count + operands.size();
    if (left) {
      Value row = b.add(b.mul(b.rem(warpgroup, f.rowParts / kWarpgroup), 16 * kWarpgroup),
                        f.rowOffset(2 * m));
      operands.push_back(descriptorOf(*left, leftAcross, row));
      constraints += ",l";
    } else {
      for (unsigned step = first; step < last; ++step)
        registers.append(words(m, step));
      operands.append(registers.end() - 4 * steps, registers.end());
      constraints += "," + listOf("r", 4 * steps);
    }
    unsigned firstRight = count + operands.size();
    operands.push_back(rightDescriptor);
    constraints += ",l,~{memory}";

    std::string text = "{\n\t.reg .pred added;\n\t.reg .b64 left, right;\n\t";
    text += fromZero ? "setp.ne.b32 added, 0, 0;\n\t" : "setp.ne.b32 added, 1, 0;\n\t";
    text += "wgmma.fence.sync.aligned;\n\t";
    for (unsigned step = first; step < last; ++step) {
      if (step == first + 1 && fromZero)
        text += "setp.ne.b32 added, 1, 0;\n\t";
      auto descriptor = [&](const std::string &name, unsigned operand, int64_t offset) {
        text += "add.s64 " + name + ", $" + std::to_string(operand) + ", " +
                std::to_string(offset) + ";\n\t";
      };
      descriptor("right", firstRight, descriptorOffset(right, rightAcross, step));
      if (left)
        descriptor("left", firstLeft, descriptorOffset(*left, leftAcross, step));
      text += opcode + operandList(0, count) + ", ";
      text += left ? "left" : operandList(firstLeft + 4 * (step - first), 4);
      // Scales of A and B: 1.
      text += ", right, added, 1, 1";
      // Transpositions, which numbers of 32 bits have not.
      if (left)
        text += leftAcross ? ", 0" : ", 1";
      if (!element.isF32())
        text += rightAcross ? ", 0" : ", 1";
      text += ";\n\t";
    }
    text += "}";
    Value sums = callAsm(text, constraints, operands, structOfF32(b, count));
    for (unsigned i = 0; i < count; ++i)
      sumsHere[i] = b.make<LLVM::ExtractValueOp>(sums, int64_t(i));
  }
  // Unlike inline assembly, LLVM cannot duplicate this op into branches, so the code around it
  // stays converged.
  b.make<NVVM::WgmmaGroupSyncAlignedOp>();
  return registers;
}

/// The accumulators of a matmul. If they come from an outstanding matmul, this one takes them over,
/// because `wgmma` accumulates in order.
Placed TileEmitter::accumulatorsFor(Value acc, LayoutAttr layout, InFlight &matmul) {
  auto it = llvm::find_if(inFlight, [&](const InFlight &dot) { return dot.matmul == acc; });
  if (it != inFlight.end()) {
    matmul.registers = it->registers;
    if (it->columns != matmul.columns)
      matmul.columns = {};
    inFlight.erase(it);
    Placed result = tiles[acc];
    result.group = 0;
    return result;
  }
  Placed result = placed(acc);
  if (result.elements.size() == 1)
    result = repeated(result, layout);
  return result;
}

/// Waits for all groups but the last `pending`. The results pass through inline assembly after the
/// wait, so that LLVM cannot move a use before it. The registers of operand A are operands of that
/// assembly, so that LLVM cannot give them other values while the matmul reads them.
void TileEmitter::waitForMatmuls(unsigned pending) {
  SmallVector<Value> sums, read;
  auto done = [&](const InFlight &dot) { return dot.group + pending <= groupsIssued; };
  // The elements that a matmul adds to.
  auto forEachSum = [&](const InFlight &dot, llvm::function_ref<void(Value &)> visit) {
    Placed &tile = tiles[dot.matmul];
    Fragments f = Fragments::of(tile.type, tile.layout);
    f.forEachElement([&](unsigned slot, unsigned, unsigned column) {
      int64_t first = Fragments::columnOffset(column);
      if (dot.columns.empty() || (first >= dot.columns.front() && first < dot.columns.back()))
        visit(tile.elements[slot]);
    });
  };
  for (const InFlight &dot : inFlight)
    if (done(dot)) {
      forEachSum(dot, [&](Value &element) { sums.push_back(element); });
      read.append(dot.registers);
    }
  if (sums.empty())
    return;
  std::string constraints = listOf("=f", sums.size());
  for (unsigned i = 0; i < sums.size(); ++i)
    constraints += "," + std::to_string(i);
  b.make<NVVM::WgmmaWaitGroupSyncOp>(uint64_t(pending));
  SmallVector<Value> operands = sums;
  operands.append(read);
  if (!read.empty())
    constraints += "," + listOf("r", read.size());
  Value awaited = callAsm("", constraints + ",~{memory}", operands, structOfF32(b, sums.size()));
  int64_t next = 0;
  for (const InFlight &dot : inFlight)
    if (done(dot)) {
      forEachSum(dot, [&](Value &element) {
        element = b.make<LLVM::ExtractValueOp>(awaited, next++);
      });
      tiles[dot.matmul].group = 0;
    }
  llvm::erase_if(inFlight, done);
}
