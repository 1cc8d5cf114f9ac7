//===- HostWorkspace.h - a CPU call's workspace, kept for the next one ----===//
//
// A derivative's workspace on a CPU holds states: tens of megabytes, as much as its
// results. The system gives such memory page by page, each zeroed and mapped where
// it is first touched, which can take longer than the derivative. So the process
// keeps the memory, in few large pages, and calls take it in turns.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_PYTHON_HOSTWORKSPACE_H
#define EJK_PYTHON_HOSTWORKSPACE_H

#include <cstddef>

namespace ejk::doors {

/// Memory of one call. Where the process has kept some that suffices, this is that.
class HostWorkspace {
public:
  /// Throws std::runtime_error where there is no memory.
  explicit HostWorkspace(size_t bytes);
  HostWorkspace(const HostWorkspace &) = delete;
  ~HostWorkspace();

  /// At an address that 256 divides; null for 0 bytes.
  void *data() const { return memory; }

private:
  void *memory = nullptr;
  size_t size = 0;
};

} // namespace ejk::doors

#endif // EJK_PYTHON_HOSTWORKSPACE_H
