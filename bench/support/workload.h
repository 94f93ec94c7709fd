// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

#include "ddp/nn/context.h"
#include "ddp/nn/tape.h"

namespace ddp::bench {

struct Workload {
  std::string model;  // of the factory
  std::size_t batch = 64;
  DType dtype = DType::kFloat32;
};

// A batch that fits the model, always the same one.
struct Batch {
  nn::Tensor images;
  nn::Tensor labels;
};

[[nodiscard]] Batch make_batch(nn::Context& context, const Workload& workload);

}  // namespace ddp::bench
