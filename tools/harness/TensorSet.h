//===- TensorSet.h - one call's tensors in device memory --------*- C++ -*-===//

#ifndef EJK_TOOLS_HARNESS_TENSORSET_H
#define EJK_TOOLS_HARNESS_TENSORSET_H

#include "Harness.h"

namespace ejk {

/// Inputs, outputs and workspace of one entry, in one allocation, with the
/// DLPack views that a launch takes. A GPU's context must be current.
class TensorSet {
public:
  /// Matches the inputs by name, has the runtime check them, and allocates.
  static Result<TensorSet> create(const DeviceSession &session, const Program &program,
                                  size_t entry, const std::vector<HostTensor> &inputs,
                                  const RunOptions &options);
  /// The same tensors with the same contents in memory of their own.
  static Result<TensorSet> copyOf(const TensorSet &other);

  TensorSet(TensorSet &&other);
  TensorSet &operator=(TensorSet &&) = delete;
  ~TensorSet();

  /// Fills outputs that replace no input, workspace and guards with 0xFF.
  Error poison();
  Error launch();
  Result<std::vector<HostTensor>> download();

  /// Each input once and each output once.
  int64_t trafficBytes() const;
  int64_t allocatedBytes() const { return slabBytes; }

private:
  struct Tensor {
    const TensorSpec *spec;
    std::vector<int64_t> shape;
    /// Empty for a tensor without gaps.
    std::vector<int64_t> strides;
    int64_t bytes = 0;
    int64_t offset = 0;
    DLTensor view;
    bool replacesInput = false;
  };

  TensorSet(const DeviceSession &session, const Program &program, size_t entry)
      : session(&session), program(&program), entry(entry) {}

  Error matchInputs(const std::vector<HostTensor> &given, std::vector<const HostTensor *> &matched);
  /// Places an input's rows apart, if they may be.
  void moveRowsApart(Tensor &input, const HostTensor &given);
  Error describeOutputs(bool inPlace);
  Error allocate();
  Error upload(const std::vector<const HostTensor *> &matched);
  Error checkOnHost(const std::vector<const HostTensor *> &matched);
  Error checkGuards();
  void pointViews();
  const char *forcedSchedule() const { return schedule.empty() ? nullptr : schedule.c_str(); }

  const DeviceSession *session;
  const Program *program;
  size_t entry;
  std::vector<Tensor> inputs, outputs;
  std::vector<const DLTensor *> inputViews, outputViews;
  int64_t workspaceOffset = 0;
  size_t workspaceBytes = 0;
  std::string schedule; ///< that is forced; "" for none
  int64_t rowGap = -1;
  uint64_t slab = 0; ///< its address in the device's memory
  int64_t slabBytes = 0;
};

} // namespace ejk

#endif // EJK_TOOLS_HARNESS_TENSORSET_H
