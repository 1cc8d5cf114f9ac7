//===- TileTurns.cpp - sums over the heads of a group ----------------------===//
//
// The blocks of a group's heads add their rows to one place, one head after the other, so that a
// sum has its terms in the order of the heads. Each block counts its turns in memory, at its first
// row:
//
//   head h     await: turns[h-1] > i    add rows of turn i    barrier    turns[h] = i+1
//
// The first head stores where the others add, so nothing is to be cleared. An addition is carried
// out in the second-level cache (`red`); nothing waits for it but the release of the count.
//
//===----------------------------------------------------------------------===//
#include "lowering/emit/TileEmitter.h"
#include "lowering/kernels/GroupSums.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

static constexpr llvm::StringLiteral kDeviceScope = "device";
static constexpr unsigned kBytesOfCount = 4, kBytesOfTerm = 4;

void TileEmitter::locateTurns() {
  if (!turnsPointer)
    return;
  // No two blocks with rows have the same first row and head.
  Value number = b.add(b.mul(firstRow, heads), b.wide(head));
  ownTurns = b.at(turnsPointer, b.getI32Type(), number);
  for (auto [arg, output] : llvm::zip(program.getOutputArgs(), program.getOutputs())) {
    if (!sumOfOutput(program, output))
      continue;
    Rows &place = rows[arg];
    Value group = b.div(heads, place.heads), inGroup = b.rem(b.wide(head), group);
    place.addsTerm = b.less(b.i64(0), inGroup);
    followsHead = followsHead ? b.make<arith::OrIOp>(followsHead, place.addsTerm) : place.addsTerm;
  }
}

void TileEmitter::emitAwaitTurn(AwaitTurnOp op) {
  b.onlyIf(followsHead, [&] {
    auto loop = b.make<scf::WhileOp>(TypeRange(), ValueRange());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&loop.getBefore());
    Value passed = b.make<LLVM::LoadOp>(
        b.getI32Type(), b.at(ownTurns, b.getI32Type(), -1), kBytesOfCount, /*isVolatile=*/false,
        /*isNonTemporal=*/false, /*isInvariant=*/false, /*isInvariantGroup=*/false,
        LLVM::AtomicOrdering::acquire, kDeviceScope);
    Value isEarly =
        b.make<arith::CmpIOp>(arith::CmpIPredicate::ule, passed, narrowIndex(op.getNumber()));
    b.make<scf::ConditionOp>(isEarly, ValueRange());
    b.createBlock(&loop.getAfter());
    b.make<scf::YieldOp>();
  });
}

void TileEmitter::emitPassTurn(PassTurnOp op) {
  Value number = narrowIndex(op.getNumber());
  b.onlyIf(b.both(b.equal(thread, 0), b.less(b.i32(0), number)), [&] {
    b.make<LLVM::StoreOp>(number, ownTurns, kBytesOfCount, /*isVolatile=*/false,
                          /*isNonTemporal=*/false, /*isInvariantGroup=*/false,
                          LLVM::AtomicOrdering::release, kDeviceScope);
  });
}

/// Stores one or two f32 `offset` elements behind `start`, or adds them to what is there.
void TileEmitter::storeOrAdd(ArrayRef<Value> values, Value start, int64_t offset, Value adds) {
  // Targets that have wgmma add pairs at once.
  unsigned count = warpgroups ? values.size() : 1;
  for (unsigned i = 0; i < values.size(); i += count) {
    bool isPair = count == 2;
    std::string place = llvm::formatv("[$0+{0}]", (offset + i) * kBytesOfTerm),
                type = isPair ? "v2.f32 " : "f32 ", value = isPair ? "{$2, $3}" : "$2";
    SmallVector<Value> operands = {start, b.make<arith::ExtUIOp>(b.getI32Type(), adds)};
    llvm::append_range(operands, values.slice(i, count));
    callAsm("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, $1, 0;\n\t@!adds st.global." + type +
                place + ", " + value + ";\n\t@adds red.relaxed.gpu.global.add." + type + place +
                ", " + value + ";\n\t}",
            isPair ? "l,r,f,f,~{memory}" : "l,r,f,~{memory}", operands, {});
  }
}
