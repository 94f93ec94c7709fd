// SPDX-License-Identifier: MIT
//
// Lists of hosts as Slurm writes them, such as "gpu[003-005,7],x":
//
//   list  = host { "," host }
//   host  = { text | "[" range { "," range } "]" }
//   range = number [ "-" number ]                     with as many digits as the first number
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// The hosts in the order of the list, at most `most` of them. Of several brackets the last one
// counts fastest.
[[nodiscard]] std::vector<std::string> hosts_in(std::string_view list, std::size_t most = 65536);

}  // namespace ddp
