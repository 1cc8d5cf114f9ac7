//===- JsonText.h - parsing JSON that nobody vouches for --------*- C++ -*-===//

#ifndef EJK_RUNTIME_PACKAGE_JSONTEXT_H
#define EJK_RUNTIME_PACKAGE_JSONTEXT_H

#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace ejk {

/// Parses without exceptions; a value that is_discarded() when the text is not
/// JSON or nests more than `maxDepth` deep.
nlohmann::json parseJson(std::string_view text, int maxDepth);

} // namespace ejk

#endif // EJK_RUNTIME_PACKAGE_JSONTEXT_H
