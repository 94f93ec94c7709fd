// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/sync_batch_norm.h"

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddp/nn/modules/batch_norm.h"
#include "ddp/nn/parallel/data_parallel.h"

namespace ddp::nn {
namespace {

class GroupReducer final : public StatisticsReducer {
 public:
  explicit GroupReducer(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  // Gathered and merged rather than summed: variances from sums of squares would be inexact.
  Tensor merge_moments(Context& context, const Tensor& moments) override {
    const auto ranks = static_cast<std::size_t>(group_->world_size());
    const ScopedLabel labelled(*group_, kLabel);
    const Tensor parts = context.empty({ranks, moments.count()}, moments.dtype());
    wait(group_->all_gather(moments.buffer(), parts.buffer(), context.stream()), context,
         {moments, parts});
    Tensor merged = context.empty(moments.shape(), moments.dtype());
    context.run(cpu::merge_moments, cu::merge_moments, parts.buffer(), merged.buffer());
    return merged;
  }

  void sum(Context& context, const Tensor& sums) override {
    const ScopedLabel labelled(*group_, kLabel);
    wait(group_->all_reduce(sums.buffer(), ReduceOp::kSum, context.stream()), context, {sums});
  }

 private:
  // Says whom these operations wait for: a rank in evaluation makes none of them.
  static constexpr const char* kLabel = "batch norm in training mode";

  // If it fails, the operation may still run; its operands go back to the pool when it has ended.
  void wait(const Work& work, Context& context, std::initializer_list<Tensor> operands) {
    try {
      work.wait(context.stream());
    } catch (...) {
      for (const Tensor& operand : operands) (void)group_->release(operand.buffer());
      throw;
    }
  }

  std::shared_ptr<ProcessGroup> group_;
};

void refuse_data_parallel(Module& module) {
  for (const Module* each : module.modules()) {
    if (dynamic_cast<const DataParallel*>(each) == nullptr) continue;
    throw std::invalid_argument(
        "[nn] convert_sync_batchnorm: the module has a DataParallel, whose replicas would go on "
        "with the statistics of their own pieces: give each device a process of its own, with "
        "DistributedModule");
  }
}

}  // namespace

std::size_t convert_sync_batchnorm(Module& module, ProcessGroup& group) {
  refuse_data_parallel(module);
  std::vector<BatchNorm*> batch_norms;
  for (Module* each : module.modules()) {
    if (auto* batch_norm = dynamic_cast<BatchNorm*>(each)) batch_norms.push_back(batch_norm);
  }
  if (batch_norms.empty()) return 0;  // without a group of their own
  std::shared_ptr<StatisticsReducer> reducer;
  if (group.world_size() > 1) reducer = std::make_shared<GroupReducer>(group.duplicate());
  for (BatchNorm* each : batch_norms) each->set_statistics_reducer(reducer);
  return batch_norms.size();
}

}  // namespace ddp::nn
