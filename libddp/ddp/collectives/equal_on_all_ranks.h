// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ddp/collectives/process_group.h"

namespace ddp {

// What has to be equal on all ranks, and how it is called: {"lr", "0.1"}. In messages
// a newline is \n, and a backslash is twice there.
struct NamedValue {
  std::string name;
  std::string value;
};

// Throws the same MismatchError on all ranks unless all of them give equal values in the same
// order. It names the first difference between rank 0 and the first rank that differs, and all that
// give the same as that one:
//   "[train] jobs differ in lr: rank 0 has 0.1, ranks 2, 3 have 0.2"      if `what` is "[train]
//   jobs"
// Collective; if they are equal it costs an all_gather of 8 bytes.
void check_equal_on_all_ranks(ProcessGroup& group, std::string_view what,
                              std::span<const NamedValue> values);

}  // namespace ddp
