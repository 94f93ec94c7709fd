// SPDX-License-Identifier: MIT
#pragma once

#include <locale>
#include <string>

namespace ddp::test {

// While this object exists, streams write 1234.5 as "1 234,5", and read two numbers with a blank
// between them as one, as in a program that has made French its global locale (of whose narrow
// no-break space libstdc++ makes a blank). No other thread may use streams when it begins or ends.
class GroupingLocale {
 public:
  GroupingLocale() : old_(std::locale::global({std::locale::classic(), new Punctuation})) {}
  GroupingLocale(const GroupingLocale&) = delete;
  GroupingLocale& operator=(const GroupingLocale&) = delete;
  ~GroupingLocale() { std::locale::global(old_); }

 private:
  struct Punctuation : std::numpunct<char> {
    [[nodiscard]] char do_decimal_point() const override { return ','; }
    [[nodiscard]] char do_thousands_sep() const override { return ' '; }
    [[nodiscard]] std::string do_grouping() const override { return "\3"; }
  };

  std::locale old_;
};

}  // namespace ddp::test
