// SPDX-License-Identifier: MIT
//
// Kernels on large activation maps: images() x kChannels x kSide x kSide; those of batch norm also
// on n x kChannels.
#include "ddp/kernels/avg_pool2d.h"
#include "ddp/kernels/batch_norm.h"
#include "ddp/kernels/channel_moments.h"
#include "ddp/kernels/max_pool2d.h"
#include "ddp/kernels/upsample_nearest2d.h"
#include "kernels/work.h"

namespace ddp::bench {
namespace {

using nn::Tensor;

constexpr std::size_t kChannels = Workbench::kChannels;
constexpr Size2d kImage{Workbench::kSide, Workbench::kSide};

std::size_t planes(const Workbench& bench) { return bench.images() * kChannels; }

ChannelShape channels_of(const Workbench& bench, Size2d image) {
  return {bench.elements / (kChannels * image.count()), kChannels, image.count()};
}

std::string on(Size2d image, const char* kernel) {
  return image == kImage ? kernel : std::string(kernel) + " without maps";
}

MakeWork moments_work(DType dtype, Size2d image) {
  return [dtype, image](Workbench& bench) {
    const Tensor x = bench.large(dtype);
    const Tensor moments = bench.random(moments_count(kChannels), DType::kFloat64);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::channel_moments, cu::channel_moments, x.buffer(),
                                  moments.buffer(), channels_of(bench, image));
    };
    return Work{.kernel = on(image, "channel_moments"), .dtype = dtype, .traffic = {x}, .run = run};
  };
}

// The per-channel values that all batch-norm kernels need.
struct Statistics {
  explicit Statistics(Workbench& bench)
      : mean(bench.random(kChannels)),
        invstd(bench.random(kChannels)),
        weight(bench.random(kChannels)) {}

  [[nodiscard]] BatchNormOperands operands() const {
    return {mean.buffer(), invstd.buffer(), weight.buffer()};
  }

  Tensor mean, invstd, weight;
};

MakeWork batch_norm_forward_work(DType dtype, Size2d image) {
  return [dtype, image](Workbench& bench) {
    const Tensor x = bench.large(dtype), y = bench.large(dtype), bias = bench.random(kChannels);
    const Statistics statistics(bench);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::batch_norm_forward, cu::batch_norm_forward, x.buffer(),
                                  statistics.operands(), bias.buffer(), y.buffer(),
                                  channels_of(bench, image));
    };
    return Work{
        .kernel = on(image, "batch_norm_forward"), .dtype = dtype, .traffic = {x, y}, .run = run};
  };
}

MakeWork batch_norm_sums_work(DType dtype, Size2d image) {
  return [dtype, image](Workbench& bench) {
    const Tensor x = bench.large(dtype), grad_y = bench.large(dtype),
                 mean = bench.random(kChannels);
    const Tensor sums = bench.random(2 * kChannels, DType::kFloat64);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::batch_norm_sums, cu::batch_norm_sums, x.buffer(),
                                  grad_y.buffer(), mean.buffer(), sums.buffer(),
                                  channels_of(bench, image));
    };
    return Work{
        .kernel = on(image, "batch_norm_sums"), .dtype = dtype, .traffic = {x, grad_y}, .run = run};
  };
}

MakeWork batch_norm_grad_input_work(DType dtype, Size2d image) {
  return [dtype, image](Workbench& bench) {
    const Tensor x = bench.large(dtype), grad_y = bench.large(dtype), grad_x = bench.large(dtype);
    const Tensor terms = bench.random(2 * kChannels);
    const Statistics statistics(bench);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::batch_norm_grad_input, cu::batch_norm_grad_input, x.buffer(),
                                  grad_y.buffer(), statistics.operands(), terms.buffer(),
                                  GradientTarget{grad_x.buffer()}, channels_of(bench, image));
    };
    return Work{.kernel = on(image, "batch_norm_grad_input"),
                .dtype = dtype,
                .traffic = {x, grad_y, grad_x},
                .run = run};
  };
}

Pool2dShape max_pool(const Workbench& bench) {
  return {planes(bench), kImage, {3, 3}, {2, 2}, {1, 1}};
}

Tensor indices_for(Workbench& bench) {
  return bench.context.empty({max_pool(bench).y_count()}, DType::kInt32);
}

MakeWork max_pool_forward_work(DType dtype) {
  return [dtype](Workbench& bench) {
    const Tensor x = bench.large(dtype), y = bench.random(max_pool(bench).y_count(), dtype);
    const Tensor indices = indices_for(bench);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::max_pool2d_forward, cu::max_pool2d_forward, x.buffer(),
                                  y.buffer(), indices.buffer(), max_pool(bench));
    };
    return Work{
        .kernel = "max_pool2d_forward", .dtype = dtype, .traffic = {x, y, indices}, .run = run};
  };
}

MakeWork max_pool_backward_work(DType dtype) {
  return [dtype](Workbench& bench) {
    const Work forward = max_pool_forward_work(dtype)(bench);
    forward.run();  // writes the indices
    const Tensor grad_y = forward.traffic[1], indices = forward.traffic[2],
                 grad_x = bench.large(dtype);
    const auto run = [=, &bench] {
      bench.context.run_any_float(cpu::max_pool2d_backward, cu::max_pool2d_backward,
                                  grad_y.buffer(), indices.buffer(),
                                  GradientTarget{grad_x.buffer()}, max_pool(bench));
    };
    return Work{.kernel = "max_pool2d_backward",
                .dtype = dtype,
                .traffic = {grad_y, indices, grad_x},
                .run = run};
  };
}

// Average pooling, windowed or adaptive.
template <class PoolShape>
Work avg_pool_forward_work(Workbench& bench, const char* kernel, const PoolShape& shape) {
  using Cpu = void(const Buffer&, const Buffer&, const PoolShape&);
  using Cuda = void(const Buffer&, const Buffer&, const PoolShape&, Stream);
  constexpr Cpu* kCpu = cpu::avg_pool2d_forward;
  constexpr Cuda* kCuda = cu::avg_pool2d_forward;
  const Tensor x = bench.large(), y = bench.random(shape.y_count());
  const auto run = [=, &bench] {
    bench.context.run_any_float(kCpu, kCuda, x.buffer(), y.buffer(), shape);
  };
  return {.kernel = kernel, .traffic = {x, y}, .run = run};
}

template <class PoolShape>
Work avg_pool_backward_work(Workbench& bench, const char* kernel, const PoolShape& shape) {
  using Cpu = void(const Buffer&, const GradientTarget&, const PoolShape&);
  using Cuda = void(const Buffer&, const GradientTarget&, const PoolShape&, Stream);
  constexpr Cpu* kCpu = cpu::avg_pool2d_backward;
  constexpr Cuda* kCuda = cu::avg_pool2d_backward;
  const Tensor grad_y = bench.random(shape.y_count()), grad_x = bench.large();
  const auto run = [=, &bench] {
    bench.context.run_any_float(kCpu, kCuda, grad_y.buffer(), GradientTarget{grad_x.buffer()},
                                shape);
  };
  return {.kernel = kernel, .traffic = {grad_y, grad_x}, .run = run};
}

Pool2dShape avg_pool(const Workbench& bench) { return {planes(bench), kImage, {2, 2}, {2, 2}}; }
AdaptivePool2dShape global_pool(const Workbench& bench) { return {planes(bench), kImage, {1, 1}}; }

// Doubles height and width.
Upsample2dShape upsampling(const Workbench& bench) {
  return {planes(bench), {kImage.height / 2, kImage.width / 2}, {2, 2}};
}

Work upsample_forward_work(Workbench& bench) {
  const Tensor x = bench.random(upsampling(bench).x_count()), y = bench.large();
  const auto run = [=, &bench] {
    bench.context.run(cpu::upsample_nearest2d_forward, cu::upsample_nearest2d_forward, x.buffer(),
                      y.buffer(), upsampling(bench));
  };
  return {.kernel = "upsample_nearest2d_forward", .traffic = {x, y}, .run = run};
}

Work upsample_backward_work(Workbench& bench) {
  const Tensor grad_y = bench.large(), grad_x = bench.random(upsampling(bench).x_count());
  const auto run = [=, &bench] {
    bench.context.run(cpu::upsample_nearest2d_backward, cu::upsample_nearest2d_backward,
                      grad_y.buffer(), GradientTarget{grad_x.buffer()}, upsampling(bench));
  };
  return {.kernel = "upsample_nearest2d_backward", .traffic = {grad_y, grad_x}, .run = run};
}

}  // namespace

std::vector<MakeWork> image_kernels() {
  std::vector<MakeWork> works;
  for (const auto make :
       {moments_work, batch_norm_forward_work, batch_norm_sums_work, batch_norm_grad_input_work}) {
    works.insert(works.end(), {make(DType::kFloat32, kImage), make(DType::kBFloat16, kImage),
                               make(DType::kFloat32, Size2d(1))});
  }
  for (const auto make : {max_pool_forward_work, max_pool_backward_work}) {
    works.insert(works.end(), {make(DType::kFloat32), make(DType::kBFloat16)});
  }
  works.insert(
      works.end(),
      {[](Workbench& b) { return avg_pool_forward_work(b, "avg_pool2d_forward", avg_pool(b)); },
       [](Workbench& b) { return avg_pool_backward_work(b, "avg_pool2d_backward", avg_pool(b)); },
       [](Workbench& b) {
         return avg_pool_forward_work(b, "adaptive_avg_pool2d_forward", global_pool(b));
       },
       [](Workbench& b) {
         return avg_pool_backward_work(b, "adaptive_avg_pool2d_backward", global_pool(b));
       },
       upsample_forward_work, upsample_backward_work});
  return works;
}

}  // namespace ddp::bench
