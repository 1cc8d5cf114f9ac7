//===- OutputFile.cpp - files written whole or not at all -----------------===//

#include "OutputFile.h"

#include "package/Names.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ejk;
namespace fs = std::filesystem;

static std::string cannotWrite(const std::string &path) {
  int reason = errno;
  return "cannot write " + inQuotes(path) + ": " + std::strerror(reason);
}

namespace {
/// While it lives, a file past the process's limit is an error of write(), not
/// the end of the process.
class HoldSizeSignal {
public:
  HoldSizeSignal() {
    sigemptyset(&sizeSignal);
    sigaddset(&sizeSignal, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &sizeSignal, &before);
  }
  ~HoldSizeSignal() {
    int reason = errno;
    timespec now = {};
    sigtimedwait(&sizeSignal, nullptr, &now); // takes one that is pending
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = reason;
  }

private:
  sigset_t sizeSignal, before;
};
} // namespace

// False, with errno set, on a failure.
static bool writeAll(int file, std::string_view bytes) {
  HoldSizeSignal hold;
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      return false;
    if (written > 0)
      bytes.remove_prefix(size_t(written));
  }
  return true;
}

// Some file systems have nothing to flush, and say so by an error.
static bool flush(int file) { return ::fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP; }

static std::string newName(const std::string &folder) {
  static std::atomic<unsigned> count{0};
  return folder + "/.ejk-" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".tmp";
}

static std::string followLinks(std::string path) {
  std::error_code failed;
  for (int links = 0; links < 40 && fs::is_symlink(path, failed); ++links) {
    fs::path target = fs::read_symlink(path, failed);
    path = (fs::path(path).parent_path() / target).string();
  }
  return path;
}

namespace {
/// A file under another name, or none, that is to take the place of `target`.
class StagedFile {
public:
  StagedFile(const std::string &path, bool isInFolder)
      : path(path), target(isInFolder ? path : followLinks(path)) {
    folder = fs::path(target).parent_path().string();
    if (folder.empty())
      folder = ".";
  }
  StagedFile(const StagedFile &) = delete;
  StagedFile &operator=(const StagedFile &) = delete;
  ~StagedFile() {
    if (!name.empty())
      ::unlink(name.c_str());
    if (file >= 0)
      ::close(file);
  }

  /// Writes beside the target. Without a name first: nothing is then left
  /// behind, however the process ends.
  std::string write(std::string_view bytes) {
    struct stat old;
    bool replaces = ::lstat(target.c_str(), &old) == 0 && !S_ISLNK(old.st_mode);
    if (replaces && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0)
      return cannotWrite(path);
    file = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    // Not every file system has files without a name.
    if (file < 0 && !makeNamed())
      return cannotWrite(path);
    if (replaces)
      (void)::fchmod(file, old.st_mode & 0777);
    if (!writeAll(file, bytes) || !flush(file))
      return cannotWrite(path);
    return "";
  }

  /// A name beside the target, for one that has none.
  std::string prepare() { return name.empty() && !giveName() ? cannotWrite(path) : ""; }

  std::string commit() {
    if (::rename(name.c_str(), target.c_str()) != 0)
      return cannotWrite(path);
    name.clear();
    // So that the new name survives a loss of power, too.
    int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
      flush(directory);
      ::close(directory);
    }
    return "";
  }

private:
  bool makeNamed() {
    std::string chosen;
    do {
      chosen = newName(folder);
      file = ::open(chosen.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file < 0 && errno == EEXIST);
    if (file >= 0)
      name = std::move(chosen);
    return file >= 0;
  }

  bool giveName() {
    std::string unnamed = "/proc/self/fd/" + std::to_string(file), chosen;
    int status;
    do {
      chosen = newName(folder);
      status = ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, chosen.c_str(), AT_SYMLINK_FOLLOW);
    } while (status != 0 && errno == EEXIST);
    if (status == 0)
      name = std::move(chosen);
    return status == 0;
  }

  std::string path, target, folder;
  std::string name; ///< of the file itself, while it has one
  int file = -1;
};
} // namespace

static bool isSameFile(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Writes to what cannot be replaced: a pipe, a device, or whatever standard
// output is, which may be open for appending. Nothing for any other path.
static std::optional<std::string> writeInPlace(const std::string &path, std::string_view bytes,
                                               bool isInFolder) {
  struct stat status, standard;
  if ((isInFolder ? ::lstat : ::stat)(path.c_str(), &status) != 0 || S_ISLNK(status.st_mode))
    return std::nullopt;
  if (::fstat(STDOUT_FILENO, &standard) == 0 && isSameFile(status, standard))
    return writeStandardOutput(bytes);
  if (S_ISREG(status.st_mode))
    return std::nullopt;
  int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return cannotWrite(path);
  std::string error = writeAll(file, bytes) ? "" : cannotWrite(path);
  ::close(file);
  return error;
}

using StagedFiles = std::vector<std::unique_ptr<StagedFile>>;

static std::string stage(const std::string &path, std::string_view bytes, bool isInFolder,
                         StagedFiles &staged) {
  if (std::optional<std::string> error = writeInPlace(path, bytes, isInFolder))
    return *error;
  staged.push_back(std::make_unique<StagedFile>(path, isInFolder));
  return staged.back()->write(bytes);
}

// Renaming comes last, for it takes no room: it fails where nothing else did in rare cases only.
static std::string commit(const StagedFiles &staged) {
  for (const std::unique_ptr<StagedFile> &file : staged)
    if (std::string error = file->prepare(); !error.empty())
      return error;
  for (const std::unique_ptr<StagedFile> &file : staged)
    if (std::string error = file->commit(); !error.empty())
      return error;
  return "";
}

std::string ejk::writeFiles(const std::vector<OutputFile> &files) {
  StagedFiles staged;
  for (const OutputFile &output : files)
    if (std::string error = stage(output.path, output.bytes, output.isInFolder, staged);
        !error.empty())
      return error;
  return commit(staged);
}

std::string ejk::writeFile(const std::string &path, std::string_view bytes) {
  StagedFiles staged;
  std::string error = stage(path, bytes, /*isInFolder=*/false, staged);
  return error.empty() ? commit(staged) : error;
}

std::string ejk::writeStandardOutput(std::string_view bytes) {
  // What was printed before comes first.
  std::fflush(stdout);
  if (writeAll(STDOUT_FILENO, bytes))
    return "";
  int reason = errno;
  return std::string("cannot write to standard output: ") + std::strerror(reason);
}

std::string ejk::checkNoInput(const std::string &output, const std::vector<std::string> &inputs) {
  struct stat written, read;
  if (::stat(output.c_str(), &written) != 0 || !S_ISREG(written.st_mode))
    return "";
  for (const std::string &input : inputs)
    if (::stat(input.c_str(), &read) == 0 && isSameFile(written, read))
      return "the output " + inQuotes(output) + " is also an input, " + inQuotes(input) +
             "; it would be lost";
  return "";
}
