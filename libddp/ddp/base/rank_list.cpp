// SPDX-License-Identifier: MIT
#include "ddp/base/rank_list.h"

#include <cstddef>

namespace ddp {
namespace {

constexpr std::size_t kListShown = 16;

// How many of the numbers, from the first on, are written as a range: three or more.
std::size_t length_of_range(std::span<const int> numbers) {
  std::size_t length = 1;
  while (length < numbers.size() && numbers[length] == numbers[length - 1] + 1) ++length;
  return length > 2 ? length : 1;
}

}  // namespace

std::string rank_list(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + number_list(ranks);
}

std::string number_list(std::span<const int> numbers) {
  std::string text;
  for (std::size_t shown = 0; !numbers.empty(); ++shown) {
    if (shown == kListShown) return text + " and " + std::to_string(numbers.size()) + " more";
    const std::size_t length = length_of_range(numbers);
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[0]);
    if (length > 1) text += "-" + std::to_string(numbers[length - 1]);
    numbers = numbers.subspan(length);
  }
  return text;
}

}  // namespace ddp
