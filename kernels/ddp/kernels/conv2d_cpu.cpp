// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/detail/conv2d_checks.h"
#include "ddp/kernels/detail/conv2d_loops.h"

namespace ddp::cpu {
namespace {

const detail::Conv2dLoopsOfBoth& best_loops() {
  const detail::Conv2dLoopsOfBoth* avx2 = detail::conv2d_avx2_loops();
  return avx2 != nullptr ? *avx2 : detail::conv2d_baseline_loops();
}

template <class T>
const detail::Conv2dLoops<T>& loops_for() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return best_loops().single;
  } else {
    return best_loops().exact;
  }
}

// The scratch memory of one call.
template <class T>
class Scratch {
 public:
  Scratch(const detail::Conv2dSizes& sizes, std::size_t lanes)
      : input_(lanes * sizes.shape.in_channels * sizes.shape.padded_input().count()),
        output_(lanes * sizes.shape.out_channels * sizes.output.height * (sizes.output.width + 2)),
        weights_(lanes * sizes.shape.weight_count()),
        tap_offsets_(sizes.shape.in_channels * sizes.shape.kernel.count()) {}

  detail::Conv2dScratch<T> view() const {
    return {input_.get(), output_.get(), weights_.get(), tap_offsets_.get()};
  }

 private:
  static constexpr std::align_val_t kAlignment{64};

  // Uninitialised, which std::vector cannot be.
  template <class Element>
  class Array {
   public:
    explicit Array(std::size_t count)
        : data_(static_cast<Element*>(::operator new(count * sizeof(Element), kAlignment))) {}
    Element* get() const { return data_.get(); }

   private:
    struct Delete {
      void operator()(Element* data) const { ::operator delete(data, kAlignment); }
    };
    std::unique_ptr<Element, Delete> data_;
  };

  Array<T> input_;
  Array<T> output_;
  Array<T> weights_;
  Array<std::size_t> tap_offsets_;
};

// Calls run(loops, sizes, scratch) for the element type at hand.
template <class F>
void with_loops(const char* kernel, DType dtype, const Conv2dShape& shape, const F& run) {
  const detail::Conv2dSizes sizes{shape, shape.output()};
  detail::dispatch_float(kernel, dtype, [&](auto element) {
    using T = decltype(element);
    const detail::Conv2dLoops<T>& loops = loops_for<T>();
    run(loops, sizes, Scratch<T>(sizes, loops.lanes).view());
  });
}

// In a fixed order, in partial sums that the compiler keeps in vectors.
template <class T>
T sum_of(const T* values, std::size_t count) {
  std::array<T, 16> partial{};
  std::size_t i = 0;
  for (; i + partial.size() <= count; i += partial.size()) {
    for (std::size_t l = 0; l < partial.size(); ++l) partial[l] += values[i + l];
  }
  T sum = 0;
  for (; i < count; ++i) sum += values[i];
  for (const T& part : partial) sum += part;
  return sum;
}

}  // namespace

void conv2d_forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
                    const Conv2dShape& shape) {
  detail::check_conv2d_forward(x, weight, bias, y, shape);
  with_loops("conv2d_forward", x.dtype, shape,
             [&]<class T>(const detail::Conv2dLoops<T>& loops, const detail::Conv2dSizes& sizes,
                          const detail::Conv2dScratch<T>& scratch) {
               loops.forward(sizes, static_cast<const T*>(x.data),
                             static_cast<const T*>(weight.data), static_cast<const T*>(bias.data),
                             static_cast<T*>(y.data), scratch);
             });
}

void conv2d_grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                       const Conv2dShape& shape) {
  detail::check_conv2d_grad_input(weight, grad_y, grad_x.buffer, shape);
  with_loops("conv2d_grad_input", weight.dtype, shape,
             [&]<class T>(const detail::Conv2dLoops<T>& loops, const detail::Conv2dSizes& sizes,
                          const detail::Conv2dScratch<T>& scratch) {
               loops.grad_input(sizes, static_cast<const T*>(weight.data),
                                static_cast<const T*>(grad_y.data),
                                static_cast<T*>(grad_x.buffer.data), grad_x.mode, scratch);
             });
}

void conv2d_grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                        const Conv2dShape& shape) {
  detail::check_conv2d_grad_weight(x, grad_y, grad_weight.buffer, shape);
  with_loops("conv2d_grad_weight", x.dtype, shape,
             [&]<class T>(const detail::Conv2dLoops<T>& loops, const detail::Conv2dSizes& sizes,
                          const detail::Conv2dScratch<T>& scratch) {
               loops.grad_weight(
                   sizes, static_cast<const T*>(x.data), static_cast<const T*>(grad_y.data),
                   static_cast<T*>(grad_weight.buffer.data), grad_weight.mode, scratch);
             });
}

void conv2d_grad_bias(const Buffer& grad_y, const GradientTarget& grad_bias,
                      const Conv2dShape& shape) {
  detail::check_conv2d_grad_bias(grad_y, grad_bias.buffer, shape);
  const std::size_t plane = shape.output().count();
  detail::dispatch_float("conv2d_grad_bias", grad_y.dtype, [&](auto element) {
    using T = decltype(element);
    if (grad_bias.mode == WriteMode::kOverwrite) std::ranges::fill(grad_bias.buffer.as<T>(), T{0});
    const T* grad = static_cast<const T*>(grad_y.data);
    for (std::size_t n = 0; n < shape.batch; ++n) {
      for (T& target : grad_bias.buffer.as<T>()) {
        target += sum_of(grad, plane);
        grad += plane;
      }
    }
  });
}

}  // namespace ddp::cpu
