// SPDX-License-Identifier: MIT
#include "ddp/kernels/conv2d/conv2d_loops.h"

#include <algorithm>

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/scratch.h"

namespace ddp::cpu {
namespace {

template <class T>
const detail::Conv2dLoops<T>& of_type(const detail::Conv2dLoopsOfBoth& loops) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return loops.single;
  } else {
    return loops.exact;
  }
}

// Each sample has a lane of its own, so wide vectors compute no more than narrow ones if half of
// their lanes stay empty. A sample's result is the same in both.
template <class T>
const detail::Conv2dLoops<T>& loops_for(std::size_t batch) {
  const detail::Conv2dLoopsOfBoth* avx512 = detail::conv2d_avx512_loops();
  if (avx512 != nullptr && batch > of_type<T>(*avx512).lanes / 2) return of_type<T>(*avx512);
  const detail::Conv2dLoopsOfBoth* avx2 = detail::conv2d_avx2_loops();
  return of_type<T>(avx2 != nullptr ? *avx2 : detail::conv2d_baseline_loops());
}

// Cuts the scratch memory of one call into its parts; the bias is one of zeros.
template <class T>
class Parts {
 public:
  Parts(const detail::Conv2dSizes& sizes, std::size_t lanes)
      : input_(bytes(lanes * sizes.shape.in_channels * sizes.shape.padded_input().count())),
        output_(bytes(lanes * sizes.shape.out_channels * sizes.output.height *
                      (sizes.output.width + 2))),
        weights_(bytes(lanes * sizes.shape.weight_count())),
        tap_offsets_(host_aligned(sizes.shape.in_channels * sizes.shape.kernel.count() *
                                  sizeof(std::size_t))),
        no_bias_(bytes(sizes.shape.out_channels)) {}

  detail::Conv2dScratch<T> in(detail::Scratch& scratch) const {
    auto* at = static_cast<std::byte*>(
        scratch.at_least(input_ + output_ + weights_ + tap_offsets_ + no_bias_));
    const auto take = [&at](std::size_t size_bytes) {
      at += size_bytes;
      return static_cast<void*>(at - size_bytes);
    };
    auto* no_bias = static_cast<T*>(take(no_bias_));
    std::fill_n(no_bias, no_bias_ / sizeof(T), T{0});
    return {static_cast<T*>(take(input_)), static_cast<T*>(take(output_)),
            static_cast<T*>(take(weights_)), static_cast<std::size_t*>(take(tap_offsets_)),
            no_bias};
  }

 private:
  static std::size_t bytes(std::size_t count) { return host_aligned(count * sizeof(T)); }

  std::size_t input_, output_, weights_, tap_offsets_, no_bias_;
};

// A group's part of each operand.
template <class T>
struct Operands {
  T* x;
  T* weight;
  T* bias;  // null if there is none
  T* y;
};

class LoopConv2d final : public Conv2dBackend {
 public:
  void forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
               const Conv2dShape& shape) override {
    for_each_group("conv2d_forward", x, weight, bias, y, shape,
                   []<class T>(const detail::Conv2dLoops<T>& loops, const auto& sizes,
                               const Operands<T>& group, const auto& scratch) {
                     const T* bias_or_zeros = group.bias != nullptr ? group.bias : scratch.no_bias;
                     loops.forward(sizes, group.x, group.weight, bias_or_zeros, group.y, scratch);
                   });
  }

  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape) override {
    for_each_group("conv2d_grad_input", grad_x.buffer, weight, {}, grad_y, shape,
                   [&]<class T>(const detail::Conv2dLoops<T>& loops, const auto& sizes,
                                const Operands<T>& group, const auto& scratch) {
                     loops.grad_input(sizes, group.weight, group.y, group.x, grad_x.mode, scratch);
                   });
  }

  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape) override {
    for_each_group("conv2d_grad_weight", x, grad_weight.buffer, {}, grad_y, shape,
                   [&]<class T>(const detail::Conv2dLoops<T>& loops, const auto& sizes,
                                const Operands<T>& group, const auto& scratch) {
                     loops.grad_weight(sizes, group.x, group.y, group.weight, grad_weight.mode,
                                       scratch);
                   });
  }

 private:
  // Calls run(loops, sizes, operands, scratch) for each group and the element type at hand.
  template <class F>
  void for_each_group(const char* kernel, const Buffer& x, const Buffer& weight, const Buffer& bias,
                      const Buffer& y, const Conv2dShape& shape, const F& run) {
    const Conv2dShape group = shape.group();
    const detail::Conv2dSizes sizes{group, shape.output(), x.count / shape.batch,
                                    y.count / shape.batch};
    detail::dispatch_float(kernel, x.dtype, [&](auto element) {
      using T = decltype(element);
      const detail::Conv2dLoops<T>& loops = loops_for<T>(shape.batch);
      const detail::Conv2dScratch<T> scratch = Parts<T>(sizes, loops.lanes).in(scratch_);
      Operands<T> at{static_cast<T*>(x.data), static_cast<T*>(weight.data),
                     bias.count > 0 ? static_cast<T*>(bias.data) : nullptr,
                     static_cast<T*>(y.data)};
      for (std::size_t g = 0; g < shape.groups; ++g) {
        run(loops, sizes, at, scratch);
        at.x += group.in_channels * group.input.count();
        at.weight += group.weight_count();
        if (at.bias != nullptr) at.bias += group.out_channels;
        at.y += group.out_channels * sizes.output.count();
      }
    });
  }

  detail::Scratch scratch_;
};

}  // namespace

std::unique_ptr<Conv2dBackend> make_loop_conv2d() { return std::make_unique<LoopConv2d>(); }

}  // namespace ddp::cpu
