//===- Injection.cpp - making allocations and file calls fail -------------===//

#include "Injection.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <cstdio>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace ejk::test;

static thread_local Failing failing = Failing::nothing;
static thread_local long failAt, calls;
static thread_local bool forbidsExecution;
static std::atomic<long> blocks, files;

void ejk::test::startFailing(Failing what, long n) {
  failAt = n;
  calls = 0;
  failing = what;
}

long ejk::test::stopFailing() {
  failing = Failing::nothing;
  return calls;
}

void ejk::test::forbidExecution(bool forbidden) { forbidsExecution = forbidden; }

long ejk::test::liveBlocks() { return blocks; }
long ejk::test::openFiles() { return files; }

static bool allocationFails() {
  if (failing == Failing::oneAllocation)
    return ++calls == failAt;
  return failing == Failing::allAllocations && ++calls >= failAt;
}

static bool fileCallFails() {
  if (failing != Failing::oneFileCall || ++calls != failAt)
    return false;
  errno = EIO;
  return true;
}

static bool isInterrupted() {
  if (failing != Failing::interruptedCall || ++calls != failAt)
    return false;
  errno = EINTR;
  return true;
}

static size_t transferred(size_t bytes) {
  return failing == Failing::shortTransfers && ++calls >= failAt && bytes > 1 ? 1 : bytes;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

#ifdef EJK_SANITIZER_OWNS_MALLOC

static void *allocate(size_t bytes) {
  void *block = allocationFails() ? nullptr : std::malloc(bytes ? bytes : 1);
  blocks += block != nullptr;
  return block;
}

static void release(void *block) {
  blocks -= block != nullptr;
  std::free(block);
}

#else

#pragma GCC visibility push(default)
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t bytes) {
  void *block = allocationFails() ? nullptr : __libc_malloc(bytes);
  blocks += block != nullptr;
  if (!block)
    errno = ENOMEM;
  return block;
}
void *calloc(size_t count, size_t bytes) {
  void *block = allocationFails() ? nullptr : __libc_calloc(count, bytes);
  blocks += block != nullptr;
  return block;
}
void *realloc(void *old, size_t bytes) {
  void *block = allocationFails() ? nullptr : __libc_realloc(old, bytes);
  blocks += block != nullptr && old == nullptr;
  return block;
}
int posix_memalign(void **result, size_t alignment, size_t bytes) {
  void *block = allocationFails() ? nullptr : __libc_memalign(alignment, bytes);
  blocks += block != nullptr;
  return block ? (*result = block, 0) : ENOMEM;
}
void free(void *block) {
  blocks -= block != nullptr;
  __libc_free(block);
}
}
#pragma GCC visibility pop

static void *allocate(size_t bytes) { return malloc(bytes ? bytes : 1); }
static void release(void *block) { free(block); }

#endif

#pragma GCC visibility push(default)
void *operator new(size_t bytes) {
  if (void *block = allocate(bytes))
    return block;
  throw std::bad_alloc();
}
void *operator new[](size_t bytes) { return operator new(bytes); }
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes); }
void operator delete(void *block) noexcept { release(block); }
void operator delete[](void *block) noexcept { release(block); }
void operator delete(void *block, size_t) noexcept { release(block); }
void operator delete[](void *block, size_t) noexcept { release(block); }
void operator delete(void *block, const std::nothrow_t &) noexcept { release(block); }
#pragma GCC visibility pop

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

// Hidden, as other symbols are, they would serve this program alone.
#pragma GCC visibility push(default)
extern "C" {
int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  if (fileCallFails())
    return -1;
  int file = int(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  files += file >= 0;
  return file;
}

int close(int file) {
  files -= file >= 0;
  return int(syscall(SYS_close, file));
}

int fstat(int file, struct stat *status) noexcept {
  if (fileCallFails())
    return -1;
  return int(syscall(SYS_fstat, file, status));
}

ssize_t read(int file, void *to, size_t bytes) {
  if (fileCallFails())
    return -1;
  if (isInterrupted())
    return -1;
  return syscall(SYS_read, file, to, transferred(bytes));
}

ssize_t write(int file, const void *from, size_t bytes) {
  if (fileCallFails() || isInterrupted())
    return -1;
  return syscall(SYS_write, file, from, transferred(bytes));
}

int fsync(int file) { return fileCallFails() ? -1 : int(syscall(SYS_fsync, file)); }

int fchmod(int file, mode_t mode) noexcept {
  return fileCallFails() ? -1 : int(syscall(SYS_fchmod, file, mode));
}

int mkostemp(char *path, int flags) {
  if (fileCallFails())
    return -1;
  static auto *const real = reinterpret_cast<int (*)(char *, int)>(dlsym(RTLD_NEXT, "mkostemp"));
  int file = real(path, flags);
  files += file >= 0;
  return file;
}

void *mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (fileCallFails())
    return MAP_FAILED;
  return reinterpret_cast<void *>(
      syscall(SYS_mmap, start, bytes, protection, flags, file, offset));
}

int mprotect(void *start, size_t bytes, int protection) noexcept {
  if (fileCallFails())
    return -1;
  if (forbidsExecution && (protection & PROT_EXEC)) {
    errno = EACCES;
    return -1;
  }
  return int(syscall(SYS_mprotect, start, bytes, protection));
}

off_t lseek(int file, off_t offset, int from) noexcept {
  return fileCallFails() ? -1 : off_t(syscall(SYS_lseek, file, offset, from));
}

int mkdir(const char *path, mode_t mode) noexcept {
  return fileCallFails() ? -1 : int(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int linkat(int fromFolder, const char *from, int toFolder, const char *to, int flags) noexcept {
  return fileCallFails() ? -1 : int(syscall(SYS_linkat, fromFolder, from, toFolder, to, flags));
}

int rename(const char *from, const char *to) noexcept {
  return fileCallFails() ? -1 : int(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}
#pragma GCC visibility pop
