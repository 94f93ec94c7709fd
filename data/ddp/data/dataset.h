// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string_view>

#include "ddp/base/buffer.h"

namespace ddp {

// Samples of one shape, each with its label, addressed by index. Immutable once constructed, so
// threads may share it.
class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;

  // The shapes of one sample, without the batch dimension. A class label is a number: the empty
  // shape.
  [[nodiscard]] virtual std::span<const std::int64_t> input_shape() const = 0;
  [[nodiscard]] virtual std::span<const std::int64_t> label_shape() const = 0;

  // The type of the labels if the inputs have type `input_dtype`: int64 for classes, the inputs'
  // type for targets that a loss compares with outputs, such as masks.
  [[nodiscard]] virtual DType label_dtype(DType input_dtype) const = 0;

  // Writes sample `index`, as `epoch` shows it, into CPU memory of the shapes and types above.
  // Random choices (a crop, a flip) are a function of the dataset, index and epoch alone, so every
  // thread of every rank reads the same. gather() nests what this throws.
  virtual void read(std::int64_t index, std::int64_t epoch, const Buffer& input,
                    const Buffer& label) const = 0;

  // Reads the samples `indices`, in that order, into CPU memory. Throws std::invalid_argument if an
  // index is out of range or if a buffer's count, type or device is wrong; Error that names the
  // index of a sample that cannot be read, with the reason nested. If it is cancelled, it reads no
  // further samples and returns.
  void gather(std::span<const std::int64_t> indices, const Buffer& inputs, const Buffer& labels,
              std::int64_t epoch = 0, const std::stop_token& cancelled = {}) const;
};

// The number of elements of one sample of that shape. std::invalid_argument if a size is negative
// or the number cannot be counted.
[[nodiscard]] std::size_t elements_of(std::span<const std::int64_t> shape);

// The number of elements of `samples` such samples. std::invalid_argument also if their bytes
// cannot be counted.
[[nodiscard]] std::size_t elements_of(std::span<const std::int64_t> shape, std::size_t samples,
                                      DType dtype);

// Throws std::invalid_argument, starting with `origin`, if an index is not in [0, size).
void check_indices(std::string_view origin, std::span<const std::int64_t> indices,
                   std::int64_t size);

}  // namespace ddp
