//===- KnownNeeds.cpp - shared memory that like programs need -------------===//
#include "lowering/select/KnownNeeds.h"
#include "lowering/kernels/SameOps.h"
#include "lowering/layout/SpilledToShared.h"
#include "lowering/memory/PlanMemory.h"
#include "lowering/pipeline/MultistageLoads.h"
#include "lowering/pipeline/RegisterEstimate.h"
#include "lowering/target/CostModel.h"

using namespace mlir;
using namespace ejk;

const KnownNeeds::Need *KnownNeeds::find(const Question &question) const {
  for (const Known &known : all)
    if (known.stages == question.stages && known.mayLoadLate == question.mayLoadLate &&
        known.inTwoTerms == question.inTwoTerms &&
        computeTheSame(*known.program, question.program, /*evenIfUnused=*/true))
      return &known.need;
  return nullptr;
}

void KnownNeeds::add(const Question &question, Need need) {
  tile::ProgramOp program = question.program;
  auto tensors = std::make_unique<Block>();
  IRMapping mapping;
  for (Value tensor : program->getOperands())
    if (!mapping.contains(tensor))
      mapping.map(tensor, tensors->addArgument(tensor.getType(), tensor.getLoc()));
  OwningOpRef<tile::ProgramOp> copy = cast<tile::ProgramOp>(program->clone(mapping));
  all.push_back({std::move(tensors), std::move(copy), question.stages, question.mayLoadLate,
                 question.inTwoTerms, need});
}

FailureOr<KnownNeeds::Need> KnownNeeds::of(const Question &question, const Target &target,
                                           llvm::function_ref<LogicalResult(Operation *)> layOut) {
  if (const Need *known = find(question))
    return *known;
  Need need;
  for (bool wide : {true, false}) {
    if (!wide && (!question.mayLoadLate || need.bytes <= target.sharedBytesPerBlock))
      break;
    // Later passes expect the program without layouts, so a copy gets them.
    OpBuilder b(question.program);
    auto copy = cast<tile::ProgramOp>(b.clone(*question.program));
    if (failed(layOut(copy))) {
      copy.erase();
      return failure();
    }
    need.registers = registersOfLiveTiles(copy);
    need.hasRegisters = fitsRegisters(copy, need.registers);
    keepInRegisters(copy); // as they are where memory does not suffice
    StagedLoads staged = multistageLoads(copy, question.stages, /*apart=*/false, wide);
    need.bytes = sharedMemoryNeed(copy) + staged.mbarrierBytes();
    need.isWithoutStage = !wide;
    copy.erase();
  }
  add(question, need);
  return need;
}

std::string ejk::describeNeed(ScanOp scan, const KnownNeeds::Need &need, const Target &target) {
  unsigned bytesOfGates = 0;
  for (Value rows : scan.getSequences())
    if (auto type = cast<RankedTensorType>(rows.getType());
        type.getRank() == 4 && type.getElementType().isF32())
      bytesOfGates += cost::kChunkLengths[0] * type.getDimSize(3) * sizeof(float);
  std::string text = "it needs " + std::to_string(need.bytes) + " bytes of shared memory, of " +
                     std::to_string(target.sharedBytesPerBlock) + " that a thread block of " +
                     target.name.str() + " has";
  bool narrowGatesFit = !need.isWithoutStage && bytesOfGates &&
                        need.bytes <= target.sharedBytesPerBlock + bytesOfGates / 2;
  return text + (narrowGatesFit
                     ? "; gates per channel in bf16 or f16 take half of the bytes of f32 ones"
                     : "; heads of fewer channels need less");
}
