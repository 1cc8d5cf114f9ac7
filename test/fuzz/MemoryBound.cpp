//===- MemoryBound.cpp - how much memory one input may take ---------------===//

#include "MemoryBound.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace ejk::fuzz;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EJK_MEASURES_MEMORY 1
#endif
#endif

#ifdef EJK_MEASURES_MEMORY
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                                         void (*)(const volatile void *));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void *);

static thread_local size_t inUse, bound;
static thread_local bool isMeasured;

static void onMalloc(const volatile void *, size_t bytes) {
  if (!isMeasured)
    return;
  inUse += bytes;
  if (inUse <= bound)
    return;
  isMeasured = false;
  std::fprintf(stderr, "%zu bytes are in use, more than the bound of %zu\n", inUse, bound);
  std::abort();
}

static void onFree(const volatile void *block) {
  if (isMeasured && block)
    inUse -= std::min(inUse, __sanitizer_get_allocated_size(block));
}

MemoryBound::MemoryBound(size_t inputSize) {
  static int installed = __sanitizer_install_malloc_and_free_hooks(onMalloc, onFree);
  (void)installed;
  inUse = 0;
  bound = std::max<size_t>(size_t(64) << 20, 16 * inputSize);
  isMeasured = true;
}

MemoryBound::~MemoryBound() { isMeasured = false; }
#else
MemoryBound::MemoryBound(size_t) {}
MemoryBound::~MemoryBound() {}
#endif
