//===- HostWorkspaceTest.cpp - workspaces that the process keeps ----------===//
#include "python/native/HostWorkspace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include <sys/resource.h>

using ejk::doors::HostWorkspace;

static constexpr size_t mebibyte = size_t(1) << 20;

static long faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(HostWorkspace, NoneForNoBytes) { EXPECT_EQ(HostWorkspace(0).data(), nullptr); }

TEST(HostWorkspace, AtAlignedAddresses) {
  for (size_t bytes : {size_t(1), size_t(4097), 3 * mebibyte}) {
    HostWorkspace workspace(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace.data()) % 256, 0u);
    std::memset(workspace.data(), 1, bytes);
  }
}

TEST(HostWorkspace, TheNextCallTouchesNoNewPage) {
  const size_t bytes = 16 * mebibyte;
  {
    HostWorkspace first(bytes);
    std::memset(first.data(), 1, bytes);
  }
  HostWorkspace second(bytes - mebibyte);
  long before = faults();
  std::memset(second.data(), 2, bytes - mebibyte);
  EXPECT_LE(faults() - before, 1);
}

TEST(HostWorkspace, TwoAtOnceAreApart) {
  HostWorkspace first(mebibyte), second(mebibyte);
  std::memset(first.data(), 1, mebibyte);
  std::memset(second.data(), 2, mebibyte);
  const char *bytes = static_cast<const char *>(first.data());
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[mebibyte - 1], 1);
}

TEST(HostWorkspace, IsKeptHoweverOftenItIsTaken) {
  const size_t bytes = 100 * mebibyte;
  for (int i = 0; i < 8; ++i) {
    HostWorkspace workspace(bytes);
    char *first = static_cast<char *>(workspace.data());
    EXPECT_EQ(*first, i ? 1 : *first); // of a new page, 0
    *first = 1;
  }
}

TEST(HostWorkspace, LargeOnesGoBack) {
  const size_t bytes = 300 * mebibyte, touched = 8 * mebibyte;
  for (int i = 0; i < 2; ++i) {
    HostWorkspace workspace(bytes);
    EXPECT_EQ(static_cast<char *>(workspace.data())[0], 0); // a new page
    std::memset(workspace.data(), 1, touched);
  }
}

TEST(HostWorkspace, FailsWhereThereIsNoMemory) {
  EXPECT_THROW(HostWorkspace(size_t(1) << 62), std::runtime_error);
}
