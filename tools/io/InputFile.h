//===- InputFile.h - a file that is read from front to back -----*- C++ -*-===//
//
// No more is read, and no more memory taken, than the reader asks for: a file
// may be larger than memory, and a device has no end. Files are not mapped,
// since one that shrinks meanwhile would end the process.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_TOOLS_IO_INPUTFILE_H
#define EJK_TOOLS_IO_INPUTFILE_H

#include "package/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ejk {

class InputFile {
public:
  /// The error names the path.
  static Result<InputFile> open(const std::string &path);
  InputFile(InputFile &&other);
  InputFile &operator=(InputFile &&) = delete;
  ~InputFile();

  /// Bytes that are left; nothing for a pipe or a device, where only reading
  /// tells.
  std::optional<uint64_t> remaining() const { return left; }

  /// Appends the next `count` bytes, or fewer at the end of the file. Memory is
  /// taken as bytes arrive. An empty string, or the error.
  std::string read(uint64_t count, std::vector<char> &bytes);

  /// Goes on behind the next `count` bytes, or to the end of the file.
  std::string skip(uint64_t count);

private:
  InputFile(int descriptor, std::string path, std::optional<uint64_t> left)
      : descriptor(descriptor), path(std::move(path)), left(left) {}
  std::string failure() const;

  int descriptor;
  std::string path;
  std::optional<uint64_t> left;
};

} // namespace ejk

#endif // EJK_TOOLS_IO_INPUTFILE_H
