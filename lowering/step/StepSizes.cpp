//===- StepSizes.cpp - tiles and stages of a step-by-step kernel ----------===//
#include "lowering/step/StepSizes.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/target/CostModel.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ejk;

/// The lanes that the rows of a state divide into.
static unsigned lanesOf(unsigned rows, unsigned rowsOfTile) {
  return std::clamp(rows / rowsOfTile, 1u, unsigned(kWarpSize));
}

unsigned ejk::warpsOfLargeTiles(const StepPlan &plan) {
  ScanOp scan = plan.scan;
  auto type = scan.getNumStates() == 1
                  ? dyn_cast<VectorType>(scan.getStateArgs().front().getType())
                  : VectorType();
  if (!type || type.getRank() != 2 || plan.wholeState || !scan.getSavedStates().empty())
    return 0;
  if (!llvm::isPowerOf2_64(plan.rows) || plan.rows < 64 || plan.rows > 256)
    return 0;
  unsigned lanes = lanesOf(plan.rows, cost::kRowsOfLargeStepTile);
  unsigned columns = cost::kColumnsOfStepTile * kWarpSize / lanes;
  unsigned warps = plan.columns / columns;
  bool fit = plan.columns % columns == 0 &&
             (warps <= kMostColumnWarps || warps % kMostColumnWarps == 0);
  return fit && warps > 1 ? warps : 0;
}

void StepSizes::chooseTile() {
  plan.valueMajor = PooledScan(scan).valueMajor();
  unsigned rows = unsigned(llvm::PowerOf2Ceil(plan.rows));
  // With a saved state, registers suffice for 32 elements only.
  bool saves = !scan.getSavedStates().empty() || !scan.getSaves().empty();
  plan.colsPerThread =
      unsigned(std::min<int64_t>(saves && rows > 256 ? 2 : cost::kColumnsOfStepTile,
                                 llvm::PowerOf2Ceil(plan.columns)));
  plan.rowGroup = std::min(4u, rows);
  // 32 state elements per thread (64 for 512 rows): enough work between two reads of shared
  // memory, and few enough registers for 12 or more warps per SM without spills.
  unsigned slots = lanesOf(rows, cost::kRowsOfStepTile);
  plan.rowLanes = slots;
  if (!plan.singleStep && warpsOfLargeTiles(plan) && scan->hasAttr(kLargeTilesAttr)) {
    plan.rowLanes = lanesOf(rows, cost::kRowsOfLargeStepTile);
    plan.rowChains = slots / plan.rowLanes;
  }
  if (plan.singleStep) {
    // A warp loads 256 contiguous bytes: 64 elements along the axis that is innermost in memory.
    // Threads have twice the elements, so that few threads have many outstanding loads.
    slots = std::clamp(rows / 16, 1u, 32u);
    // At most eight warps share columns, to limit registers.
    plan.rowLanes =
        std::clamp(plan.rowsAreInnermost() ? 16u : 2u, std::max(1u, slots / 8), slots);
    plan.rowWarps = slots / plan.rowLanes;
  }
  plan.rowsPerThread =
      unsigned(llvm::divideCeil(uint64_t(plan.rows), plan.rowSlots() * plan.rowGroup)) *
      plan.rowGroup;
  plan.colLanes = kWarpSize / plan.rowLanes;
  uint64_t columnWarps =
      llvm::divideCeil(uint64_t(plan.columns), plan.colLanes * plan.colsPerThread);
  uint64_t mostWarps = plan.wholeState ? kMostWarpsOfState : std::max(1u, kMostColumnWarps / plan.rowWarps);
  for (; plan.wholeState && columnWarps > mostWarps; plan.colsPerThread *= 2)
    columnWarps = llvm::divideCeil(columnWarps, 2);
  plan.colWarps = unsigned(std::min(columnWarps, mostWarps));
  plan.columnBlocks = unsigned(llvm::divideCeil(plan.columns, plan.blockColumns()));
}

void StepSizes::addSources(Value value, bool rotated, Domain &domain,
                           llvm::DenseSet<std::pair<Value, unsigned>> &seen) {
  rotated &= hasChannels(value);
  if (!seen.insert({value, rotated}).second)
    return;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    if (arg.getArgNumber() < scan.getSequences().size() + scan.getQueries().size())
      domain.rows.push_back({arg.getArgNumber(), rotated});
    return;
  }
  Operation *op = value.getDefiningOp();
  bool rotates = isa<RotateHalfOp>(op);
  domain.rotates |= rotates;
  for (Value operand : op->getOperands())
    addSources(operand, rotated != rotates, domain, seen);
}

/// A thread's elements of a vector that lie side by side: a group of its rows, or its columns.
void StepSizes::addQueryDomain(unsigned index) {
  Domain domain;
  const Crossing &crossing = plan.crossings[index];
  domain.layout = crossing.layout;
  domain.crossings.push_back(index);
  llvm::DenseSet<std::pair<Value, unsigned>> seen;
  addSources(crossing.value, /*rotated=*/false, domain, seen);
  llvm::sort(domain.rows);
  if (domain.layout != Layout::scalar) {
    bool isRow = domain.layout == Layout::row;
    int64_t length = isRow ? plan.rows : plan.columns;
    domain.length = unsigned(length);
    domain.width = isRow ? plan.rowGroup : plan.colsPerThread;
    if ((domain.rotates ? length / 2 : length) % domain.width)
      domain.width = 1;
  }
  plan.queryDomains.push_back(domain);
}

void StepSizes::chooseChunk() {
  for (auto [i, crossing] : llvm::enumerate(plan.crossings))
    if (crossing.ofQuery)
      addQueryDomain(i);
  for (Layout layout : {Layout::row, Layout::column, Layout::scalar}) {
    Domain domain;
    domain.layout = layout;
    llvm::DenseSet<std::pair<Value, unsigned>> seen;
    for (auto [i, crossing] : llvm::enumerate(plan.crossings))
      if (crossing.layout == layout && !crossing.ofQuery) {
        domain.crossings.push_back(i);
        addSources(crossing.value, /*rotated=*/false, domain, seen);
      }
    if (domain.crossings.empty())
      continue;
    llvm::sort(domain.rows);
    int64_t length = layout == Layout::row      ? plan.rows
                     : layout == Layout::column ? plan.columns
                                                : 1;
    // 16 bytes of the narrowest vector sequence, as far as the length is divisible.
    unsigned widest = 4;
    for (LoadedRow row : domain.rows)
      if (Value arg = scan.getSequenceArgs()[row.sequence];
          hasChannels(arg) && getElementTypeOrSelf(arg.getType()).getIntOrFloatBitWidth() == 16)
        widest = 8;
    // A rotated segment lies within one half.
    int64_t divided = domain.rotates ? length / 2 : length;
    domain.width = 1;
    while (domain.width < widest && divided % (2 * domain.width) == 0 &&
           (layout != Layout::column || plan.blockColumns() % (2 * domain.width) == 0))
      domain.width *= 2;
    domain.length = layout == Layout::column ? plan.blockColumns() : unsigned(length);
    plan.domains.push_back(domain);
  }
  // The longest chunk within the budgets. A thread loads at least one segment of each sequence,
  // so the budget is at least the registers of one step.
  plan.chunk = 1;
  unsigned budget = std::max(cost::kPrefetchRegisters, sizeStages());
  for (plan.chunk = plan.singleStep ? 1 : 16; plan.chunk > 1; plan.chunk /= 2)
    if (sizeStages() <= budget && 2 * plan.stageFloats <= cost::kStageFloats &&
        plan.sharedBytes() <= kStaticSharedBytes)
      break;
  sizeStages();
  unsigned elements = std::max(1u, plan.rowsPerThread * plan.colsPerThread);
  // Large tiles leave few registers.
  unsigned most = plan.rowChains > 1 ? 1 : std::min(2u, plan.chunk);
  plan.unroll =
      std::clamp(unsigned(llvm::bit_floor(cost::kUnrolledElements / elements)), 1u, most);
}

unsigned StepSizes::sizeStages() {
  unsigned registers = 0, offset = 0;
  for (Domain &domain : plan.domains) {
    unsigned units = plan.chunk * (domain.length / domain.width);
    domain.unitsPerThread = llvm::divideCeil(units, plan.threads());
    for (LoadedRow row : domain.rows) {
      Value arg = scan.getSequenceArgs()[row.sequence];
      unsigned bits = getElementTypeOrSelf(arg.getType()).getIntOrFloatBitWidth();
      unsigned count = hasChannels(arg) ? domain.width : 1;
      // One more register for the address and the predicate.
      registers += domain.unitsPerThread * (llvm::divideCeil(count * bits, 32) + 1);
    }
    for (unsigned i : domain.crossings) {
      plan.crossings[i].offset = offset;
      unsigned floats = plan.chunk * plan.lengthOf(domain.layout);
      offset += llvm::alignTo(floats, 4); // 16 bytes
    }
  }
  plan.stageFloats = offset;
  return registers;
}
