//===- TraceProgram.cpp - the ops that warps execute, one by one ------------===//
//
// Follows control flow through a program for a given length. Indices are folded on the way, so that
// loops have as many iterations as on a device, and items of rings their numbers.
//
//===----------------------------------------------------------------------===//
#include "lowering/draw/TraceProgram.h"
#include "dialect/tile/Branch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
class Tracer {
public:
  Tracer(ProgramOp program, int64_t chunks) : program(program) {
    Builder b(program.getContext());
    for (Value scalar : program.getScalars())
      known[scalar] = b.getIndexAttr(0);
    for (Value length : {program.getLength(), program.getSequenceLength()})
      if (length)
        known[length] = b.getIndexAttr(chunks * program.getChunk());
    known[program.getNumHeads()] = b.getIndexAttr(1);
  }

  SmallVector<Trace> run() {
    SmallVector<Trace> traces;
    Trace whole;
    trace = &whole;
    visitBlock(program.getBlock());
    program.walk([&](PartitionOp partition) {
      Trace own{partition.getName().str(), {}};
      trace = &own;
      visitBlock(partition.getBody().front());
      traces.push_back(std::move(own));
    });
    if (traces.empty())
      traces.push_back({"all warps", std::move(whole.steps)});
    return traces;
  }

private:
  std::optional<int64_t> numberOf(Value value) const {
    auto number = dyn_cast_or_null<IntegerAttr>(known.lookup(value));
    return number ? std::optional(number.getInt()) : std::nullopt;
  }
  void setKnown(Value value, Attribute number) {
    if (number)
      known[value] = number;
    else
      known.erase(value);
  }

  void visitBlock(Block &block) {
    for (Operation &op : block)
      visit(&op);
  }
  void visit(Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](scf::ForOp loop) { visitFor(loop); })
        .Case<GuardedOp, scf::IfOp>([&](Operation *branch) { visitBranch(Branch::of(branch)); })
        .Case([](WarpSpecializeOp) {})
        .Case<AcquireOp, FillOp, PutOp, TakeOp, ReleaseOp>([&](auto o) {
          trace->steps.push_back({o, numberOf(o.getItem()).value_or(0), isOdd});
        })
        .Default([&](Operation *other) {
          if (!fold(other) && !other->hasTrait<OpTrait::IsTerminator>())
            trace->steps.push_back({other, 0, isOdd});
        });
  }

  /// Whether `op` computes numbers alone. Those that follow from known ones are known then.
  bool fold(Operation *op) {
    auto isNumber = [](Type type) { return type.isIntOrIndex(); };
    if (op->getNumResults() == 0 || !llvm::all_of(op->getResultTypes(), isNumber) ||
        !isa_and_nonnull<arith::ArithDialect>(op->getDialect()))
      return false;
    SmallVector<Attribute> operands =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return known.lookup(v); });
    SmallVector<OpFoldResult> results;
    if (succeeded(op->fold(operands, results)) && !results.empty())
      for (auto [result, folded] : llvm::zip(op->getResults(), results))
        setKnown(result, isa<Attribute>(folded) ? cast<Attribute>(folded)
                                                : known.lookup(cast<Value>(folded)));
    return true;
  }

  void pass(ValueRange from, ValueRange to) {
    SmallVector<Attribute> numbers =
        llvm::map_to_vector(from, [&](Value v) { return known.lookup(v); });
    for (auto [value, number] : llvm::zip(to, numbers))
      setKnown(value, number);
  }

  void visitFor(scf::ForOp loop) {
    std::optional<int64_t> first = numberOf(loop.getLowerBound()),
                           last = numberOf(loop.getUpperBound()), step = numberOf(loop.getStep());
    bool areKnown = first && last && step && *step > 0;
    bool isOfChunks = !inChunks && hasMatmuls(loop);
    pass(loop.getInits(), loop.getRegionIterArgs());
    Builder b(loop.getContext());
    llvm::SaveAndRestore<bool> inside(inChunks, inChunks || isOfChunks), parity(isOdd);
    for (int64_t i = areKnown ? *first : 0, n = 0; areKnown ? i < *last : n < 1; ++n) {
      setKnown(loop.getInductionVar(),
               areKnown ? b.getIntegerAttr(loop.getInductionVar().getType(), i) : IntegerAttr());
      if (isOfChunks) {
        trace->steps.push_back({});
        isOdd = n % 2;
      }
      visitBlock(*loop.getBody());
      pass(loop.getYieldedValues(), loop.getRegionIterArgs());
      i += areKnown ? *step : 1;
    }
    pass(loop.getRegionIterArgs(), loop.getResults());
  }
  static bool hasMatmuls(scf::ForOp loop) {
    return loop->walk([](DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
  }

  void visitBranch(Branch branch) {
    Block *side = branch.thenBlock();
    if (isa<scf::IfOp>(branch.getOperation())) {
      std::optional<int64_t> condition = numberOf(branch.getCondition());
      side = condition && *condition ? side : branch.elseBlock();
    }
    if (!side)
      return;
    visitBlock(*side);
    pass(side->getTerminator()->getOperands(), branch->getResults());
  }

  ProgramOp program;
  Trace *trace = nullptr;
  llvm::DenseMap<Value, Attribute> known;
  bool inChunks = false, isOdd = false;
};
} // namespace

SmallVector<Trace> ejk::traceProgram(ProgramOp program, int64_t chunks) {
  return Tracer(program, chunks).run();
}
