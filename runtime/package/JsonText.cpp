//===- JsonText.cpp - parsing JSON that nobody vouches for ----------------===//

#include "JsonText.h"

#include <nlohmann/json.hpp>

using namespace ejk;
using nlohmann::json;

// Counting brackets first keeps absurd text away from anything recursive.
static bool nestsTooDeep(std::string_view text, int maxDepth) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"')
      inString = !inString;
    else if (inString && c == '\\')
      ++i;
    else if (!inString && (c == '[' || c == '{'))
      ++depth;
    else if (!inString && (c == ']' || c == '}'))
      --depth;
    if (depth > maxDepth)
      return true;
  }
  return false;
}

json ejk::parseJson(std::string_view text, int maxDepth) {
  if (nestsTooDeep(text, maxDepth))
    return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}
