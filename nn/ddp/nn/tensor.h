// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ddp/base/buffer.h"
#include "ddp/nn/shape.h"

namespace ddp::nn {

// Contiguous elements with a shape. A Tensor is a handle: copies share the elements. The copies own
// the memory together, or it is the caller's (view), who keeps it alive. One that was moved from is
// empty, since it keeps nothing alive.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor(std::move(other)).swap(*this);
    return *this;
  }
  ~Tensor() = default;
  // Throws std::invalid_argument if buffer.count is not shape.count().
  Tensor(const Buffer& buffer, const Shape& shape, std::shared_ptr<void> storage);

  // Owned, zeroed memory, for tensors that live long. Use Context::empty for a step's temporaries.
  static Tensor zeros(const Shape& shape, DType dtype, Device device = kCpuDevice);
  static Tensor view(const Buffer& memory, const Shape& shape) { return {memory, shape, nullptr}; }

  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::size_t count() const { return buffer_.count; }
  [[nodiscard]] DType dtype() const { return buffer_.dtype; }
  [[nodiscard]] Device device() const { return buffer_.device; }

  // Element `i` of all, as a scalar; the caller keeps `i` below count().
  [[nodiscard]] Tensor element(std::size_t i) const { return {buffer_.slice(i, 1), {}, storage_}; }

  // The same elements in another shape of equal count.
  [[nodiscard]] Tensor reshaped(const Shape& shape) const { return {buffer_, shape, storage_}; }

 private:
  void swap(Tensor& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(shape_, other.shape_);
    storage_.swap(other.storage_);
  }

  Buffer buffer_;
  Shape shape_{0};
  std::shared_ptr<void> storage_;
};

struct NamedTensor {
  std::string name;
  Tensor value;
};

}  // namespace ddp::nn
