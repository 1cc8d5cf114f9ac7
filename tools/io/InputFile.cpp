//===- InputFile.cpp - a file that is read from front to back -------------===//

#include "InputFile.h"

#include "package/Names.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ejk;

// Read at once where the file does not say how much there is.
static constexpr uint64_t blockBytes = 1 << 16;

static std::string cannot(const char *what, const std::string &path) {
  int reason = errno;
  return std::string("cannot ") + what + " " + inQuotes(path) + ": " + std::strerror(reason);
}

Result<InputFile> InputFile::open(const std::string &path) {
  // What closes the file is there before it is opened.
  InputFile file(-1, path, std::nullopt);
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0)
    return Error{ErrorCode::Io, cannot("open", path)};
  struct stat status;
  if (::fstat(file.descriptor, &status) != 0)
    return Error{ErrorCode::Io, cannot("read", path)};
  // What the kernel makes up as it is read has a size of 0.
  if (S_ISREG(status.st_mode) && status.st_size > 0)
    file.left = uint64_t(status.st_size);
  return Result<InputFile>(std::move(file));
}

InputFile::InputFile(InputFile &&other)
    : descriptor(other.descriptor), path(std::move(other.path)), left(other.left) {
  other.descriptor = -1;
}

InputFile::~InputFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

// False where there is no memory; tools then say so and end as for other errors.
static bool grow(std::vector<char> &bytes, size_t more) {
  try {
    bytes.resize(bytes.size() + more);
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  } catch (const std::length_error &) {
    return false;
  }
}

std::string InputFile::failure() const { return cannot("read", path); }

std::string InputFile::read(uint64_t count, std::vector<char> &bytes) {
  if (left)
    count = std::min(count, *left);
  while (count > 0) {
    size_t old = bytes.size();
    size_t wanted = size_t(left ? count : std::min(count, std::max<uint64_t>(old, blockBytes)));
    if (!grow(bytes, wanted))
      return inQuotes(path) + ": there is no memory for " + std::to_string(old + wanted) + " bytes";
    ssize_t got = ::read(descriptor, bytes.data() + old, wanted);
    bool again = got < 0 && errno == EINTR;
    std::string error = got < 0 && !again ? failure() : "";
    bytes.resize(old + size_t(std::max<ssize_t>(got, 0)));
    if (!error.empty() || got == 0)
      return error;
    count -= bytes.size() - old;
    if (left)
      *left -= bytes.size() - old;
  }
  return "";
}

std::string InputFile::skip(uint64_t count) {
  if (left) {
    count = std::min(count, *left);
    if (::lseek(descriptor, off_t(count), SEEK_CUR) < 0)
      return failure();
    *left -= count;
    return "";
  }
  std::vector<char> ignored;
  while (count > 0) {
    ignored.clear();
    std::string error = read(std::min(count, blockBytes), ignored);
    if (!error.empty() || ignored.empty())
      return error;
    count -= ignored.size();
  }
  return "";
}
