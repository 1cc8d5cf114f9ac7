//===- Image.cpp - a CPU's code, mapped -----------------------------------===//

#include "Image.h"

#include "../package/Names.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace ejk;

//===----------------------------------------------------------------------===//
// Instruction sets
//===----------------------------------------------------------------------===//

// Best first. Names of other architectures are no errors: a package has code for several.
static constexpr const char *knownArchitectures[] = {"x86-64-v4-bf16", "x86-64-v4", "x86-64-v3",
                                                     "aarch64"};

bool ejk::runsCpuArchitecture(std::string_view name) {
#if defined(__x86_64__)
  // These ask the operating system, too, whether it saves the registers.
  if (name == "x86-64-v4-bf16")
    return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16");
  if (name == "x86-64-v4")
    return __builtin_cpu_supports("x86-64-v4");
  return name == "x86-64-v3" && __builtin_cpu_supports("x86-64-v3");
#elif defined(__aarch64__)
  return name == "aarch64";
#else
  return false;
#endif
}

const char *ejk::bestCpuArchitecture() {
  for (const char *known : knownArchitectures)
    if (runsCpuArchitecture(known))
      return known;
  return "";
}

bool ejk::isBetterCpuArchitecture(std::string_view a, std::string_view b) {
  for (const char *known : knownArchitectures)
    if (a == known || b == known)
      return a == known && b != known;
  return false;
}

//===----------------------------------------------------------------------===//
// Mapping
//===----------------------------------------------------------------------===//

static Error cannotMap(const std::string &what) {
  int reason = errno;
  return {reason == ENOMEM ? ErrorCode::OutOfMemory : ErrorCode::Io,
          "loading the package's CPU image: " + what + ": " + std::strerror(reason)};
}

CpuImage::~CpuImage() {
  if (start)
    ::munmap(start, size);
}

ejk_cpu_kernel CpuImage::kernel(uint64_t offset) const {
  char *address = static_cast<char *>(start) + offset;
  return reinterpret_cast<ejk_cpu_kernel>(reinterpret_cast<uintptr_t>(address));
}

// A file without a name in `folder`, with these bytes, open for reading alone.
static Result<int> makeFile(const std::string &folder, const std::string &bytes) {
  std::string path = folder + "/ejk-image-XXXXXX";
  int writable = ::mkostemp(path.data(), O_CLOEXEC);
  if (writable < 0)
    return cannotMap("cannot make a file in " + inQuotes(folder));
  int readable = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  int reason = errno;
  ::unlink(path.c_str());
  size_t written = 0;
  while (readable >= 0 && written < bytes.size()) {
    ssize_t count = ::write(writable, bytes.data() + written, bytes.size() - written);
    reason = errno;
    if (count < 0 && reason != EINTR) {
      ::close(readable);
      readable = -1;
    }
    written += count > 0 ? size_t(count) : 0;
  }
  ::close(writable);
  errno = reason;
  if (readable < 0)
    return cannotMap("cannot write a file in " + inQuotes(folder));
  return readable;
}

static Result<void *> mapFile(const std::string &folder, const std::string &bytes, size_t size) {
  Result<int> file = makeFile(folder, bytes);
  if (!file)
    return file.error();
  void *start = ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, *file, 0);
  int reason = errno;
  ::close(*file);
  errno = reason;
  if (start == MAP_FAILED)
    return cannotMap("cannot execute a file in " + inQuotes(folder));
  return start;
}

Result<CpuImage> CpuImage::map(const std::string &bytes) {
  CpuImage image;
  image.size = (bytes.size() + EJK_CPU_IMAGE_ALIGNMENT - 1) / EJK_CPU_IMAGE_ALIGNMENT *
               EJK_CPU_IMAGE_ALIGNMENT;
  void *start = ::mmap(nullptr, image.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0);
  if (start == MAP_FAILED)
    return cannotMap("no memory of " + std::to_string(image.size) + " bytes");
  std::memcpy(start, bytes.data(), bytes.size());
  if (::mprotect(start, image.size, PROT_READ | PROT_EXEC) != 0) {
    int reason = errno;
    ::munmap(start, image.size);
    const char *folder = std::getenv("EJK_IMAGE_DIR");
    errno = reason;
    if (!folder || !*folder)
      return cannotMap("this system forbids to execute memory that was written; name a folder, "
                       "whose files may be executed, in EJK_IMAGE_DIR");
    Result<void *> mapped = mapFile(folder, bytes, image.size);
    if (!mapped)
      return mapped.error();
    start = *mapped;
  }
  image.start = start;
  char *code = static_cast<char *>(start);
  __builtin___clear_cache(code, code + bytes.size());
  return image;
}
