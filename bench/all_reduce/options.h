// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "ddp/base/dtype.h"
#include "ddp/base/reduce_op.h"
#include "ddp/collectives/init.h"

namespace ddp::bench {

// The flags of nccl-tests, and some of our own.
struct AllReduceOptions {
  bool compare = false;                 // measure all contenders and Open MPI in one run
  std::vector<std::size_t> sizes = {};  // bytes, ascending
  int iterations = 20;
  int samples = 7;
  Backend backend = Backend::kAuto;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// Parses "8", "64K", "1.5M" or "2G", where units are powers of 1024. Throws std::invalid_argument.
[[nodiscard]] std::size_t parse_bytes(std::string_view text);

// Returns nothing after --help, whose text it prints. Throws std::invalid_argument for bad values.
[[nodiscard]] std::optional<AllReduceOptions> parse_all_reduce_options(int argc, char** argv);

}  // namespace ddp::bench
