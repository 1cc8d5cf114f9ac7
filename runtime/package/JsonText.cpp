//===- JsonText.cpp - parsing JSON that nobody vouches for ----------------===//

#include "JsonText.h"

#include "Names.h"

#include <vector>

using namespace ejk;
using nlohmann::json;

namespace {
/// Builds the document value by value, so that limits hold before memory is
/// taken.
class Builder final : public nlohmann::json_sax<json> {
public:
  Builder(json &root, int maxDepth, std::string &why)
      : root(root), maxDepth(size_t(maxDepth)), why(why) {}

  bool null() override { return put(json()); }
  bool boolean(bool value) override { return put(json(value)); }
  bool number_integer(number_integer_t value) override { return put(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return put(json(value)); }
  bool number_float(number_float_t value, const string_t &) override { return put(json(value)); }
  bool string(string_t &value) override { return put(json(std::move(value))); }
  bool binary(binary_t &) override { return fail("it has binary values"); }

  bool start_object(size_t) override { return start(json::value_t::object); }
  bool key(string_t &name) override {
    auto [place, isNew] =
        open.back()->get_ref<json::object_t &>().emplace(std::move(name), nullptr);
    if (!isNew)
      return fail("the key " + inQuotes(place->first) + " occurs twice in one object");
    member = &place->second;
    return true;
  }
  bool end_object() override { return end(); }
  bool start_array(size_t) override { return start(json::value_t::array); }
  bool end_array() override { return end(); }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    return fail("it is not valid JSON at byte " + std::to_string(position));
  }

private:
  bool fail(std::string what) {
    why = std::move(what);
    return false;
  }

  bool put(json &&value) {
    if (count++ == JsonDocument::maxValues)
      return fail("it has more than " + std::to_string(JsonDocument::maxValues) + " values");
    json *parent = open.empty() ? nullptr : open.back();
    if (parent && parent->is_array()) {
      json::array_t &elements = parent->get_ref<json::array_t &>();
      elements.push_back(std::move(value));
      last = &elements.back();
    } else {
      last = parent ? member : &root;
      *last = std::move(value);
    }
    return true;
  }

  bool start(json::value_t kind) {
    if (open.size() == maxDepth)
      return fail("it is nested more than " + std::to_string(maxDepth) + " deep");
    if (!put(json(kind)))
      return false;
    open.push_back(last);
    return true;
  }

  bool end() {
    open.pop_back();
    return true;
  }

  json &root;
  size_t maxDepth;
  std::string &why;
  size_t count = 0;
  std::vector<json *> open; ///< the containers that are not complete, outermost first
  json *member = nullptr;   ///< of the innermost object: what its last key names
  json *last = nullptr;
};
} // namespace

// Empties containers from the innermost: the library's destructor allocates
// room for a container's elements, and so nothing for an empty one.
static void dismantle(json &value) {
  if (value.is_array()) {
    json::array_t &elements = value.get_ref<json::array_t &>();
    for (json &element : elements)
      dismantle(element);
    elements.clear();
  } else if (value.is_object()) {
    json::object_t &members = value.get_ref<json::object_t &>();
    for (auto &[key, member] : members)
      dismantle(member);
    members.clear();
  }
}

JsonDocument::~JsonDocument() { dismantle(value); }

bool JsonDocument::parse(std::string_view text, int maxDepth) {
  // The library takes a NUL for the end of the text, and would not see what follows.
  if (size_t nul = text.find('\0'); nul != std::string_view::npos) {
    why = "it is not valid JSON at byte " + std::to_string(nul + 1);
    return false;
  }
  Builder builder(value, maxDepth, why);
  return json::sax_parse(text.begin(), text.end(), &builder);
}
