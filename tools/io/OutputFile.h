//===- OutputFile.h - files written whole or not at all ---------*- C++ -*-===//
//
// A file is written under another name, or none, in the same folder, flushed
// to the disk, and only then takes the place of the one it replaces. Whoever
// reads the path sees the old contents or the new ones. Pipes and devices are
// written as they are.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_TOOLS_IO_OUTPUTFILE_H
#define EJK_TOOLS_IO_OUTPUTFILE_H

#include <string>
#include <string_view>
#include <vector>

namespace ejk {

struct OutputFile {
  std::string path;
  std::string bytes;
  /// Whether the user named its folder alone. A link that has its name is then replaced; else a link
  /// stays, and what it leads to is replaced.
  bool isInFolder = false;
};

/// Writes all files, or none when one cannot be written. All lie on the disk
/// beside their targets before the first is renamed; should a rename fail then,
/// the files before it are in place, each whole, and it and those after it are
/// as they were. The error's message, which names the path and the reason, or an
/// empty string.
std::string writeFiles(const std::vector<OutputFile> &files);
std::string writeFile(const std::string &path, std::string_view bytes);

/// Writes to standard output. The error's message, or an empty string.
std::string writeStandardOutput(std::string_view bytes);

/// An error's message if writing `output` would replace one of `inputs`,
/// however both are spelled; an empty string if not.
std::string checkNoInput(const std::string &output, const std::vector<std::string> &inputs);

} // namespace ejk

#endif // EJK_TOOLS_IO_OUTPUTFILE_H
