// SPDX-License-Identifier: MIT
#include "support/training.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "ddp/nn/models/factory.h"
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

Training::Training(const Workload& workload, std::shared_ptr<ProcessGroup> group,
                   DdpOptions options)
    : module_(nn::make_model(workload.model, nn::Scope(context_, workload.dtype, 0))),
      replica_(*module_, context_, std::move(group), std::move(options)),
      sgd_(context_, module_->parameters(), {.learning_rate = 1e-3, .momentum = 0.9}),
      images_(make_images(context_, workload)),
      labels_(make_labels(context_, workload.batch)) {}

nn::Variable Training::loss() {
  return nn::softmax_cross_entropy(tape_, module_->forward(tape_, images_), labels_);
}

void Training::step(int passes) {
  if (passes > 1) engine().accumulate(passes);
  for (int i = 0; i < passes; ++i) replica_.backward(tape_, loss(), 1);
  replica_.step(sgd_);
}

bool Training::step_unless_over(double samples) {
  replica_.backward(tape_, loss(), {.samples = samples, .is_active = samples > 0});
  if (engine().is_over()) return false;
  replica_.step(sgd_);
  return true;
}

void Training::step_without_engine() {
  tape_.backward(loss());
  sgd_.step(nullptr);
}

}  // namespace ddp::bench
