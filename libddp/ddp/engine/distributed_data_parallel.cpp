// SPDX-License-Identifier: MIT
#include "ddp/engine/distributed_data_parallel.h"

#include <string>
#include <utility>

#include "ddp/engine/checks/sole_call.h"
#include "ddp/engine/distributed_data_parallel_impl.h"
#include "ddp/engine/ready_order.h"

namespace ddp {

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<ProcessGroup> group,
                                                 std::vector<Parameter> parameters,
                                                 DdpOptions options)
    : impl_(std::make_shared<Impl>(std::move(group), std::move(parameters), std::move(options))) {}

DistributedDataParallel::~DistributedDataParallel() = default;

ProcessGroup& DistributedDataParallel::group() const { return *impl_->group(); }

[[gnu::hot]] std::size_t DistributedDataParallel::parameter_count() const {
  return impl_->parameters().size();
}

Buffer DistributedDataParallel::gradient(std::size_t i) const { return impl_->gradient(i); }

const BucketLayout& DistributedDataParallel::layout() const { return impl_->reducer().layout(); }

[[gnu::hot]] double DistributedDataParallel::begin_step(const StepOptions& options) {
  return impl_->begin_step(options);
}

void DistributedDataParallel::record_metric(std::size_t slot, double value, SampleCount weight) {
  impl_->record_metric(slot, value, weight);
}

void DistributedDataParallel::record_metric(std::size_t slot, const Buffer& value,
                                            SampleCount weight) {
  impl_->record_metric(slot, value, weight);
}

void DistributedDataParallel::vote(std::size_t slot, bool in_favour) {
  impl_->vote(slot, in_favour);
}

[[gnu::hot]] void DistributedDataParallel::mark_ready(std::size_t i, Stream stream) {
  const SoleCall call(impl_->running_call());
  impl_->mark_ready(i, stream);
}

[[gnu::hot]] void DistributedDataParallel::wait(Stream stream) {
  const SoleCall call(impl_->running_call());
  impl_->wait(stream);
}

void DistributedDataParallel::wait_host() const { impl_->wait_host(); }

const double* DistributedDataParallel::gradient_scale() const { return impl_->gradient_scale(); }

void DistributedDataParallel::continue_after(std::int64_t steps) { impl_->continue_after(steps); }

void DistributedDataParallel::accumulate(int passes) { impl_->accumulate(passes); }

DistributedDataParallel::NoSync DistributedDataParallel::no_sync() {
  impl_->passes().add_guard();
  return NoSync(impl_);
}

DistributedDataParallel::NoSync::~NoSync() {
  if (const auto impl = impl_.lock()) impl->passes().remove_guard();
}

bool DistributedDataParallel::is_synchronized() const { return impl_->is_synchronized(); }

bool DistributedDataParallel::is_used(std::size_t i) const { return impl_->is_used(i); }

bool DistributedDataParallel::is_over() const { return impl_->outcome().is_over(); }

bool DistributedDataParallel::should_step() const {
  impl_->check_closed("should_step");
  impl_->check_not_held_back();
  return is_synchronized() && is_finite() && impl_->outcome().has_samples();
}

bool DistributedDataParallel::is_finite() const { return impl_->outcome().is_finite(); }

bool DistributedDataParallel::stop_requested() const { return impl_->outcome().stop_requested(); }

bool DistributedDataParallel::agreed(std::size_t slot, Quorum quorum) const {
  return impl_->outcome().agreed(slot, quorum);
}

void DistributedDataParallel::begin_forward(Stream stream) { impl_->begin_forward(stream); }

void DistributedDataParallel::broadcast_buffers(Stream stream) { impl_->broadcast_buffers(stream); }

StepSummary DistributedDataParallel::summary() const { return impl_->outcome().summary(); }

StepSummary DistributedDataParallel::take_totals() { return impl_->outcome().take_totals(); }

StepTimes DistributedDataParallel::times() const { return impl_->times(); }

std::span<const std::size_t> DistributedDataParallel::ready_order() const {
  return impl_->reducer().ready_order();
}

std::string DistributedDataParallel::order_advice() const {
  const Reducer& reducer = impl_->reducer();
  if (group().world_size() == 1 || ready_order().empty()) return "";  // or none was marked yet
  std::vector<std::size_t> awaited;
  for (std::size_t i = 0; i < reducer.gradient_count(); ++i) {
    if (reducer.is_expected(i)) awaited.push_back(i);
  }
  return ddp::order_advice(layout(), ready_order(), awaited, reducer.packing());
}

std::string DistributedDataParallel::report() const {
  const StepCosts costs = step_costs();
  std::string text = format_report(costs);
  const std::uint64_t told = costs.steps + costs.pauses + costs.stalls.steps;
  if (const std::uint64_t steps = statistics().steps; costs.steps > 0 && steps > told) {
    text += "not counted: " + std::to_string(steps - told) + " of " + std::to_string(steps) +
            " steps: the first ones, which warm up" +
            (group().world_size() > 1
                 ? ", and the last ones, whose times ranks have not exchanged yet\n"
                 : "\n");
  }
  if (const auto skipped = statistics().skipped_steps; skipped > 0) {
    text += "skipped: " + std::to_string(skipped) + " of " + std::to_string(statistics().steps) +
            " steps, whose gradients were not finite\n";
  }
  if (const std::string order = order_advice(); !order.empty()) text += "order: " + order + "\n";
  return text;
}

DistributedDataParallel::Statistics DistributedDataParallel::statistics() const {
  return impl_->statistics();
}

StepCosts DistributedDataParallel::step_costs() const { return impl_->step_costs(); }

}  // namespace ddp
