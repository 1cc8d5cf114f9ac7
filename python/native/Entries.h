//===- Entries.h - compiled entries, found by name --------------*- C++ -*-===//
//
// What the doors of PyTorch and JAX share: a table of compiled entries, and the
// call of one on tensors in memory. A name is the hash of a program's content
// and what is wanted of it ("0" for the function itself, "1:q,k" for its
// derivative), because both libraries keep names in caches and exports.
//
// Python fills the table. A name that is not in it is looked up by Python once.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_PYTHON_ENTRIES_H
#define EJK_PYTHON_ENTRIES_H

#include <ejk/package_format.h>
#include <ejk/runtime.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace ejk::doors {

constexpr size_t maxTensors = EJK_MAX_TENSORS;
constexpr size_t maxRank = EJK_MAX_RANK;
/// The element type, the rank and the sizes of a tensor that an entry takes or
/// gives; -1 for a size that differs from call to call.
struct TensorForm {
  DLDataType dtype;
  int32_t rank;
  int64_t sizes[maxRank];
  int64_t alignment; // of its address, in bytes
  int32_t hasSlots;  // whether it is a pool, whose slots may be apart
  int32_t hasRows;   // whether its rows, what the dimensions after the first two count, may be
  int32_t replaces;  // of an output: the input whose memory it is written to; -1 for none

  bool fits(const DLTensor &tensor) const;
};

struct Entry {
  const ejk_package *package = nullptr;
  const ejk_executable *executable = nullptr; // null: there are no kernels
  size_t index = 0;
  int64_t number = 0; // Python's
  DLDevice device{};
  std::vector<TensorForm> inputs, outputs;

  /// Whether a call on these runs in the f64 interpreter.
  bool isInterpreted(const DLTensor *given) const;
  bool fits(const DLTensor *given, size_t count) const;
};

/// The sizes that a call's inputs decide. They are kept by a thread until a call of
/// other sizes comes, so that repeated calls compute no formula.
struct CallSizes {
  const Entry *entry = nullptr;
  std::vector<int64_t> inputs;           // ranks and sizes
  std::vector<std::vector<int64_t>> outputs;
  size_t workspaceBytes = 0;
};

/// Finds an entry, by Python's help where it is new. Throws std::runtime_error.
const Entry &findEntry(std::string_view program, std::string_view entry, DLDevice device);

/// The sizes for these inputs. Throws where they do not fit.
const CallSizes &findSizes(const Entry &entry, const DLTensor *inputs, size_t count);

/// Runs an entry on tensors of the right sizes, on a CPU by `maxThreads` at most, if that is not 0.
/// Throws std::runtime_error.
void run(const Entry &entry, const DLTensor *inputs, const DLTensor *outputs, void *workspace,
         size_t workspaceBytes, void *stream, uint32_t maxThreads);

/// Whether a tensor is compact, row by row, and at an address that the form allows. The slots of a
/// pool may be apart, and so may rows where the form says so.
bool isUsable(const DLTensor &tensor, const TensorForm &form);

/// The entry of a device that `fits` a call, among those that a place in a Python program has called
/// before; null where there is none.
const Entry *findAtSite(int64_t site, DLDevice device,
                        const std::function<bool(const Entry &)> &fits);

} // namespace ejk::doors

#endif // EJK_PYTHON_ENTRIES_H
