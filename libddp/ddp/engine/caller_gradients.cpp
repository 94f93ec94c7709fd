// SPDX-License-Identifier: MIT
#include "ddp/engine/caller_gradients.h"

#include <algorithm>

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

CallerGradients::CallerGradients(std::span<const Parameter> parameters, const Reducer& reducer)
    : parameters_(parameters),
      reducer_(reducer),
      has_any_(std::ranges::any_of(
          parameters, [](const Parameter& each) { return each.grad.data != nullptr; })) {}

void CallerGradients::copy_to_bucket(std::size_t i, Stream stream) {
  copy(parameters_[i].grad, reducer_.gradient(i), stream);
  ++copies_;
}

void CallerGradients::copy_in_held(Stream stream) {
  for (std::size_t i = 0; has_any_ && i < parameters_.size(); ++i) {
    if (reducer_.is_expected(i) && !reducer_.is_marked(i)) copy_in(i, stream);
  }
}

void CallerGradients::zero_unwritten(Stream stream) {
  for (std::size_t i = 0; has_any_ && i < parameters_.size(); ++i) {
    const bool is_written = reducer_.is_marked(i) || reducer_.is_held();
    if (is_callers(i) && !is_written) fill(parameters_[i].grad, 0, stream);
  }
}

void CallerGradients::copy_all_back(Stream stream) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_callers(i)) continue;
    copy(reducer_.gradient(i), parameters_[i].grad, stream);
    ++copies_;
  }
}

}  // namespace ddp
