//===- NamesTest.cpp - names and text from files --------------------------===//

#include "package/Names.h"

#include <gtest/gtest.h>

using namespace ejk;

TEST(Names, OneComponentOfAPath) {
  for (const char *good : {"q", "cu_seqlens", "h0", "saved0", "_x", "$f", "a.b-c", "0"})
    EXPECT_EQ(nameProblem(good), nullptr) << good;
  EXPECT_EQ(nameProblem(std::string(240, 'a')), nullptr);
  const std::string bad[] = {"",
                             ".",
                             "..",
                             ".hidden",
                             "-o",
                             "../../x",
                             "/etc/passwd",
                             "a/b",
                             "a\\b",
                             "a b",
                             "a\nb",
                             "\x1b[2J",
                             "\xc3\xa4",
                             std::string("a\0b", 3),
                             std::string(241, 'a')};
  for (const std::string &name : bad)
    EXPECT_NE(nameProblem(name), nullptr) << escaped(name);
}

TEST(Names, TextIsEscapedUnlessItIsVisible) {
  const char *visible[] = {"", "plain ~text", "\xc3\xa4\xe2\x88\x9e\xf0\x9f\x99\x82", "\xc2\xa0"};
  for (const char *text : visible) {
    EXPECT_EQ(textProblem(text), nullptr) << text;
    EXPECT_EQ(escaped(text), text);
  }
  struct {
    const char *text, *shown;
  } cases[] = {
      {"\x1b]0;title\a", "\\x1b]0;title\\x07"},
      {"a\r\nb", "a\\x0d\\x0ab"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b 1m", "\\xc2\\x9b 1m"},             // a terminal's C1 controls
      {"\xe2\x80\xae txt", "\\xe2\\x80\\xae txt"},  // right to left from here
      {"\xe2\x80\x8b", "\\xe2\\x80\\x8b"},          // of no width
      {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"},          // another direction
      {"\xef\xbb\xbf", "\\xef\\xbb\\xbf"},          // a byte order mark
      {"\xff", "\\xff"},                            // never UTF-8
      {"\xc0\xaf", "\\xc0\\xaf"},                   // '/' spelled too long
      {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},          // longer still
      {"\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf"}, // and longer
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, // past the last character
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          // half of a pair
      {"\xe2\x88", "\\xe2\\x88"},                   // cut off
      {"\xe2\x88x", "\\xe2\\x88x"},
  };
  for (const auto &c : cases) {
    EXPECT_NE(textProblem(c.text), nullptr) << c.shown;
    EXPECT_EQ(escaped(c.text), c.shown);
  }
}

TEST(Names, LogsKeepTheirLines) {
  EXPECT_EQ(escapedLines("ptxas\terror\n\x1b[31mred"), "ptxas\terror\n\\x1b[31mred");
}

TEST(Names, QuotesAreBounded) {
  EXPECT_EQ(inQuotes("a\nb"), "'a\\x0ab'");
  EXPECT_EQ(inQuotes(std::string(200, 'x')).size(), 202u);
  EXPECT_EQ(inQuotes(std::string(1000000, 'x')), "'" + std::string(200, 'x') + "...'");
}
