//===- JsonMutator.cpp - changes to JSON that stays JSON ------------------===//

#include "JsonMutator.h"

#include <nlohmann/json.hpp>

#include <vector>

using nlohmann::json;

static void collect(json &value, std::vector<json *> &values) {
  values.push_back(&value);
  if (value.is_structured())
    for (json &element : value)
      collect(element, values);
}

static json troublesome(std::mt19937 &random) {
  static const json values[] = {0,
                                1,
                                -1,
                                2,
                                7,
                                64,
                                255,
                                1 << 20,
                                int64_t(1) << 31,
                                int64_t(1) << 32,
                                int64_t(1) << 62,
                                INT64_MAX,
                                INT64_MIN,
                                UINT64_MAX,
                                0.5,
                                1e300,
                                "",
                                "T",
                                "N",
                                "R",
                                "../x",
                                "\x1b[1m",
                                "cu_seqlens",
                                "log_decay",
                                "F32",
                                "BF16",
                                "f32",
                                "i64",
                                "bf16",
                                nullptr,
                                true,
                                json::array(),
                                json::object(),
                                {"+", "T", 1},
                                {"*", "T", "T"},
                                {"ceildiv", "T", 0},
                                {"floordiv", "T", -1},
                                {"mod", INT64_MIN, -1},
                                {"min", "T", 0},
                                {"max", "T", -7},
                                {"-", 0, "T"},
                                {{"input", 0}},
                                {{"output", 0}},
                                {{"workspace", 0}},
                                {{"i64", "T"}},
                                {{"name", "x"}, {"bytes", 64}}};
  return values[random() % std::size(values)];
}

std::string ejk::fuzz::mutateJson(std::string_view text, std::mt19937 &random) {
  json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return std::string(text);
  std::vector<json *> values;
  collect(root, values);
  json &chosen = *values[random() % values.size()];
  switch (random() % 6) {
  case 0:
    chosen = troublesome(random);
    break;
  case 1:
    chosen = json(*values[random() % values.size()]);
    break;
  case 2:
    if (chosen.is_structured() && !chosen.empty())
      chosen.erase(std::next(chosen.begin(), long(random() % chosen.size())));
    break;
  case 3:
    if (chosen.is_array() && !chosen.empty() && chosen.size() < 80)
      chosen.push_back(json(chosen[random() % chosen.size()]));
    break;
  case 4:
    if (chosen.is_number_integer())
      chosen = int64_t(chosen.get<uint64_t>() + random() % 9 - 4);
    break;
  case 5:
    if (chosen.is_object() && !chosen.empty()) {
      auto member = std::next(chosen.begin(), long(random() % chosen.size()));
      static const char *const keys[] = {"rows", "columns", "sizes", "role",         "total",
                                         "x",    "align",   "i64",   "__metadata__", "may_alias"};
      json moved = *member;
      chosen[keys[random() % std::size(keys)]] = std::move(moved);
    }
    break;
  }
  return root.dump(-1, ' ', false, json::error_handler_t::replace);
}
