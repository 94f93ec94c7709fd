// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

struct EmbeddingOptions {
  double stddev = 1;  // finite and 0 or above, else std::invalid_argument
};

// A table of `count` vectors; weight is count x width, drawn from the normal distribution with mean
// 0.
class Embedding final : public Module {
 public:
  Embedding(const Scope& scope, std::size_t count, std::size_t width,
            const EmbeddingOptions& options = {});

  // input: indices, a constant of int64 and of any shape. Returns that shape x width.
  Variable forward(Tape& tape, const Variable& input) override;

  // For another use of the table, such as a model's logits.
  [[nodiscard]] Parameter& weight() { return weight_; }

 private:
  Parameter weight_;
};

}  // namespace ddp::nn
