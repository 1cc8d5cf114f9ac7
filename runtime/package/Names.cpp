//===- Names.cpp - names and text from files ------------------------------===//

#include "Names.h"

#include <cstdint>

using namespace ejk;

// With ".npy" behind it a name still fits into a directory entry, 255 bytes.
static constexpr size_t maxNameLength = 240;

// An error quotes no more than this of a text that may be of any length.
static constexpr size_t maxQuoted = 200;

static constexpr std::string_view nameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.-";

const char *ejk::nameProblem(std::string_view name) {
  if (name.empty())
    return "a name must not be empty";
  if (name.size() > maxNameLength)
    return "a name has at most 240 characters";
  if (name.find_first_not_of(nameCharacters) != std::string_view::npos)
    return "a name has letters, digits, '_', '$', '.' and '-' only";
  if (name[0] == '.' || name[0] == '-')
    return "a name must not start with '.' or '-'";
  return nullptr;
}

// Characters that reorder or hide others, and those that a terminal obeys.
static bool isInvisible(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

// The number of bytes of the character that `text` starts with; 0 if they are
// not UTF-8, or not to be shown.
static size_t visibleLength(std::string_view text) {
  unsigned char lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80)
    return isInvisible(lead) ? 0 : 1;
  size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // 0xc0 and 0xc1 would spell ASCII, and past 0xf4 lies no character.
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length)
    return 0;
  uint32_t code = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    unsigned char next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (next & 0x3f);
  }
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool isSurrogate = code >= 0xd800 && code <= 0xdfff;
  return code < smallest[length] || code > 0x10ffff || isSurrogate || isInvisible(code) ? 0
                                                                                        : length;
}

const char *ejk::textProblem(std::string_view text) {
  while (!text.empty()) {
    size_t length = visibleLength(text);
    if (length == 0)
      return "text must be UTF-8 without control characters";
    text.remove_prefix(length);
  }
  return nullptr;
}

static std::string escape(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    size_t length = visibleLength(text);
    if (length == 0 && kept.find(text[0]) != std::string_view::npos)
      length = 1;
    if (length != 0) {
      result += text.substr(0, length);
    } else {
      static const char digits[] = "0123456789abcdef";
      unsigned char byte = static_cast<unsigned char>(text[0]);
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
      length = 1;
    }
    text.remove_prefix(length);
  }
  return result;
}

std::string ejk::escaped(std::string_view text) { return escape(text, ""); }

std::string ejk::escapedLines(std::string_view text) { return escape(text, "\n\t"); }

std::string ejk::inQuotes(std::string_view text) {
  if (text.size() <= maxQuoted)
    return "'" + escaped(text) + "'";
  return "'" + escaped(text.substr(0, maxQuoted)) + "...'";
}
