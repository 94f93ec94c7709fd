// SPDX-License-Identifier: MIT
#include "ddp/base/printable.h"

#include <catch2/catch.hpp>
#include <string>

using namespace ddp;

TEST_CASE("printable text is one line that cannot control a terminal", "[printable]") {
  CHECK(printable("").empty());
  CHECK(printable("größe ≤ 3 € 𝄞") == "größe ≤ 3 € 𝄞");
  CHECK(printable("a\tb\r\nc\x1b[2Jd\x7f.") == "a b  c [2Jd .");
  CHECK(printable("\u0080\u009f\u00a0") == "  \u00a0");
  CHECK(printable("\u2029\u202a\u202e\u202f\u2065\u2066\u2069\u206a") ==
        "\u2029  \u202f\u2065  \u206a");
  CHECK(printable("\ufffd") == "\ufffd");
  CHECK(printable(std::string("a\0b", 3)) == "a b");
}

TEST_CASE("printable text is UTF-8", "[printable]") {
  CHECK(printable("latin \xe4.") == "latin \ufffd.");
  CHECK(printable("\x9b") == "\ufffd");
  CHECK(printable("cut \xe2\x82") == "cut \ufffd\ufffd");
  CHECK(printable("overlong \xc0\x9b \xe0\x82\x9b") == "overlong \ufffd\ufffd \ufffd\ufffd\ufffd");
  CHECK(printable("surrogate \xed\xa0\x80") == "surrogate \ufffd\ufffd\ufffd");
  CHECK(printable("\xf4\x90\x80\x80\xff") == "\ufffd\ufffd\ufffd\ufffd\ufffd");
}

TEST_CASE("a long text is cut between two characters", "[printable]") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcd", 3) == "abc...");
  CHECK(shortened("a€€", 7) == "a€€");
  for (const std::size_t longest : {4, 5, 6}) CHECK(shortened("a€€", longest) == "a€...");
  CHECK(shortened("€", 2) == "...");
  CHECK(utf8_beginning("a𝄞b", 4) == "a");
  CHECK(utf8_beginning("a𝄞b", 5) == "a𝄞");
  CHECK(utf8_beginning(std::string(9, '\x80'), 7).size() == 7);  // not UTF-8
  CHECK(utf8_beginning("abc", 0).empty());
}
