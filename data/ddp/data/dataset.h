// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ddp/base/buffer.h"

namespace ddp {

// Samples of one shape, each with its label, addressed by index. Never changes once it is made, so
// threads may share it.
class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;

  // Of one sample, without the batch dimension. A class label has the empty shape: one number.
  [[nodiscard]] virtual std::span<const std::int64_t> input_shape() const = 0;
  [[nodiscard]] virtual std::span<const std::int64_t> label_shape() const = 0;

  // Writes the samples, one after the other in the order of `indices`, into CPU memory. Inputs are
  // of a type that the dataset supports, labels int64. Throws std::invalid_argument if an index is
  // out of range or a buffer has another count, type or device than that.
  virtual void gather(std::span<const std::int64_t> indices, const Buffer& inputs,
                      const Buffer& labels) const = 0;
};

// The elements of one sample of that shape.
[[nodiscard]] std::size_t elements_of(std::span<const std::int64_t> shape);

// Throws std::invalid_argument, which begins with `origin`, if an index is not in [0, size). For
// implementations of gather().
void check_indices(std::string_view origin, std::span<const std::int64_t> indices,
                   std::int64_t size);

}  // namespace ddp
