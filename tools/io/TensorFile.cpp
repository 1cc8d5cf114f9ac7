//===- TensorFile.cpp - from what a command line names to tensors ---------===//

#include "TensorFile.h"

#include "InputFile.h"
#include "TensorHeaders.h"

#include "package/Names.h"

#include <algorithm>
#include <filesystem>

using namespace ejk;
namespace fs = std::filesystem;

// Of what has no end, readFile() takes no more.
static constexpr uint64_t maxStreamBytes = uint64_t(64) << 20;

static Error ioError(std::string message) { return {ErrorCode::Io, std::move(message)}; }

static Error inFile(const std::string &path, const std::string &message) {
  return ioError(inQuotes(path) + ": " + message);
}

Result<std::string> ejk::readFile(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file)
    return file.error();
  uint64_t limit = file->remaining().value_or(maxStreamBytes);
  std::vector<char> bytes;
  // One byte more shows whether there is more.
  std::string error = file->read(limit + 1, bytes);
  if (!error.empty())
    return ioError(error);
  if (bytes.size() > limit)
    return inFile(path, "it is no regular file and has more than " +
                            std::to_string(maxStreamBytes) + " bytes");
  return std::string(bytes.begin(), bytes.end());
}

static bool endsWith(const std::string &text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static std::string_view view(const std::vector<char> &bytes) {
  return {bytes.data(), bytes.size()};
}

namespace {
/// Reads one file's tensors; each function gives an empty string or the error.
class TensorReader {
public:
  TensorReader(InputFile &file, const TensorFilter &wanted) : file(file), wanted(wanted) {}

  std::string readSafetensors(std::vector<HostTensor> &tensors);
  std::string readNpy(const std::string &name, std::vector<HostTensor> &tensors);

private:
  std::string readData(HostTensor &tensor, uint64_t size);
  std::string checkEnd();

  InputFile &file;
  const TensorFilter &wanted;
};
} // namespace

std::string TensorReader::readData(HostTensor &tensor, uint64_t size) {
  if (wanted && !wanted(tensor.name))
    return file.skip(size);
  std::string error = file.read(size, tensor.data);
  if (error.empty() && tensor.data.size() != size)
    return wrongDataSize(tensor, size, tensor.data.size());
  return error;
}

std::string TensorReader::checkEnd() {
  std::vector<char> more;
  std::string error = file.read(1, more);
  return !error.empty() || more.empty() ? error : "more bytes follow the last tensor's data";
}

std::string TensorReader::readSafetensors(std::vector<HostTensor> &tensors) {
  std::vector<char> prefix, header;
  if (std::string error = file.read(safetensorsPrefix, prefix); !error.empty())
    return error;
  Result<uint64_t> headerSize = safetensorsHeaderSize(view(prefix));
  if (!headerSize)
    return headerSize.error().message;
  if (std::string error = file.read(*headerSize, header); !error.empty())
    return error;
  if (header.size() != *headerSize)
    return "its header is truncated";
  Result<std::vector<StoredTensor>> stored = parseSafetensorsHeader(view(header), file.remaining());
  if (!stored)
    return stored.error().message;
  for (StoredTensor &each : *stored) {
    if (std::string error = readData(each.tensor, each.end - each.begin); !error.empty())
      return error;
    tensors.push_back(std::move(each.tensor));
  }
  return checkEnd();
}

std::string TensorReader::readNpy(const std::string &name, std::vector<HostTensor> &tensors) {
  std::vector<char> bytes;
  if (std::string error = file.read(npyPrefix, bytes); !error.empty())
    return error;
  Result<NpyLayout> layout = npyLayout(view(bytes));
  if (!layout)
    return layout.error().message;
  uint64_t dataOffset = layout->headerOffset + layout->headerSize;
  if (dataOffset > bytes.size())
    if (std::string error = file.read(dataOffset - bytes.size(), bytes); !error.empty())
      return error;
  if (dataOffset != bytes.size())
    return "not a usable .npy file: its header is truncated";
  Result<HostTensor> tensor =
      parseNpyHeader(view(bytes).substr(layout->headerOffset), file.remaining());
  if (!tensor)
    return tensor.error().message;
  tensor->name = name;
  uint64_t size = uint64_t(*tensorBytes(tensor->dtype, tensor->shape));
  if (std::string error = readData(*tensor, size); !error.empty())
    return error;
  tensors.push_back(std::move(*tensor));
  return checkEnd();
}

namespace {
/// A file of tensors, and what the command line calls the one in a .npy file.
struct NamedFile {
  std::string path, name;
};
} // namespace

static Result<std::vector<NamedFile>> listFiles(const std::vector<std::string> &specs) {
  std::vector<NamedFile> files;
  for (const std::string &spec : specs) {
    std::error_code failed;
    std::string name, path = spec;
    size_t equals = spec.find('=');
    // A path that exists is taken as it is, '=' or not.
    if (equals != std::string::npos && !fs::exists(spec, failed)) {
      name = spec.substr(0, equals);
      path = spec.substr(equals + 1);
      if (!endsWith(path, ".npy"))
        return inFile(path, "NAME=FILE takes a .npy file");
    }
    if (!fs::is_directory(path, failed)) {
      files.push_back({path, name});
      continue;
    }
    std::vector<std::string> found;
    for (fs::directory_iterator it(path, failed), end; it != end; it.increment(failed)) {
      std::string file = it->path().string();
      if (endsWith(file, ".npy") || endsWith(file, ".safetensors"))
        found.push_back(file);
    }
    if (found.empty())
      return ioError(inQuotes(path) + " has no readable .npy or .safetensors file in it");
    std::sort(found.begin(), found.end());
    for (const std::string &file : found)
      files.push_back({file, ""});
  }
  return files;
}

// Appends the tensors of one file.
static std::string appendFile(const NamedFile &named, const TensorFilter &wanted,
                              std::vector<HostTensor> &tensors) {
  Result<InputFile> file = InputFile::open(named.path);
  if (!file)
    return file.error().message;
  std::vector<HostTensor> read;
  TensorReader reader(*file, wanted);
  std::string error;
  if (endsWith(named.path, ".npy")) {
    std::string name = named.name.empty() ? fs::path(named.path).stem().string() : named.name;
    const char *problem = textProblem(name);
    error = problem ? "its name cannot name a tensor: " + std::string(problem)
                    : reader.readNpy(name, read);
  } else {
    error = reader.readSafetensors(read);
  }
  for (HostTensor &tensor : read) {
    if (error.empty() && findTensor(tensors, tensor.name))
      error = "a second tensor named " + inQuotes(tensor.name);
    tensors.push_back(std::move(tensor));
  }
  return error.empty() ? "" : inQuotes(named.path) + ": " + error;
}

Result<std::vector<HostTensor>> ejk::readTensors(const std::vector<std::string> &specs,
                                                 const TensorFilter &wanted) {
  Result<std::vector<NamedFile>> files = listFiles(specs);
  if (!files)
    return files.error();
  std::vector<HostTensor> tensors;
  for (const NamedFile &file : *files)
    if (std::string error = appendFile(file, wanted, tensors); !error.empty())
      return ioError(error);
  return tensors;
}

Result<std::vector<std::string>> ejk::tensorFilePaths(const std::vector<std::string> &specs) {
  Result<std::vector<NamedFile>> files = listFiles(specs);
  if (!files)
    return files.error();
  std::vector<std::string> paths;
  for (const NamedFile &file : *files)
    paths.push_back(file.path);
  return paths;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static bool isFolder(const std::string &path) {
  std::error_code failed;
  return endsWith(path, "/") || fs::is_directory(path, failed);
}

static std::string pathInFolder(const std::string &folder, const std::string &name) {
  return (fs::path(folder) / (name + ".npy")).string();
}

std::string ejk::checkTensorOutputs(const std::string &path, const std::vector<std::string> &names,
                                    const std::vector<std::string> &inputs) {
  for (size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin(), names.begin() + ptrdiff_t(i), names[i]) !=
        names.begin() + ptrdiff_t(i))
      return "cannot write two tensors named " + inQuotes(names[i]) + " to " + inQuotes(path);
  if (isFolder(path)) {
    // A name from a file must not lead out of the folder.
    for (const std::string &name : names) {
      if (const char *problem = nameProblem(name))
        return "cannot write tensor " + inQuotes(name) + " to a file of its name: " + problem;
      std::string error = checkNoInput(pathInFolder(path, name), inputs);
      if (!error.empty())
        return error;
    }
    return "";
  }
  if (endsWith(path, ".npy") && names.size() != 1)
    return inQuotes(path) + " holds one tensor, but there are " + std::to_string(names.size()) +
           "; name a folder or a .safetensors file";
  return checkNoInput(path, inputs);
}

std::string ejk::writeTensors(const std::string &path, const std::vector<HostTensor> &tensors) {
  std::vector<std::string> names;
  for (const HostTensor &tensor : tensors)
    names.push_back(tensor.name);
  if (std::string error = checkTensorOutputs(path, names, {}); !error.empty())
    return error;
  bool toFolder = isFolder(path);
  if (!toFolder && !endsWith(path, ".npy"))
    return writeFile(path, serializeSafetensors(tensors));
  std::vector<OutputFile> files;
  for (const HostTensor &tensor : tensors) {
    Result<std::string> bytes = serializeNpy(tensor);
    if (!bytes)
      return bytes.error().message;
    files.push_back(
        {toFolder ? pathInFolder(path, tensor.name) : path, std::move(*bytes), toFolder});
  }
  std::error_code failed;
  if (toFolder && !fs::create_directories(path, failed) && failed)
    return "cannot create the folder " + inQuotes(path) + ": " + failed.message();
  return writeFiles(files);
}
