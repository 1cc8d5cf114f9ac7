//===- Harness.h - run and time kernel packages on a device -----*- C++ -*-===//
//
// What ejk-run and ejk-launch share: a GPU's or the CPU's memory, one checked run, timing
// against the device's own copy bandwidth. Everything goes through the C API,
// as a user's program would, so that the tools test it too.
//
//   Result<std::unique_ptr<DeviceSession>> session = DeviceSession::open();  // or openCpu()
//   auto program = (*session)->load(packageBytes);
//   auto outputs = (*session)->run(**program, "gla", inputs);
//
// A session belongs to one thread at a time.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_TOOLS_HARNESS_HARNESS_H
#define EJK_TOOLS_HARNESS_HARNESS_H

#include "ejk/runtime.h"

#include "driver/Driver.h"
#include "Choice.h"
#include "io/HostTensor.h"
#include "package/Package.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ejk {

/// Turns an owned C error into a value and destroys it; null gives an empty
/// message.
Error takeError(ejk_error *error);

/// A package that is loaded on a session's device.
class Program {
public:
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  const Package &package() const { return parsed; }
  /// Whether the code came from a binary in the package rather than its PTX.
  bool usesBinary() const { return ejk_executable_uses_binary(executable); }
  /// The architecture of the code that was loaded.
  std::string architecture() const { return ejk_executable_arch(executable); }

private:
  friend class DeviceSession;
  friend class TensorSet;
  Program() = default;
  /// An entry's index; the only entry's for an empty name.
  Result<size_t> findEntry(const std::string &name) const;

  Package parsed;
  ejk_package *handle = nullptr;
  ejk_executable *executable = nullptr;
};

struct RunOptions {
  /// Outputs that may replace an input do, as decode replaces its state.
  bool inPlace = false;
  /// The schedule to take; "" for the one that the launch chooses.
  std::string schedule = "";
  /// Bytes between the rows of inputs whose rows may lie apart, rounded up to a multiple of 16; they
  /// are 0xFF. -1 for rows one behind the other.
  int64_t rowGap = -1;
};

struct BenchOptions : RunOptions {
  /// The median of this many repetitions counts; at least 20.
  int repetitions = 20;
};

/// Times are of one launch of the entry, in microseconds.
struct BenchResult {
  double graphMicros = 0;     ///< inside a CUDA graph of many launches
  double plainMicros = 0;     ///< launched one by one on a stream
  double sustainedMicros = 0; ///< in graphs that follow one another for 0.2 s: clocks may fall
  double hostMicros = 0;      ///< the host's share of a plain launch
  int64_t bytes = 0;          ///< each input read once, each output written once
  double bandwidth = 0;       ///< bytes / graphMicros, in bytes a second
  double copyBandwidth = 0;   ///< the device's own copy, read + write
  double floorMicros = 0;     ///< bytes at the copy's bandwidth
  double ratioToFloor = 0;    ///< graphMicros / floorMicros
  int copies = 0;             ///< of the tensors that launches rotate over
  int64_t rotationBytes = 0;  ///< of all copies; cold when over 3 x l2Bytes
  int64_t l2Bytes = 0;
  int repetitions = 0;

  /// Of the CPU: how many threads launches have, what FMA units do on as many in a second, the
  /// shortest of the repetitions, and the processor time of all threads, which other processes
  /// do not change.
  int threads = 0;
  double fmaFlops = 0, leastMicros = 0, processorMicros = 0;

  /// A few lines for people.
  std::string describe() const;
};

class DeviceSession {
public:
  /// Opens a device; the error says what is missing where there is none.
  static Result<std::unique_ptr<DeviceSession>> open(int ordinal = 0);
  /// This machine's CPU, as one device.
  static std::unique_ptr<DeviceSession> openCpu();
  ~DeviceSession();
  DeviceSession(const DeviceSession &) = delete;
  DeviceSession &operator=(const DeviceSession &) = delete;

  bool isCpu() const { return !driver; }
  const std::string &deviceName() const { return name; }
  /// "sm_90"
  std::string architecture() const;
  /// The compute capability's two parts.
  unsigned majorCapability() const { return device.major; }
  unsigned minorCapability() const { return device.minor; }
  int64_t l2Bytes() const { return l2; }

  /// The program must not outlive the session.
  Result<std::unique_ptr<Program>> load(std::string_view packageBytes, bool preferPtx = false);

  /// Runs an entry once on inputs that are found by name (others are ignored)
  /// and gives its outputs in the manifest's order. Outputs and workspace are
  /// filled with 0xFF bytes, which are NaN, beforehand, and a write past their
  /// end is an error. The entry's name may be empty when there is only one.
  Result<std::vector<HostTensor>> run(const Program &program, const std::string &entry,
                                      const std::vector<HostTensor> &inputs,
                                      const RunOptions &options = {});

  /// Which variant a run on these inputs takes, and why: some lines for people.
  Result<std::string> explain(const Program &program, const std::string &entry,
                              const std::vector<HostTensor> &inputs,
                              const std::string &schedule = "");
  /// The same of a program with code for `arch` that is not loaded.
  Result<VariantChoice> choose(const Manifest &manifest, const Entry &entry, const std::string &arch,
                               const std::vector<HostTensor> &inputs,
                               const std::string &schedule = "");

  /// Times an entry with cold caches: launches rotate over copies of all
  /// tensors that together exceed three times the L2 cache.
  Result<BenchResult> bench(const Program &program, const std::string &entry,
                            const std::vector<HostTensor> &inputs,
                            const BenchOptions &options = {});

  /// Bytes a second, read + write, of a large copy in device memory.
  Result<double> measureCopyBandwidth();

private:
  friend class TensorSet;
  DeviceSession() = default;

  // The device's memory. Fills and copies within it are in the stream's order.
  Result<uint64_t> allocate(size_t bytes) const;
  void release(uint64_t address) const;
  Error fill(uint64_t address, unsigned char byte, size_t bytes) const;
  Error upload(uint64_t address, const void *host, size_t bytes) const;
  Error download(void *host, uint64_t address, size_t bytes) const;
  Error copyWithin(uint64_t to, uint64_t from, size_t bytes) const;
  Error synchronize() const;

  Result<BenchResult> benchCpu(const Program &program, size_t entry,
                               const std::vector<HostTensor> &inputs, const BenchOptions &options);

  const Driver *driver = nullptr; ///< null for the CPU
  Device device;
  CUstream stream = nullptr;
  std::string name;
  int64_t l2 = 0;
};

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_HARNESS_H
