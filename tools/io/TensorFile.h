//===- TensorFile.h - safetensors and .npy files ----------------*- C++ -*-===//
//
// Any bytes whatever give tensors or an error.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_TOOLS_IO_TENSORFILE_H
#define EJK_TOOLS_IO_TENSORFILE_H

#include "HostTensor.h"
#include "OutputFile.h"

#include <functional>

namespace ejk {

/// Reads a whole file; of a pipe or a device, 64 MiB at most.
Result<std::string> readFile(const std::string &path);

/// Whether a tensor's data is wanted, by its name.
using TensorFilter = std::function<bool(std::string_view name)>;

/// Reads what a command line names: FILE.safetensors (all of its tensors),
/// FILE.npy (named after the file), NAME=FILE.npy, or a folder (all such files
/// in it). Two tensors of one name are an error. Tensors that `wanted` refuses
/// have name, type and shape, but no data: that is not read.
Result<std::vector<HostTensor>> readTensors(const std::vector<std::string> &specs,
                                            const TensorFilter &wanted = {});

/// The paths of the files that readTensors(specs) reads.
Result<std::vector<std::string>> tensorFilePaths(const std::vector<std::string> &specs);

/// Writes one safetensors file, or, when `path` is a folder or ends in '/', one
/// NAME.npy per tensor, or, when it ends in .npy, the only tensor. The error's
/// message, or an empty string.
std::string writeTensors(const std::string &path, const std::vector<HostTensor> &tensors);

/// An error's message if writeTensors() of tensors with these names cannot be
/// done, or would replace one of the files `inputs`; else an empty string.
std::string checkTensorOutputs(const std::string &path, const std::vector<std::string> &names,
                               const std::vector<std::string> &inputs);

// The formats themselves, in memory.

/// Tensors in the order of their data.
Result<std::vector<HostTensor>> parseSafetensors(std::string_view bytes);
std::string serializeSafetensors(const std::vector<HostTensor> &tensors);

/// C order and little-endian only: nothing is transposed or swapped silently.
Result<HostTensor> parseNpy(std::string_view bytes);
/// An error for bf16, which .npy has no type for.
Result<std::string> serializeNpy(const HostTensor &tensor);

} // namespace ejk

#endif // EJK_TOOLS_IO_TENSORFILE_H
