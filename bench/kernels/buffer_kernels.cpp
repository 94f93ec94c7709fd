// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/buffer_ops.h"
#include "kernels/work.h"

namespace ddp::bench {
namespace {

using nn::Tensor;

Work fill_work(Workbench& bench) {
  const Tensor y = bench.large();
  const auto run = [=, &bench] { fill(y.buffer(), 1, bench.context.stream()); };
  return {.kernel = "fill", .traffic = {y}, .run = run};
}

Work copy_work(Workbench& bench) {
  const Tensor x = bench.large(), y = bench.large();
  const auto run = [=, &bench] { copy(x.buffer(), y.buffer(), bench.context.stream()); };
  return {.kernel = "copy", .traffic = {x, y}, .run = run};
}

MakeWork cast_work(DType from, DType to) {
  return [from, to](Workbench& bench) {
    const Tensor x = bench.large(from), y = bench.large(to);
    const auto run = [=, &bench] { cast(x.buffer(), y.buffer(), bench.context.stream()); };
    return Work{.kernel = "cast from " + std::string(to_string(from)),
                .dtype = to,
                .traffic = {x, y},
                .run = run};
  };
}

MakeWork scale_work(DType dtype) {
  return [dtype](Workbench& bench) {
    const Tensor y = bench.large(dtype), factor = bench.random(1, DType::kFloat64);
    fill(factor.buffer(), 1, bench.context.stream());
    const auto run = [=, &bench] {
      scale_by_value_at(y.buffer(), static_cast<const double*>(factor.buffer().data),
                        bench.context.stream());
    };
    return Work{.kernel = "scale", .dtype = dtype, .traffic = {y, y}, .run = run};
  };
}

MakeWork reduce_work(DType dtype) {
  return [dtype](Workbench& bench) {
    const Tensor x = bench.large(dtype), y = bench.large(dtype);
    const auto run = [=, &bench] {
      reduce(x.buffer(), y.buffer(), ReduceOp::kMax, bench.context.stream());
    };
    return Work{.kernel = "reduce", .dtype = dtype, .traffic = {x, y, y}, .run = run};
  };
}

Work reciprocal_work(Workbench& bench) {
  const Tensor y = bench.large();
  const auto run = [=, &bench] { reciprocal(y.buffer(), bench.context.stream()); };
  return {.kernel = "reciprocal", .traffic = {y, y}, .run = run};
}

MakeWork is_finite_work(DType dtype) {
  return [dtype](Workbench& bench) {
    const Tensor x = bench.large(dtype), result = bench.random(1);
    const auto run = [=, &bench] {
      is_finite(x.buffer(), static_cast<std::uint8_t*>(result.buffer().data),
                bench.context.stream());
    };
    return Work{.kernel = "is_finite", .dtype = dtype, .traffic = {x}, .run = run};
  };
}

Work fingerprint_work(Workbench& bench) {
  const Tensor x = bench.large(), result = bench.random(1, DType::kFloat64);
  const auto run = [=, &bench] {
    fingerprint(x.buffer(), static_cast<std::uint64_t*>(result.buffer().data),
                bench.context.stream());
  };
  return {.kernel = "fingerprint", .traffic = {x}, .run = run};
}

}  // namespace

std::vector<MakeWork> buffer_kernels() {
  constexpr DType kNarrow = DType::kBFloat16, kWide = DType::kFloat32;
  return {fill_work,
          copy_work,
          cast_work(kWide, kNarrow),
          cast_work(kNarrow, kWide),
          scale_work(kWide),
          scale_work(kNarrow),
          reduce_work(kWide),
          reduce_work(kNarrow),
          reciprocal_work,
          is_finite_work(kWide),
          is_finite_work(kNarrow),
          fingerprint_work};
}

}  // namespace ddp::bench
