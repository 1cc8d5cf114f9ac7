//===- NarrowSaves.cpp - save states in 16 bits ----------------------------===//
#include "mlir/IR/TypeUtilities.h"
#include "passes/Passes.h"
#include "passes/Rounding.h"
#include "passes/scan/ScanGroups.h"
#include "passes/scan/ScanProperties.h"

namespace ejk {
#define GEN_PASS_DEF_NARROWSAVES
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

/// Collects the arguments that read `save` in `args`; fails if it has users other than scans' saved
/// states.
static LogicalResult findReaders(Value save, SmallVectorImpl<Value> &args) {
  for (OpOperand &use : save.getUses()) {
    auto reader = dyn_cast<ScanOp>(use.getOwner());
    OperandRange saved = reader ? reader.getSavedStates() : OperandRange(nullptr, 0);
    unsigned first = reader ? saved.getBeginOperandIndex() : 0;
    if (!reader || use.getOperandNumber() < first || use.getOperandNumber() >= first + saved.size())
      return failure();
    args.push_back(reader.getSavedArgs()[use.getOperandNumber() - first]);
  }
  return success();
}

/// Whether errors of saved states do not average out. The tensor has one state for each slot
/// and head.
static bool isSmall(ScanOp scan, Type save) {
  ArrayRef<int64_t> state = cast<RankedTensorType>(save).getShape().drop_front(2);
  bool hasGatesOfChannels = false;
  scan.getStep().walk([&](DecayOp decay) { hasGatesOfChannels |= decay.getAxis() != Axis::head; });
  auto isNumber = [](Value arg) { return isa<FloatType>(arg.getType()); };
  bool hasGatesOfHeads = llvm::any_of(scan.getSequenceArgs(), isNumber) ||
                         llvm::any_of(scan.getParameterArgs(), isNumber);
  if (isInTwoTerms(scan))
    return true;
  return !state.empty() && *llvm::min_element(state) <= kFewChannels &&
         *llvm::max_element(state) <= mostBesideFew(hasGatesOfHeads, hasGatesOfChannels);
}

unsigned ejk::narrowSaves(ArrayRef<ScanOp> scans) {
  unsigned count = 0;
  // With more rows per state, errors would be larger, too.
  auto savesOften = [](ScanOp scan) { return int64_t(scan.getSaveEvery().value_or(0)) <= 256; };
  if (!llvm::all_of(scans, savesOften) || !maySaveEntries(scans))
    return 0;
  for (ScanOp scan : scans) {
    auto isNarrow = [](Value sequence) {
      return getElementTypeOrSelf(sequence.getType()).getIntOrFloatBitWidth() < 32;
    };
    if (llvm::none_of(scan.getSequences(), isNarrow))
      continue;
    for (Value save : scan.getSaves()) {
      SmallVector<Value> args;
      if (!getElementTypeOrSelf(save.getType()).isF32() || isSmall(scan, save.getType()) ||
          failed(findReaders(save, args)))
        continue;
      Type narrow = BFloat16Type::get(scan.getContext());
      save.setType(cast<RankedTensorType>(save.getType()).clone(narrow));
      for (Value arg : args)
        arg.setType(cast<VectorType>(arg.getType()).clone(narrow));
      ++count;
    }
  }
  return count;
}

namespace {
struct NarrowSavesPass : ejk::impl::NarrowSavesBase<NarrowSavesPass> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
    for (ArrayRef<ScanOp> group : groupScans(scans))
      numNarrowed += narrowSaves(group);
  }
};
} // namespace
