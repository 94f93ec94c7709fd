// SPDX-License-Identifier: MIT
//
// Forward and the gradient of the input go sample by sample, by gemm_batched, with which a product
// has the same bits among others and with any number of threads. The gradient of the weight is one
// product over as many samples as the scratch memory holds: if samples have few pixels, products of
// single samples would spend their time reading and writing the gradient.
#include <algorithm>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/kernels/channel_bias.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/conv2d/conv2d_columns_cpu.h"
#include "ddp/kernels/detail/checks.h"
#include "ddp/kernels/detail/scratch.h"

namespace ddp::cpu {
namespace {

constexpr std::size_t kColumnBudgetBytes = std::size_t{16} << 20;

// A convolution of one group, and where group g of sample n lies in the operands.
struct Geometry {
  explicit Geometry(const Conv2dShape& of)
      : all(of),
        group(of.group()),
        taps(group.in_channels * group.kernel.count()),
        pixels(of.output().count()),
        x_size(group.in_channels * group.input.count()),
        y_size(group.out_channels * pixels) {}

  [[nodiscard]] Buffer x_of(const Buffer& x, std::size_t n, std::size_t g) const {
    return x.slice((n * all.groups + g) * x_size, x_size);
  }
  [[nodiscard]] Buffer y_of(const Buffer& y, std::size_t n, std::size_t g) const {
    return y.slice((n * all.groups + g) * y_size, y_size);
  }
  [[nodiscard]] Buffer weight_of(const Buffer& weight, std::size_t g) const {
    return weight.slice(g * group.weight_count(), group.weight_count());
  }

  Conv2dShape all, group;
  std::size_t taps, pixels, x_size, y_size;  // of one group
};

class ColumnConv2d final : public Conv2dBackend {
 public:
  void forward(const Buffer& x, const Buffer& weight, const Buffer& bias, const Buffer& y,
               const Conv2dShape& shape) override {
    const Geometry of(shape);
    const GemmShape product{of.group.out_channels, of.pixels, of.taps};
    if (shape.is_pointwise() && shape.groups == 1) {
      gemm_batched(weight, x, y, product, {});
    } else {
      for_each_part(of, [&](std::size_t n, std::size_t g) {
        const Buffer columns = columns_of(of.x_of(x, n, g), of);
        gemm_batched(of.weight_of(weight, g), columns, of.y_of(y, n, g), product, {});
      });
    }
    if (bias.count > 0) channel_bias_add(y, bias, {shape.batch, shape.out_channels, of.pixels});
  }

  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape) override {
    const Geometry of(shape);
    const GemmShape product{of.taps, of.pixels, of.group.out_channels};
    if (shape.is_pointwise() && shape.groups == 1) {
      const double beta = grad_x.mode == WriteMode::kAccumulate ? 1 : 0;
      return gemm_batched(weight, grad_y, grad_x.buffer, product,
                          {.transpose_a = Transpose::kYes, .beta = beta});
    }
    if (grad_x.mode == WriteMode::kOverwrite) cpu::fill(grad_x.buffer, 0);
    const Buffer columns = scratch(of.taps * of.pixels, weight);
    for_each_part(of, [&](std::size_t n, std::size_t g) {
      gemm_batched(of.weight_of(weight, g), of.y_of(grad_y, n, g), columns, product,
                   {.transpose_a = Transpose::kYes});
      detail::dispatch_float("conv2d_grad_input", weight.dtype, [&](auto element) {
        using T = decltype(element);
        detail::add_columns_to_image<T>({static_cast<T*>(columns.data), of.pixels},
                                        static_cast<T*>(of.x_of(grad_x.buffer, n, g).data),
                                        of.group);
      });
    });
  }

  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape) override {
    const Geometry of(shape);
    const std::size_t sample = (of.taps + of.group.out_channels) * of.pixels;
    const std::size_t largest =
        std::clamp<std::size_t>(kColumnBudgetBytes / (sample * size_of(x.dtype)), 1, shape.batch);
    for (std::size_t first = 0; first < shape.batch; first += largest) {
      const std::size_t count = std::min(largest, shape.batch - first);
      const bool accumulate = first > 0 || grad_weight.mode == WriteMode::kAccumulate;
      for (std::size_t g = 0; g < shape.groups; ++g) {
        const Side side = gather(x, grad_y, of, {first, count, g});
        gemm(side.grad_y, side.columns, of.weight_of(grad_weight.buffer, g),
             {of.group.out_channels, of.taps, count * of.pixels},
             {.transpose_b = Transpose::kYes, .beta = accumulate ? 1.0 : 0.0});
      }
    }
  }

 private:
  // One side of a product over several samples: a row is a tap or a channel.
  struct Side {
    Buffer columns;
    Buffer grad_y;
  };
  struct Samples {
    std::size_t first, count, group;
  };

  template <class F>
  static void for_each_part(const Geometry& of, const F& run) {
    for (std::size_t n = 0; n < of.all.batch; ++n) {
      for (std::size_t g = 0; g < of.all.groups; ++g) run(n, g);
    }
  }

  // Returns x itself if the columns equal it.
  Buffer columns_of(const Buffer& x, const Geometry& of) {
    if (of.all.is_pointwise()) return x;
    const Buffer columns = scratch(of.taps * of.pixels, x);
    cpu::fill(columns, 0);
    detail::dispatch_float("conv2d_forward", x.dtype, [&](auto element) {
      using T = decltype(element);
      detail::image_to_columns<T>(static_cast<const T*>(x.data),
                                  {static_cast<T*>(columns.data), of.pixels}, of.group);
    });
    return columns;
  }

  Side gather(const Buffer& x, const Buffer& grad_y, const Geometry& of, const Samples& samples) {
    const std::size_t row = samples.count * of.pixels;
    const Buffer memory = scratch((of.taps + of.group.out_channels) * row, x);
    const Side side{memory.slice(0, of.taps * row),
                    memory.slice(of.taps * row, of.group.out_channels * row)};
    cpu::fill(side.columns, 0);
    detail::dispatch_float("conv2d_grad_weight", x.dtype, [&](auto element) {
      using T = decltype(element);
      for (std::size_t i = 0; i < samples.count; ++i) {
        const Buffer from = of.y_of(grad_y, samples.first + i, samples.group);
        const Buffer image = of.x_of(x, samples.first + i, samples.group);
        detail::image_to_columns<T>(static_cast<const T*>(image.data),
                                    {static_cast<T*>(side.columns.data) + i * of.pixels, row},
                                    of.group);
        for (std::size_t o = 0; o < of.group.out_channels; ++o) {
          std::copy_n(static_cast<const T*>(from.data) + o * of.pixels, of.pixels,
                      static_cast<T*>(side.grad_y.data) + o * row + i * of.pixels);
        }
      }
    });
    return side;
  }

  Buffer scratch(std::size_t count, const Buffer& like) {
    return {scratch_.at_least(count * size_of(like.dtype)), count, like.dtype, like.device};
  }

  detail::Scratch scratch_;
};

}  // namespace

std::unique_ptr<Conv2dBackend> make_column_conv2d() { return std::make_unique<ColumnConv2d>(); }

}  // namespace ddp::cpu
