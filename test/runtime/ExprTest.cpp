//===- ExprTest.cpp - integer expressions over shape symbols --------------===//

#include "package/Expr.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>

using namespace ejk;
using nlohmann::json;

static const std::vector<std::string> symbols = {"T", "H"};

static std::string evaluate(const json &expr, int64_t t = 7, int64_t h = -3) {
  Result<Expr> parsed = Expr::parse(expr, symbols);
  if (!parsed)
    return parsed.error().message;
  int64_t values[] = {t, h}, result;
  const char *why = parsed->evaluate(values, result);
  return why ? why : std::to_string(result);
}

static json op(const char *name, json a, json b) { return json::array({name, a, b}); }

TEST(Expr, Operators) {
  EXPECT_EQ(evaluate(5), "5");
  EXPECT_EQ(evaluate("T"), "7");
  EXPECT_EQ(evaluate(op("+", "T", "H")), "4");
  EXPECT_EQ(evaluate(op("-", "T", "H")), "10");
  EXPECT_EQ(evaluate(op("*", "T", op("+", "H", 1))), "-14");
  EXPECT_EQ(evaluate(op("min", "T", "H")), "-3");
  EXPECT_EQ(evaluate(op("max", "T", "H")), "7");
}

TEST(Expr, DivisionRoundsByItsName) {
  struct {
    int64_t a, b;
    const char *floor, *ceil, *mod;
  } cases[] = {{7, 2, "3", "4", "1"},    {-7, 2, "-4", "-3", "1"}, {7, -2, "-4", "-3", "-1"},
               {-7, -2, "3", "4", "-1"}, {6, 3, "2", "2", "0"},    {0, 5, "0", "0", "0"}};
  for (const auto &c : cases) {
    EXPECT_EQ(evaluate(op("floordiv", c.a, c.b)), c.floor) << c.a << "/" << c.b;
    EXPECT_EQ(evaluate(op("ceildiv", c.a, c.b)), c.ceil) << c.a << "/" << c.b;
    EXPECT_EQ(evaluate(op("mod", c.a, c.b)), c.mod) << c.a << "/" << c.b;
  }
}

TEST(Expr, Comparisons) {
  struct {
    const char *name, *less, *same, *more; // for 1 and 2, 2 and 2, 2 and 1
  } cases[] = {{"=", "0", "1", "0"},  {"!=", "1", "0", "1"}, {"<", "1", "0", "0"},
               {"<=", "1", "1", "0"}, {">", "0", "0", "1"},  {">=", "0", "1", "1"}};
  for (const auto &c : cases) {
    EXPECT_EQ(evaluate(op(c.name, 1, 2)), c.less) << c.name;
    EXPECT_EQ(evaluate(op(c.name, 2, 2)), c.same) << c.name;
    EXPECT_EQ(evaluate(op(c.name, 2, 1)), c.more) << c.name;
  }
}

// What is not 0 holds.
TEST(Expr, AndOr) {
  for (int a : {0, 1, -3})
    for (int b : {0, 1, 7}) {
      EXPECT_EQ(evaluate(op("and", a, b)), a && b ? "1" : "0") << a << b;
      EXPECT_EQ(evaluate(op("or", a, b)), a || b ? "1" : "0") << a << b;
    }
  // Both sides are evaluated, whatever the first one is.
  EXPECT_EQ(evaluate(op("or", 1, op("mod", 1, 0))), "it divides by zero");
  EXPECT_EQ(evaluate(op("and", 0, op("mod", 1, 0))), "it divides by zero");
}

TEST(Expr, NoValue) {
  int64_t max = std::numeric_limits<int64_t>::max();
  int64_t min = std::numeric_limits<int64_t>::min();
  for (const char *name : {"floordiv", "ceildiv", "mod"})
    EXPECT_EQ(evaluate(op(name, "T", 0)), "it divides by zero");
  EXPECT_EQ(evaluate(op("+", max, 1)), "it overflows 64 bits");
  EXPECT_EQ(evaluate(op("-", min, 1)), "it overflows 64 bits");
  EXPECT_EQ(evaluate(op("*", max, 2)), "it overflows 64 bits");
  EXPECT_EQ(evaluate(op("floordiv", min, -1)), "it overflows 64 bits");
  EXPECT_EQ(evaluate(op("mod", min, -1)), "0");
}

TEST(Expr, Malformed) {
  EXPECT_NE(evaluate("N").find("'N' is not bound"), std::string::npos);
  EXPECT_NE(evaluate(op("^", 1, 2)).find("operator '^'"), std::string::npos);
  for (const json &bad :
       {json(1.5), json(nullptr), json(true), json::array(), json::object(), json::array({"+", 1}),
        json::array({1, 2, 3}), json(std::numeric_limits<uint64_t>::max())})
    EXPECT_FALSE(Expr::parse(bad, symbols)) << bad;
}

TEST(Expr, DepthIsBounded) {
  json deep = "T";
  for (int i = 0; i < 32; ++i)
    deep = op("+", 1, deep);
  EXPECT_EQ(evaluate(deep), "39");
  EXPECT_NE(evaluate(op("+", 1, deep)).find("nested"), std::string::npos);
}

TEST(Expr, Text) {
  auto text = [](const json &expr) { return Expr::parse(expr, symbols)->text(); };
  EXPECT_EQ(text(op("*", op("ceildiv", "T", 64), op("+", "H", 1))), "ceildiv(T, 64) * (H + 1)");
}
