//===- JsonText.h - parsing JSON that nobody vouches for --------*- C++ -*-===//

#ifndef EJK_RUNTIME_PACKAGE_JSONTEXT_H
#define EJK_RUNTIME_PACKAGE_JSONTEXT_H

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ejk {

/// A parsed text. The library's own destructor allocates, and ends the process
/// where there is no memory; that of this class does not.
class JsonDocument {
public:
  JsonDocument() = default;
  ~JsonDocument();
  JsonDocument(const JsonDocument &) = delete;
  JsonDocument &operator=(const JsonDocument &) = delete;

  /// Parses `text`; at most once. False, with problem() set, when it is not
  /// JSON, nests more than `maxDepth` deep, has more than maxValues values, or
  /// an object has a key twice.
  bool parse(std::string_view text, int maxDepth);

  /// Bounds the memory that a text can take, to about 40 MB besides strings.
  static constexpr size_t maxValues = size_t(1) << 18;

  const nlohmann::json &root() const { return value; }
  const std::string &problem() const { return why; }

private:
  nlohmann::json value;
  std::string why;
};

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_JSONTEXT_H
