//===- HostWorkspace.cpp - a CPU call's workspace, kept for the next one --===//

#include "HostWorkspace.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>

using namespace ejk::doors;

// What the process keeps at most. Larger workspaces go back to the system after each call.
static constexpr size_t mostBytesKept = size_t(256) << 20;
// Of x86-64, and of AArch64 with pages of 4 KiB.
static constexpr size_t smallPage = 4096, largePage = size_t(2) << 20;
// glibc learns from no block that is larger.
static constexpr size_t mostBytesLearnt = (size_t(32) << 20) - largePage;

namespace {
struct Block {
  void *memory;
  size_t size;
};

/// Blocks that no call has now, the one that was given back last at the end.
struct Pool {
  std::mutex mutex;
  std::vector<Block> blocks;
  size_t bytes = 0;
};
} // namespace

// Never destroyed: calls of other threads may outlive main.
static Pool &pool() {
  static Pool *pool = new Pool;
  return *pool;
}

static void release(const Block &block) { ::munmap(block.memory, block.size); }

/// glibc's malloc keeps twice as much free memory as the largest block that it ever took
/// back, and returns the rest to the system: so a derivative's results, if they were
/// released, would be mapped page by page again in the next step. A workspace of malloc's
/// would be the largest block. This shows malloc one; no page of it is touched.
static void teachMalloc(size_t size) {
  void *volatile block = std::malloc(std::min(size, mostBytesLearnt));
  std::free(block);
}

static Block make(size_t bytes) {
  // Sizes that differ little, as those of batches do, find the same block.
  size_t unit = bytes >= largePage ? largePage : smallPage;
  size_t size = (bytes + unit - 1) / unit * unit;
  // A large page needs an address that its size divides. What lies before and after goes back.
  size_t mapped = size + unit - smallPage;
  void *start = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    throw std::runtime_error("ejk: no memory for a workspace of " + std::to_string(bytes) +
                             " bytes");
  char *memory = reinterpret_cast<char *>(
      (reinterpret_cast<uintptr_t>(start) + unit - 1) / unit * unit);
  char *begin = static_cast<char *>(start), *end = begin + mapped;
  if (memory > begin)
    ::munmap(begin, size_t(memory - begin));
  if (end > memory + size)
    ::munmap(memory + size, size_t(end - memory) - size);
#ifdef MADV_HUGEPAGE
  if (unit == largePage)
    ::madvise(memory, size, MADV_HUGEPAGE); // refused, it is slower, and right
#endif
  teachMalloc(size);
  return {memory, size};
}

HostWorkspace::HostWorkspace(size_t bytes) {
  if (bytes == 0)
    return;
  {
    std::lock_guard<std::mutex> lock(pool().mutex);
    auto &blocks = pool().blocks;
    auto best = blocks.end();
    for (auto block = blocks.begin(); block != blocks.end(); ++block)
      if (block->size >= bytes && (best == blocks.end() || block->size <= best->size))
        best = block;
    if (best != blocks.end()) {
      memory = best->memory;
      size = best->size;
      pool().bytes -= size;
      blocks.erase(best);
      return;
    }
  }
  Block made = make(bytes);
  memory = made.memory;
  size = made.size;
}

HostWorkspace::~HostWorkspace() {
  if (!memory)
    return;
  Block block{memory, size};
  if (size > mostBytesKept) {
    release(block);
    return;
  }
  std::lock_guard<std::mutex> lock(pool().mutex);
  auto &blocks = pool().blocks;
  blocks.push_back(block);
  pool().bytes += size;
  while (pool().bytes > mostBytesKept) {
    pool().bytes -= blocks.front().size;
    release(blocks.front());
    blocks.erase(blocks.begin());
  }
}
