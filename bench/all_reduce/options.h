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

// The flags that nccl-tests shares, and ours.
struct AllReduceOptions {
  bool compare = false;                 // shm, gloo and Open MPI in one run
  std::vector<std::size_t> sizes = {};  // bytes, ascending
  int iterations = 20;
  int samples = 7;
  Backend backend = Backend::kAuto;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// "8", "64K", "1.5M", "2G": powers of 1024. Throws std::invalid_argument.
[[nodiscard]] std::size_t parse_bytes(std::string_view text);

// Nothing if --help was asked for, which prints it. Throws std::invalid_argument for bad values.
[[nodiscard]] std::optional<AllReduceOptions> parse_all_reduce_options(int argc, char** argv);

}  // namespace ddp::bench
