// SPDX-License-Identifier: MIT
#include "ddp/base/host_list.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ddp/base/number_in.h"

namespace ddp {
namespace {

using Strings = std::vector<std::string>;

std::string with_digits(std::uint64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

// A range that is not one of numbers has its first element alone.
void expand_range(std::string_view range, std::size_t most, Strings& numbers) {
  const std::string_view first = range.substr(0, range.find('-'));
  numbers.emplace_back(first);
  if (first.size() == range.size()) return;
  const auto from = number_in<std::uint64_t>(first);
  const auto to = number_in<std::uint64_t>(range.substr(first.size() + 1));
  if (!from || !to) return;
  for (std::uint64_t number = *from; number < *to && numbers.size() < most;) {
    numbers.push_back(with_digits(++number, first.size()));
  }
}

// Cuts `text` at the first of `ends`, and returns what was before it. The end is dropped.
std::string_view cut_at(std::string_view ends, std::string_view& text) {
  const std::string_view before = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(std::min(before.size() + 1, text.size()));
  return before;
}

Strings numbers_in(std::string_view ranges, std::size_t most) {
  Strings numbers;
  while (!ranges.empty() && numbers.size() < most) {
    expand_range(cut_at(",", ranges), most, numbers);
  }
  return numbers;
}

Strings each_with_each(const Strings& beginnings, const Strings& ends, std::size_t most) {
  Strings all;
  for (const std::string& beginning : beginnings) {
    for (const std::string& end : ends) {
      if (all.size() == most) return all;
      all.push_back(beginning + end);
    }
  }
  return all;
}

// The hosts up to the next comma outside brackets, which is cut off as well.
Strings cut_next(std::string_view& list, std::size_t most) {
  Strings hosts = {""};
  while (!list.empty()) {
    const std::string_view text = list.substr(0, list.find_first_of(",["));
    list.remove_prefix(text.size());
    for (std::string& host : hosts) host += text;
    if (list.empty()) break;
    const bool is_bracket = list.front() == '[';
    list.remove_prefix(1);
    if (!is_bracket) break;
    hosts = each_with_each(hosts, numbers_in(cut_at("]", list), most), most);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> hosts_in(std::string_view list, std::size_t most) {
  Strings all;
  while (!list.empty() && all.size() < most) {
    for (std::string& host : cut_next(list, most - all.size())) {
      if (!host.empty()) all.push_back(std::move(host));
    }
  }
  return all;
}

}  // namespace ddp
