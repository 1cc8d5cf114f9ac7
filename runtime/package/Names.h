//===- Names.h - names and text from files ----------------------*- C++ -*-===//
//
// Names become file names and reach terminals. A file's names are therefore
// checked where the file is read, and text that was not checked is escaped
// where it is shown.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_RUNTIME_PACKAGE_NAMES_H
#define EJK_RUNTIME_PACKAGE_NAMES_H

#include <string>
#include <string_view>

namespace ejk {

/// Why `name` cannot name an entry, a tensor, a kernel, a workspace or a
/// symbol; null if it can. A name has 1 to 240 characters from A-Z, a-z, 0-9,
/// '_', '$', '.' and '-', and starts with a letter, a digit, '_' or '$'. Such
/// a name is one component of a path, and no option of a command.
const char *nameProblem(std::string_view name);

/// Why `text` cannot be shown to people as it is; null if it can. It must be
/// UTF-8 without control characters and without characters that reorder or
/// hide others.
const char *textProblem(std::string_view text);

/// The text with "\x1b" in place of each byte that textProblem() refuses.
std::string escaped(std::string_view text);

/// The same, but line ends and tabs stay: for logs of several lines.
std::string escapedLines(std::string_view text);

/// The escaped text in single quotes, at most some 200 characters of it.
std::string inQuotes(std::string_view text);

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_NAMES_H
