// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

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

  // The type of the labels beside inputs of that type: int64 for classes, the inputs' own for
  // targets that a loss compares with outputs, such as masks.
  [[nodiscard]] virtual DType label_dtype(DType input_dtype) const = 0;

  // Writes sample `index`, as `epoch` shows it, into CPU memory of the shapes and types above. What
  // is random about it (a crop, a flip) is a function of the dataset, index and epoch alone, so
  // that any thread of any rank reads the same. What it throws ends up in gather's error.
  virtual void read(std::int64_t index, std::int64_t epoch, const Buffer& input,
                    const Buffer& label) const = 0;

  // Reads samples one after the other, in the order of `indices`, into CPU memory. Throws
  // std::invalid_argument if an index is out of range or a buffer has another count, type or device
  // than that; Error that names the index of the sample which cannot be read, the reason nested.
  void gather(std::span<const std::int64_t> indices, const Buffer& inputs, const Buffer& labels,
              std::int64_t epoch = 0) const;
};

// The elements of one sample of that shape.
[[nodiscard]] std::size_t elements_of(std::span<const std::int64_t> shape);

// Throws std::invalid_argument, which begins with `origin`, if an index is not in [0, size).
void check_indices(std::string_view origin, std::span<const std::int64_t> indices,
                   std::int64_t size);

}  // namespace ddp
