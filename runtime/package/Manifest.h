//===- Manifest.h - what a kernel package says ------------------*- C++ -*-===//
//
// The manifest after parsing and validation: indices are in range, symbols are
// slots, expressions are compiled. docs/package-format.md describes each field.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_PACKAGE_MANIFEST_H
#define EJK_RUNTIME_PACKAGE_MANIFEST_H

#include "DataType.h"
#include "Expr.h"
#include "Result.h"

#include "ejk/package_format.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ejk {

/// The value of "role" for row offsets of packed sequences.
inline constexpr std::string_view cuSeqlensRole = "cu_seqlens";
/// The value of "role" for a gate: the logarithm of a decay, at most 0.
inline constexpr std::string_view logDecayRole = "log_decay";
/// The value of "role" for indices of states in a pool, a vector; a negative one skips its sequence.
inline constexpr std::string_view stateIndexRole = "state_index";
/// The value of "role" for keys of a recurrence.
inline constexpr std::string_view keyRole = "key";
/// The value of "role" for a delta rule's rate, from 0 to 1.
inline constexpr std::string_view rateRole = "rate";

/// One dimension of a shape. An input's dimension that is the first to name a
/// symbol determines it; every other one is checked.
struct Dim {
  enum class Kind : uint8_t {
    Check,     ///< equals `expr`
    Bind,      ///< symbol = d
    BindPlus,  ///< symbol = d - constant
    BindTimes, ///< symbol = d / constant, which leaves no remainder
  };
  Kind kind = Kind::Check;
  int symbol = -1;
  int64_t constant = 0;
  Expr expr;
};

struct TensorSpec {
  std::string name;
  DataType dtype = DataType::F32;
  std::vector<Dim> dims;
  int64_t align = 1;
  std::string role;
  /// With role cu_seqlens: what its last entry may be at most.
  Expr total;
  /// With role state_index: the states that the pool has.
  Expr states;
  /// Outputs: the input whose buffer this one may replace in place, or -1.
  int mayAlias = -1;
  /// Whether it must.
  bool inPlace = false;
  /// Of a pool: the outermost dimension may have any stride that keeps its slots apart.
  bool hasSlots = false;
  /// Inputs: the symbol that the stride between rows gives its value, or -1 where the tensor must be
  /// compact. A row is what the dimensions after the first two count; rows may lie apart.
  int rowStride = -1;
  /// "[B, T, H, 128]"
  std::string shapeText;
};

struct Constraint {
  Expr expr;
  int64_t equals = 0;
  std::string message;
};

struct Workspace {
  std::string name;
  Expr bytes;
};

/// A buffer as a tensor that a kernel copies boxes of. The outermost dimension
/// comes first; neighbours along the innermost one lie side by side.
struct TensorMap {
  DataType dtype = DataType::BF16;
  std::vector<Expr> sizes;   ///< 1 to EJK_MAX_TENSOR_MAP_RANK
  std::vector<Expr> strides; ///< in elements, of all dimensions but the innermost
  std::vector<unsigned> box; ///< in elements, of all dimensions
};

struct Argument {
  enum class Kind : uint8_t { Input, Output, Workspace, Integer, SlotStride };
  Kind kind = Kind::Integer;
  int index = -1;     ///< of the input, output or workspace buffer; of the input with a stride
  int tensorMap = -1; ///< of the launch's: what is passed in place of the buffer's address
  Expr value;         ///< of an integer
};

struct Launch {
  std::string kernel;
  /// The launch is skipped where this does not hold.
  std::optional<Expr> when;
  unsigned block[3] = {1, 1, 1};
  unsigned sharedBytes = 0;
  Expr grid;
  std::vector<Argument> args;
  std::vector<TensorMap> tensorMaps; ///< in the arguments' order
};

/// One way to compute an entry: a schedule's kernels for one architecture. Of
/// those of the device's architecture, a call takes the first whose conditions
/// hold; the last has none. Conditions also read the device's facts, which
/// follow the entry's symbols (deviceFactNames).
struct Variant {
  std::string schedule;  ///< its name; "" for an entry with one way alone
  int architecture = -1; ///< of Manifest::architectures; -1 for each of them
  /// Where it computes the right results; elsewhere it cannot be forced either.
  std::optional<Expr> needs;
  /// Where it is taken if no schedule is forced.
  std::optional<Expr> when;
  std::vector<Workspace> workspaces;
  std::vector<Launch> launches;

  bool isFor(int arch) const { return architecture < 0 || architecture == arch; }
};

/// What conditions may read besides an entry's symbols, in the slots after them.
inline constexpr std::string_view deviceFactNames[EJK_NUM_DEVICE_FACTS] = {
    "device.arch", "device.multiprocessors", "device.shared_bytes"};
/// Symbols' names do not start so.
inline constexpr std::string_view deviceFactPrefix = "device.";
/// The dimensions of an input whose rows may lie apart that count rows, and the fewest in all.
inline constexpr size_t numRowDims = 2, leastRowRank = 3;

struct Entry {
  std::string name;
  std::vector<std::string> symbols;
  /// Which input and which of its dimensions determines each symbol; dimension -1 is its row stride.
  std::vector<std::pair<int, int>> symbolSources;
  std::vector<TensorSpec> inputs, outputs;
  std::vector<Constraint> constraints;
  std::vector<Variant> variants; ///< at least one for each architecture
  std::string derivativeOf;      ///< the entry whose derivative this is; "" for none
  /// The entry whose results this one gives, and then the states that its derivative takes.
  std::string forwardOf;
};

/// What images were compiled for.
struct Architecture {
  std::string name; ///< "sm_90"
  int number = 0;
  /// Uses instructions of one architecture only, so runs on no later one.
  bool isSpecific = false;
  /// A CPU's instruction set, "x86-64-v3", rather than a GPU.
  bool isCpu = false;
};

struct Image {
  enum class Kind : uint8_t { Ptx, Cubin, Cpu };
  Kind kind = Kind::Ptx;
  int architecture = 0; ///< of Manifest::architectures
  uint64_t offset = 0, stored = 0; ///< bytes of the payload
  uint64_t size = 0;               ///< bytes of code
  bool isCompressed = false;       ///< stored as a Zstandard frame
  /// Of a CPU's: where each kernel starts in it.
  std::vector<std::pair<std::string, uint64_t>> kernels;
};

struct Manifest {
  std::string producer;
  /// Those that images are compiled for, in the order in which these name them.
  std::vector<Architecture> architectures;
  std::string archText; ///< their names: "sm_80, sm_90a"
  std::vector<Image> images;
  std::vector<Entry> entries;

  const Entry *findEntry(std::string_view name) const;
};

/// Parses and validates a manifest whose payload has `payloadSize` bytes, in a
/// package of this format version, EJK_OLDEST_PACKAGE_VERSION or later.
Result<Manifest> parseManifest(std::string_view text, uint64_t payloadSize,
                               uint32_t formatVersion = EJK_PACKAGE_VERSION);

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_MANIFEST_H
