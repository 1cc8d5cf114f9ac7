//===- Image.h - a CPU's code, mapped ---------------------------*- C++ -*-===//

#ifndef EJK_RUNTIME_CPU_IMAGE_H
#define EJK_RUNTIME_CPU_IMAGE_H

#include "../package/Package.h"

#include "ejk/package_format.h"

namespace ejk {

/// Whether this process runs code for the instruction set of that name.
bool runsCpuArchitecture(std::string_view name);

/// The best instruction set that this process runs; "" if none is known.
const char *bestCpuArchitecture();

/// Of two instruction sets that this process runs, whether the first is the better one.
bool isBetterCpuArchitecture(std::string_view a, std::string_view b);

/// An image's bytes where the processor can run them. No byte of them is writable and
/// executable at one time.
class CpuImage {
public:
  CpuImage() = default;
  CpuImage(CpuImage &&other) noexcept : start(other.start), size(other.size) {
    other.start = nullptr;
  }
  CpuImage &operator=(CpuImage &&) = delete;
  ~CpuImage();

  /// Maps anonymous memory; where the system forbids to execute that, a file in the folder that
  /// the environment variable EJK_IMAGE_DIR names.
  static Result<CpuImage> map(const std::string &bytes);

  /// The kernel at `offset`, which lies within the image.
  ejk_cpu_kernel kernel(uint64_t offset) const;

private:
  void *start = nullptr;
  size_t size = 0;
};

} // namespace ejk

#endif // EJK_RUNTIME_CPU_IMAGE_H
