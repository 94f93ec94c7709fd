// SPDX-License-Identifier: MIT
//
// Convolution without cuDNN.
#include <algorithm>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/bias.h"
#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/conv2d/conv2d_columns.h"

namespace ddp::cu {
namespace {

// Columns take as many times the input's memory as the kernel has pixels.
constexpr std::size_t kColumnBudgetBytes = std::size_t{64} << 20;

class GemmConv2d final : public Conv2dBackend {
 public:
  GemmConv2d(Device device, Blas& blas) : device_(device), blas_(blas) {}

  [[nodiscard]] bool takes(DType dtype, const Conv2dShape&) override { return size_of(dtype) > 2; }

  void forward(const Buffer& x, const Buffer& weight, const Buffer& y, const Conv2dShape& shape,
               Stream stream) override {
    for_each_chunk(shape, x.dtype, [&](const Chunk& chunk) {
      image_to_columns(chunk.of(x), chunk.columns, chunk.shape, stream);
      for_each_batch(chunk, [&](const Samples& samples) {
        gemm_batched(weight, samples.of(chunk.columns), samples.of(chunk.of(y)),
                     {chunk.group.out_channels, chunk.pixels, chunk.taps}, {}, blas_, stream);
      });
    });
  }

  void grad_input(const Buffer& weight, const Buffer& grad_y, const GradientTarget& grad_x,
                  const Conv2dShape& shape, Stream stream) override {
    for_each_chunk(shape, weight.dtype, [&](const Chunk& chunk) {
      for_each_batch(chunk, [&](const Samples& samples) {
        gemm_batched(weight, samples.of(chunk.of(grad_y)), samples.of(chunk.columns),
                     {chunk.taps, chunk.pixels, chunk.group.out_channels},
                     {.transpose_a = Transpose::kYes}, blas_, stream);
      });
      columns_to_image(chunk.columns, {chunk.of(grad_x.buffer), grad_x.mode}, chunk.shape, stream);
    });
  }

  // Every sample's and group's product by itself, then the samples' sum in a fixed order.
  void grad_weight(const Buffer& x, const Buffer& grad_y, const GradientTarget& grad_weight,
                   const Conv2dShape& shape, Stream stream) override {
    WriteMode mode = grad_weight.mode;
    for_each_chunk(shape, x.dtype, [&](const Chunk& chunk) {
      image_to_columns(chunk.of(x), chunk.columns, chunk.shape, stream);
      gemm_batched(chunk.of(grad_y), chunk.columns, chunk.products,
                   {chunk.group.out_channels, chunk.taps, chunk.pixels},
                   {.transpose_b = Transpose::kYes}, blas_, stream);
      bias_grad(chunk.products, {grad_weight.buffer, mode},
                {chunk.shape.batch, shape.weight_count()}, stream);
      mode = WriteMode::kAccumulate;
    });
  }

 private:
  // Samples [first, first + shape.batch) of a batch.
  struct Chunk {
    Conv2dShape shape;
    Conv2dShape group;
    std::size_t first;
    std::size_t batch;
    std::size_t taps;  // of one group
    std::size_t pixels;
    Buffer columns;   // shape.batch x groups x taps x pixels
    Buffer products;  // shape.batch x weight_count

    [[nodiscard]] Buffer of(const Buffer& all) const {
      const std::size_t sample = all.count / batch;
      return all.slice(first * sample, shape.batch * sample);
    }
  };

  // Samples of a chunk.
  struct Samples {
    std::size_t first, count, chunk;

    [[nodiscard]] Buffer of(const Buffer& all) const {
      const std::size_t sample = all.count / chunk;
      return all.slice(first * sample, count * sample);
    }
  };

  // The products that one call of gemm_batched computes: one a sample, which share the weight, or
  // with several groups those of one sample.
  template <class F>
  static void for_each_batch(const Chunk& chunk, const F& run) {
    const std::size_t samples = chunk.shape.batch;
    if (chunk.shape.groups == 1) return run(Samples{0, samples, samples});
    for (std::size_t n = 0; n < samples; ++n) run(Samples{n, 1, samples});
  }

  template <class F>
  void for_each_chunk(const Conv2dShape& shape, DType dtype, const F& run) {
    const Conv2dShape group = shape.group();
    const std::size_t taps = group.in_channels * shape.kernel.count();
    const std::size_t pixels = shape.output().count();
    const std::size_t columns = shape.groups * taps * pixels;
    const std::size_t sample = columns + shape.weight_count();
    const std::size_t fitting = kColumnBudgetBytes / (sample * size_of(dtype));
    const std::size_t largest = std::clamp<std::size_t>(fitting, 1, shape.batch);
    const Buffer memory = scratch(largest * sample, dtype);
    for (std::size_t first = 0; first < shape.batch; first += largest) {
      Chunk chunk{shape, group, first, shape.batch, taps, pixels, {}, {}};
      chunk.shape.batch = std::min(largest, shape.batch - first);
      chunk.columns = memory.slice(0, chunk.shape.batch * columns);
      chunk.products = memory.slice(largest * columns, chunk.shape.batch * shape.weight_count());
      run(chunk);
    }
  }

  // Used by one stream, so what is enqueued later runs later; freeing waits for the device.
  Buffer scratch(std::size_t count, DType dtype) {
    const std::size_t size_bytes = count * size_of(dtype);
    if (scratch_.size_bytes() < size_bytes) scratch_ = allocate_device(size_bytes, device_);
    return {scratch_.data(), count, dtype, device_};
  }

  Device device_;
  Blas& blas_;
  Allocation scratch_;
};

}  // namespace

std::unique_ptr<Conv2dBackend> make_gemm_conv2d(Device device, Blas& blas) {
  return std::make_unique<GemmConv2d>(device, blas);
}

}  // namespace ddp::cu
