// SPDX-License-Identifier: MIT
#include "support/training.h"

#include <utility>

namespace ddp::bench {

Training::Training(const Workload& workload, std::shared_ptr<ProcessGroup> group,
                   DdpOptions options)
    : context_(group->device(), workload.float32_precision),
      tape_(context_, nn::Recording::kOn, workload.amp),
      module_(make_model(workload, nn::Scope(context_, workload.dtype, 0))),
      replica_(*module_, context_, std::move(group), std::move(options)),
      sgd_(context_, module_->parameters(), {.learning_rate = 1e-3, .momentum = 0.9}),
      batch_(make_batch(context_, workload, engine().group().rank())) {}

nn::Variable Training::loss() {
  return loss_of(tape_, module_->forward(tape_, batch_.inputs), batch_);
}

void Training::step(int passes) {
  if (passes > 1) engine().accumulate(passes);
  for (int i = 0; i < passes; ++i) replica_.backward(tape_, loss(), 1);
  replica_.step(sgd_);
}

void Training::step_in_parts() {
  const nn::Variable forward = loss();
  synchronize();
  replica_.backward(tape_, forward, 1);
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
