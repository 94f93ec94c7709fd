// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

// A value that must be equal on all ranks, and its name: {"lr", "0.1"}. Messages show a newline as
// \n and a backslash twice.
struct NamedValue {
  std::string name;
  std::string value;
};

// The elements of a list, named "layer 0", "layer 1", ... if `what` is "layer", and an end, "no
// more layers", so that lists of different lengths differ in an element, too.
[[nodiscard]] std::vector<NamedValue> named_elements(const std::string& what,
                                                     std::span<const std::string> elements);

// Throws the same MismatchError on all ranks unless all of them pass equal values in the same
// order. It names the first difference between rank 0 and the first rank that differs, and every
// rank that has the same value as the latter. With `what` = "[train] jobs":
//   "[train] jobs differ in lr: rank 0 has 0.1, ranks 2, 3 have 0.2"
// Collective. If the values are equal it costs one all_gather of 8 bytes.
void check_equal_on_all_ranks(ProcessGroup& group, std::string_view what,
                              std::span<const NamedValue> values);

}  // namespace ddp
