//===- CostModel.cpp - what decisions are made from -----------------------===//
#include "lowering/target/CostModel.h"

using namespace ejk;
using namespace ejk::cost;

Decision::Decision(mlir::Location loc, llvm::StringRef function, llvm::StringRef name,
                   const llvm::Twine &chosen)
    : remark(mlir::remark::analysis(
          loc, mlir::remark::RemarkOpts::name(name).category(kCategory).function(function))) {
  if (remark)
    remark << mlir::remark::metric("chosen", chosen.str());
}

llvm::LogicalResult cost::printDecisions(mlir::MLIRContext &context) {
  mlir::remark::RemarkCategories categories;
  categories.analysis = kCategory.str();
  return mlir::remark::enableOptimizationRemarks(
      context, /*streamer=*/nullptr, std::make_unique<mlir::remark::RemarkEmittingPolicyAll>(),
      categories, /*printAsEmitRemarks=*/true);
}

Decision &Decision::from(llvm::StringRef figure, int64_t value) {
  if (remark)
    remark << mlir::remark::metric(figure, value);
  return *this;
}

bool cost::takesOrdinaryGates(double nats, int64_t rows) {
  return nats >= kNatsPerRow * double(rows) / 2;
}

bool cost::takesStrongGates(double nats, int64_t rows) {
  constexpr double perRow = 5;
  return nats >= perRow * double(rows) / 2;
}

unsigned cost::warpsFor(int64_t elements, bool hasWgmma, bool isBusy) {
  int64_t most = isBusy     ? kElementsOfFourBusyWarps
                 : hasWgmma ? kElementsOfWarpgroup
                            : kElementsOfFourWarps;
  return elements > most ? kManyWarps : kFewWarps;
}

std::optional<cost::PartitionRegisters> cost::partitionRegisters(int64_t ofFront, int64_t ofState) {
  // Beside tiles, for addresses and counters.
  constexpr int64_t frontOthers = 24, stateOthers = 32;
  constexpr PartitionRegisters choices[] = {{104, 200}, {120, 192}, {152, 176}};
  for (PartitionRegisters choice : choices)
    if (ofFront + frontOthers <= choice.front && ofState + stateOthers <= choice.state)
      return choice;
  return std::nullopt;
}

bool cost::partitionsPay(int64_t elements) { return elements > kElementsOfFourWarps; }

bool cost::refillsAtEnd(bool storesRows) { return storesRows; }

bool cost::tf32Pays(int64_t elements) { return elements > kElementsOfFourWarps; }

bool cost::fitFewWarps(int64_t ofTiles, bool isWide, bool hasOthers) {
  constexpr int64_t mostBesideWide = 200;
  return isWide ? !hasOthers && ofTiles <= mostBesideWide : ofTiles <= kThreadRegisters;
}

unsigned cost::sharedBytesOfBlock(const Target &target, unsigned warps, bool hasWgmma) {
  if (warps > kFewWarps || !hasWgmma)
    return target.sharedBytesPerBlock;
  return target.sharedBytesPerMultiprocessor / 2 - kReservedSharedBytes;
}

bool cost::jamsHeads(int64_t carried) {
  return carried > kElementsOfFourWarps && kHeadsPerBlock * carried <= kStateElementsPerBlock;
}

bool cost::fitsRegisters(int64_t ofTiles, const ProgramShape &shape) {
  constexpr int64_t registers = 250, perTensor = 6, ofWarpOperands = 95;
  constexpr int64_t ofBranch = 45, ofPipelinedBranch = 60;
  int64_t left = registers - perTensor * shape.tensors;
  if (shape.hasBranch)
    left -= shape.hasWgmma ? ofPipelinedBranch : ofBranch;
  if (!shape.hasWgmma)
    left -= ofWarpOperands;
  return ofTiles <= left;
}

int64_t cost::fragmentRegisters(const BlockShape &block) {
  // A thread has 255 registers. Outside of branches some 30 hold addresses, counters and bounds,
  // and each matmul takes a dozen.
  constexpr int64_t registers = 224, perMatmul = 12;
  constexpr int64_t ofBranch = 150, ofLongBranch = 118, ofWarpsBranch = 90;
  if (!block.isBranch)
    return registers - perMatmul * block.matmuls;
  return block.byWarps ? ofWarpsBranch : block.hasManyMatmuls ? ofLongBranch : ofBranch;
}

llvm::ArrayRef<StagePlan> cost::stagePlans() {
  static constexpr StagePlan kPlans[] = {
      // stages, matmuls, branch, stores, f32
      {2, false, true},
      {3, true, false, true},
      {4, true},
      {3},
      {2},
      {1},
      {1, false, false, false, /*stagesF32=*/false},
  };
  return kPlans;
}

std::string cost::describe(const StagePlan &plan) {
  if (!plan.stages)
    return "no stages";
  std::string text = std::to_string(plan.stages) + (plan.stages == 1 ? " stage" : " stages");
  if (plan.pipelinesMatmuls)
    text += ", matmuls pipelined";
  if (plan.pipelinesBranch)
    text += ", branch operands pipelined";
  if (plan.defersStores)
    text += ", stores deferred from a double buffer";
  if (!plan.stagesF32)
    text += ", f32 rows loaded late";
  return text;
}

unsigned cost::elementsBeforeBulkStoreIsRead(bool hasManyMatmuls) {
  return hasManyMatmuls ? 512 : 192;
}
