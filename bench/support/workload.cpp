// SPDX-License-Identifier: MIT
#include "support/workload.h"

#include <cstdint>
#include <vector>

#include "ddp/nn/random.h"

namespace ddp::bench {
namespace {

constexpr std::size_t kPixels = 784;
constexpr std::size_t kClasses = 10;

nn::Tensor make_images(nn::Context& context, const Workload& workload) {
  std::vector<double> values(workload.batch * kPixels);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * nn::random_unit(0, 1, i) - 1;
  const nn::Shape shape{workload.batch, kPixels};
  if (workload.dtype == DType::kFloat64) return context.from_host<double>(values, shape);
  return context.from_host<float>(std::vector<float>(values.begin(), values.end()), shape);
}

nn::Tensor make_labels(nn::Context& context, std::size_t batch) {
  std::vector<std::int64_t> values(batch);
  for (std::size_t i = 0; i < batch; ++i) values[i] = static_cast<std::int64_t>(i % kClasses);
  return context.from_host<std::int64_t>(values, {batch});
}

}  // namespace

Batch make_batch(nn::Context& context, const Workload& workload) {
  return {make_images(context, workload), make_labels(context, workload.batch)};
}

}  // namespace ddp::bench
