//===- CostModelTest.cpp - rules that decide between kernels --------------===//
#include "lowering/target/CostModel.h"
#include "passes/NumericRange.h"
#include <gtest/gtest.h>

using namespace ejk;

TEST(CostModel, GuardsOfOrdinaryGates) {
  EXPECT_TRUE(cost::takesOrdinaryGates(range::kGuardNats, 64));
  EXPECT_FALSE(cost::takesOrdinaryGates(range::kGuardNatsOfTwoAxes, 64));
  EXPECT_TRUE(cost::takesOrdinaryGates(range::kGuardNatsOfTwoAxes, 32));
}

TEST(CostModel, ShorterChunksTakeStrongGatesOfOneAxis) {
  EXPECT_TRUE(cost::takesStrongGates(range::kGuardNats, cost::kChunkRowsOfStrongGates));
  EXPECT_FALSE(cost::takesStrongGates(range::kGuardNatsOfTwoAxes, cost::kChunkRowsOfStrongGates));
}

TEST(CostModel, WarpsByTheLargestMatrix) {
  for (bool hasWgmma : {false, true}) {
    EXPECT_EQ(cost::warpsFor(64 * 64, hasWgmma, /*isBusy=*/false), 4u);
    EXPECT_EQ(cost::warpsFor(64 * 128, hasWgmma, /*isBusy=*/false), hasWgmma ? 4u : 8u);
    EXPECT_EQ(cost::warpsFor(32 * 64, hasWgmma, /*isBusy=*/true), 4u);
    EXPECT_EQ(cost::warpsFor(64 * 64, hasWgmma, /*isBusy=*/true), 8u);
  }
  EXPECT_TRUE(cost::fitFewWarps(250, /*isWide=*/false, /*hasOthers=*/true));
  EXPECT_TRUE(cost::fitFewWarps(164, /*isWide=*/true, /*hasOthers=*/false));
  EXPECT_FALSE(cost::fitFewWarps(250, /*isWide=*/true, /*hasOthers=*/false));
  EXPECT_FALSE(cost::fitFewWarps(164, /*isWide=*/true, /*hasOthers=*/true));
}

// A launch gives each thread its share of a multiprocessor's registers, a multiple of 8. Partitions that ask for
// more than these in all wait for each other forever.
TEST(CostModel, PartitionsHaveTheRegistersOfTheirBlock) {
  constexpr int64_t front = 32 * cost::kFrontWarps, state = 32 * cost::kManyWarps;
  constexpr int64_t ofBlock = 65536 / (front + state) / 8 * 8 * (front + state);
  unsigned chosen = 0;
  for (int64_t ofFront = 0; ofFront <= cost::kThreadRegisters; ++ofFront)
    for (int64_t ofState = 0; ofState <= cost::kThreadRegisters; ++ofState)
      if (auto registers = cost::partitionRegisters(ofFront, ofState)) {
        ++chosen;
        EXPECT_LE(front * registers->front + state * registers->state, ofBlock);
        EXPECT_LT(ofFront, registers->front);
        EXPECT_LT(ofState, registers->state);
      }
  EXPECT_GT(chosen, 0u);
  EXPECT_FALSE(cost::partitionRegisters(cost::kThreadRegisters, cost::kThreadRegisters));
}

// Blocks of four warps have registers for two on a multiprocessor, and both have shared memory.
TEST(CostModel, SharedMemoryOfABlockBesideAnother) {
  const Target &hopper = *findTarget("sm_90a");
  EXPECT_EQ(cost::sharedBytesOfBlock(hopper, 8, /*hasWgmma=*/true), hopper.sharedBytesPerBlock);
  EXPECT_EQ(cost::sharedBytesOfBlock(hopper, 4, /*hasWgmma=*/false), hopper.sharedBytesPerBlock);
  unsigned beside = cost::sharedBytesOfBlock(hopper, 4, /*hasWgmma=*/true);
  EXPECT_EQ(2 * (beside + kReservedSharedBytes), hopper.sharedBytesPerMultiprocessor);
}

// A thread has 255 registers, and branches leave less to fragments than what surrounds them.
TEST(CostModel, RegistersOfFragments) {
  cost::BlockShape block;
  int64_t most = cost::fragmentRegisters(block);
  EXPECT_LT(most, 255);
  block.matmuls = 4;
  EXPECT_LT(cost::fragmentRegisters(block), most);
  block.isBranch = true;
  int64_t ofBranch = cost::fragmentRegisters(block);
  block.hasManyMatmuls = true;
  EXPECT_LT(cost::fragmentRegisters(block), ofBranch);
  block.byWarps = true;
  EXPECT_LT(cost::fragmentRegisters(block), ofBranch);
}

TEST(CostModel, StagePlansEndWithTheOneThatNeedsLeast) {
  llvm::ArrayRef<cost::StagePlan> plans = cost::stagePlans();
  for (const cost::StagePlan &plan : plans) {
    EXPECT_GE(plan.stages, 1u);
    EXPECT_GE(plan.stages, plans.back().stages);
    EXPECT_FALSE(plan.pipelinesMatmuls && plan.pipelinesBranch);
    if (plan.pipelinesMatmuls)
      EXPECT_GE(plan.stages, 3u); // the chunk computed, the next one's matmuls, and one in flight
  }
  EXPECT_FALSE(plans.back().stagesF32);
  EXPECT_EQ(cost::describe(plans.back()), "1 stage, f32 rows loaded late");
  EXPECT_EQ(cost::describe(plans[1]),
            "3 stages, matmuls pipelined, stores deferred from a double buffer");
}
