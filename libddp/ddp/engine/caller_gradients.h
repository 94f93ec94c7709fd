// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ddp/base/stream.h"
#include "ddp/engine/ddp_options.h"
#include "ddp/engine/reducer.h"

namespace ddp {

// The gradients that live in the caller's memory (Parameter::grad) rather than in the reducer's
// buckets: copies them into the buckets and back.
class CallerGradients {
 public:
  // Both arguments must outlive this object.
  CallerGradients(std::span<const Parameter> parameters, const Reducer& reducer);

  // Call before gradient i is marked ready on `stream`.
  void copy_in(std::size_t i, Stream stream) {
    if (has_any_ && is_callers(i)) copy_to_bucket(i, stream);
  }
  // Call at the end of a step's last backward pass. Copies the gradients that only earlier passes
  // of the step have written.
  void copy_in_held(Stream stream);
  // Call at the end of a pass that does not reduce. Zeroes the gradients that no pass of the step
  // has written, so that the next pass can add to them.
  void zero_unwritten(Stream stream);
  // Call after the buckets have been reduced or zeroed.
  void copy_back(Stream stream) {
    if (has_any_) copy_all_back(stream);
  }

  [[nodiscard]] std::uint64_t copies() const { return copies_; }

 private:
  [[nodiscard]] bool is_callers(std::size_t i) const { return parameters_[i].grad.data != nullptr; }
  void copy_to_bucket(std::size_t i, Stream stream);
  void copy_all_back(Stream stream);

  std::span<const Parameter> parameters_;
  const Reducer& reducer_;
  bool has_any_;
  std::uint64_t copies_ = 0;
};

}  // namespace ddp
