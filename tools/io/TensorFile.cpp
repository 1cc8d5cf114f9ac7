//===- TensorFile.cpp - from what a command line names to tensors ---------===//

#include "TensorFile.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

using namespace ejk;
namespace fs = std::filesystem;

namespace {
struct CloseFile {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;
} // namespace

static std::string failure(const char *what, const std::string &path) {
  return std::string("cannot ") + what + " '" + path + "': " + std::strerror(errno);
}

Result<std::string> ejk::readFile(const std::string &path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (!file)
    return Error{ErrorCode::Io, failure("open", path)};
  std::string bytes;
  std::vector<char> block(1 << 20);
  size_t count;
  while ((count = std::fread(block.data(), 1, block.size(), file.get())) > 0)
    bytes.append(block.data(), count);
  if (std::ferror(file.get()))
    return Error{ErrorCode::Io, failure("read", path)};
  return bytes;
}

std::string ejk::writeFile(const std::string &path, std::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file)
    return failure("create", path);
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  // A full disk may show only when the last block is flushed.
  if (std::fclose(file.release()) != 0 || !written)
    return failure("write", path);
  return "";
}

static bool endsWith(const std::string &text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Appends the tensors of one file. `name` renames the tensor of a .npy file.
static std::string appendFile(const std::string &path, const std::string &name,
                              std::vector<HostTensor> &tensors) {
  Result<std::string> bytes = readFile(path);
  if (!bytes)
    return bytes.error().message;
  std::vector<HostTensor> read;
  if (endsWith(path, ".npy")) {
    Result<HostTensor> tensor = parseNpy(*bytes);
    if (!tensor)
      return "'" + path + "': " + tensor.error().message;
    tensor->name = name.empty() ? fs::path(path).stem().string() : name;
    read.push_back(std::move(*tensor));
  } else {
    if (!name.empty())
      return "'" + path + "': NAME=FILE takes a .npy file";
    Result<std::vector<HostTensor>> parsed = parseSafetensors(*bytes);
    if (!parsed)
      return "'" + path + "': " + parsed.error().message;
    read = std::move(*parsed);
  }
  for (HostTensor &tensor : read) {
    if (findTensor(tensors, tensor.name))
      return "'" + path + "': a second tensor named '" + tensor.name + "'";
    tensors.push_back(std::move(tensor));
  }
  return "";
}

Result<std::vector<HostTensor>> ejk::readTensors(const std::vector<std::string> &specs) {
  std::vector<HostTensor> tensors;
  for (const std::string &spec : specs) {
    std::error_code ignored;
    std::vector<std::string> files;
    std::string name, path = spec;
    size_t equals = spec.find('=');
    // A path that exists is taken as it is, '=' or not.
    if (equals != std::string::npos && !fs::exists(spec, ignored)) {
      name = spec.substr(0, equals);
      path = spec.substr(equals + 1);
    }
    if (fs::is_directory(path, ignored)) {
      for (fs::directory_iterator it(path, ignored), end; it != end; it.increment(ignored)) {
        std::string file = it->path().string();
        if (endsWith(file, ".npy") || endsWith(file, ".safetensors"))
          files.push_back(file);
      }
      if (files.empty())
        return Error{ErrorCode::Io, "'" + path +
                                        "' has no readable .npy or "
                                        ".safetensors file in it"};
      std::sort(files.begin(), files.end());
    } else {
      files.push_back(path);
    }
    for (const std::string &file : files) {
      std::string error = appendFile(file, name, tensors);
      if (!error.empty())
        return Error{ErrorCode::Io, error};
    }
  }
  return tensors;
}

static std::string writeNpy(const std::string &path, const HostTensor &tensor) {
  Result<std::string> bytes = serializeNpy(tensor);
  return bytes ? writeFile(path, *bytes) : bytes.error().message;
}

std::string ejk::writeTensors(const std::string &path, const std::vector<HostTensor> &tensors) {
  std::error_code failed;
  if (endsWith(path, "/") || fs::is_directory(path, failed)) {
    fs::create_directories(path, failed);
    for (const HostTensor &tensor : tensors) {
      std::string error = writeNpy((fs::path(path) / (tensor.name + ".npy")).string(), tensor);
      if (!error.empty())
        return error;
    }
    return "";
  }
  if (endsWith(path, ".npy")) {
    if (tensors.size() != 1)
      return "'" + path + "' holds one tensor, but there are " + std::to_string(tensors.size()) +
             "; name a folder or a .safetensors file";
    return writeNpy(path, tensors[0]);
  }
  return writeFile(path, serializeSafetensors(tensors));
}
