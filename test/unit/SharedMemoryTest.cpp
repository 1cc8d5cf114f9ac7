//===- SharedMemoryTest.cpp - where tiles lie, and when threads wait ------===//
#include "lowering/memory/SharedMemory.h"
#include <gtest/gtest.h>

using namespace ejk;
using Range = SharedMemory::Range;

TEST(SharedMemory, TakesTheFirstFreeRange) {
  SharedMemory memory;
  Range a = memory.allocate(1000), b = memory.allocate(4096), c = memory.allocate(256);
  EXPECT_EQ(a.begin, 0u);
  EXPECT_EQ(b.begin, 1024u); // the next multiple of 128 bytes
  EXPECT_EQ(c.begin, 5120u);
  memory.release(b);
  Range small = memory.allocate(2048), large = memory.allocate(4096);
  EXPECT_EQ(small.begin, b.begin);
  EXPECT_EQ(large.begin, 5376u); // 2048 bytes that are left of b are too few
  EXPECT_EQ(memory.size(), 5376u + 4096u);
}

TEST(SharedMemory, AlignsAsAsked) {
  SharedMemory memory;
  memory.allocate(8, 8);
  EXPECT_EQ(memory.allocate(64, 1024).begin, 1024u);
  EXPECT_EQ(memory.allocate(8, 8).begin, 8u);
}

TEST(SharedMemory, AvoidsRangesThatAreFreeButOutstanding) {
  SharedMemory memory;
  Range a = memory.allocate(512);
  memory.release(a);
  EXPECT_EQ(memory.find(512, 128).begin, 0u);
  EXPECT_EQ(memory.find(512, 128, {a}).begin, 512u);
  memory.occupyAll();
  EXPECT_EQ(memory.allocate(16).begin, 512u);
}

TEST(SharedMemory, ReadAfterWriteNeedsABarrier) {
  SharedMemory memory;
  Range tile = memory.allocate(1024), other = memory.allocate(1024);
  EXPECT_FALSE(memory.readNeedsBarrier(tile));
  memory.noteWrite(tile);
  EXPECT_TRUE(memory.readNeedsBarrier(tile));
  EXPECT_FALSE(memory.readNeedsBarrier(other));
  EXPECT_TRUE(memory.readNeedsBarrier({1020, 1030})); // partly the same
  EXPECT_FALSE(memory.readNeedsBarrier({1024, 1030}));
  memory.noteBarrier();
  EXPECT_FALSE(memory.readNeedsBarrier(tile));
}

TEST(SharedMemory, WriteAfterReadOrWriteNeedsABarrier) {
  SharedMemory memory;
  Range tile = memory.allocate(1024);
  memory.noteRead(tile);
  EXPECT_FALSE(memory.readNeedsBarrier(tile));
  EXPECT_TRUE(memory.writeNeedsBarrier(tile));
  memory.noteBarrier();
  memory.noteWrite(tile);
  EXPECT_TRUE(memory.writeNeedsBarrier(tile));
}

TEST(SharedMemory, BarriersDoNotCompleteBulkStores) {
  SharedMemory memory;
  Range source = memory.allocate(1024);
  memory.pending.noteBulkStore(source);
  memory.noteBarrier();
  EXPECT_TRUE(memory.writeNeedsBarrier(source));
  EXPECT_FALSE(memory.readNeedsBarrier(source));
  memory.noteWork(100);
  memory.noteWork(28);
  ASSERT_EQ(memory.pending.bulkStores.size(), 1u);
  EXPECT_EQ(memory.pending.bulkStores.front().work, 128u);
  EXPECT_EQ(memory.pending.bulkStores.front().later, 0u);
  memory.pending.noteBulkStore({4096, 8192});
  EXPECT_EQ(memory.pending.bulkStores.front().later, 1u);
}

TEST(SharedMemory, OnlyMatmulOperandsNeedAFence) {
  SharedMemory memory;
  memory.noteWrite({0, 128});
  EXPECT_FALSE(memory.pending.unfenced);
  Range operand{128, 256};
  operand.needsFence = true;
  memory.noteWrite(operand);
  EXPECT_TRUE(memory.pending.unfenced);
}

// What a loop's end leaves pending must be known at its head.
TEST(SharedMemory, PendingAccessesCoverOthers) {
  SharedMemory::Pending known, found;
  known.reads.push_back({0, 1024});
  found.reads.push_back({256, 512});
  EXPECT_TRUE(known.covers(found));
  EXPECT_FALSE(found.covers(known));
  found.writes.push_back({256, 512});
  EXPECT_FALSE(known.covers(found)); // a read is no write
  known.writes.push_back({0, 4096});
  EXPECT_TRUE(known.covers(found));
  found.noteBulkStore({0, 128});
  EXPECT_FALSE(known.covers(found));
  known.noteBulkStore({0, 256});
  EXPECT_TRUE(known.covers(found));
  found.noteBulkStore({4096, 8192}); // the first one is now further back than the known one
  EXPECT_FALSE(known.covers(found));
}

TEST(SharedMemory, DoubleBuffersExchangeTheirAccesses) {
  SharedMemory::Pending pending;
  Range even{0, 1024}, odd{1024, 2048}, other{2048, 3072};
  pending.writes = {even, other};
  pending.reads = {odd};
  pending.noteBulkStore(even);
  pending.exchange(even, odd);
  EXPECT_EQ(pending.writes[0].begin, odd.begin);
  EXPECT_EQ(pending.writes[1].begin, other.begin);
  EXPECT_EQ(pending.reads[0].begin, even.begin);
  EXPECT_EQ(pending.bulkStores[0].range.begin, odd.begin);
}

// Small ranges of an earlier iteration are reused: that costs a barrier, and no memory.
TEST(SharedMemory, SmallRangesOfEarlierIterationsAreOld) {
  SharedMemory::Pending earlier, pending;
  earlier.writes = {{0, 2048}, {2048, 8192}};
  pending.add(earlier, /*isOld=*/true);
  EXPECT_TRUE(pending.writes[0].isOld);
  EXPECT_FALSE(pending.writes[1].isOld);
}
