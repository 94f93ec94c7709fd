// SPDX-License-Identifier: MIT
#include "ddp/nn/modules/embedding.h"

#include "ddp/nn/ops.h"

namespace ddp::nn {

Embedding::Embedding(const Scope& scope, std::size_t count, std::size_t width,
                     const EmbeddingOptions& options)
    : weight_(scope.normal("weight", {count, width}, options.stddev)) {
  register_parameter(weight_);
}

Variable Embedding::forward(Tape& tape, const Variable& input) {
  return embedding(tape, input.value(), tape.watch(weight_));
}

}  // namespace ddp::nn
