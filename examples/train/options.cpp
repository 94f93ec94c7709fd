// SPDX-License-Identifier: MIT
#include "options.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddp/nn/amp/autocast.h"

namespace train {
namespace {

std::string non_finite_name(const Options& options) {
  switch (options.non_finite_gradients()) {
    case ddp::NonFinite::kStop:
      return "stop";
    case ddp::NonFinite::kSkip:
      return "skip";
    case ddp::NonFinite::kIgnore:
      break;
  }
  return options.stops_at_bad_loss() ? "stop at the loss" : "ignore";
}

std::string dataset_name(const DatasetChoice& dataset) {
  const std::string kind(to_string(dataset.kind));
  if (dataset.kind != DatasetKind::kText) return kind;
  return fmt::format("{} in samples of {} bytes", kind, dataset.context);
}

}  // namespace

std::int64_t Options::pass_batch(int world_size) const {
  return global_batch_size ? *global_batch_size / accumulate : batch_size.value_or(64) * world_size;
}

std::string Options::ranks_and_batch(int world_size) const {
  const std::string ranks = world_size == 1 ? "1 rank" : fmt::format("{} ranks", world_size);
  const std::int64_t samples = pass_batch(world_size);
  std::string text = fmt::format("{}, global batch {}", ranks, global_batch(world_size));
  if (accumulate == 1) return text;
  if (samples % world_size != 0)
    return text + fmt::format(" = {} passes x {}", accumulate, samples);
  return text + fmt::format(" = {} x {} x {} passes", ranks, samples / world_size, accumulate);
}

ddp::NonFinite Options::non_finite_gradients() const {
  const bool is_scaled = amp == ddp::DType::kFloat16;
  return non_finite.value_or(is_scaled ? ddp::NonFinite::kSkip : ddp::NonFinite::kIgnore);
}

bool Options::stops_at_bad_loss() const {
  const bool is_scaled = amp == ddp::DType::kFloat16;
  return non_finite ? non_finite == ddp::NonFinite::kStop : !is_scaled;
}

double Options::learning_rate(double base, int epoch, std::int64_t step) const {
  const ddp::nn::LrSchedule schedule{
      .kind = lr_schedule, .base = base, .epochs = epochs, .warmup_epochs = warmup_epochs};
  const std::int64_t warmup = std::max<std::int64_t>(warmup_steps, 1);
  return ddp::nn::learning_rate(schedule, epoch) *
         ddp::nn::warmup_factor(
             {.steps = warmup - 1, .start_factor = 1 / static_cast<double>(warmup)}, step);
}

JobDescription Options::describe(int world_size, const Task& task) const {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {.essentials = {{"model", model},
                         {"dataset", dataset_name(dataset)},
                         {"dataset_size", text(task.train_set().size())},
                         {"seed", text(seed)}},
          .settings = {{"ranks", text(world_size)},
                       {"test_set_size", text(task.test_set().size())},
                       {"sampler", sampler == SamplerKind::kExact ? "exact" : "torch"},
                       {"global_batch_size", text(global_batch(world_size))},
                       {"drop_last", text(drop_last)},
                       {"accumulate", text(accumulate)},
                       {"epochs", text(epochs)},
                       {"optimizer", text(to_string(optimizer.kind))},
                       {"lr", text(optimizer.learning_rate)},
                       {"lr_schedule", plateau_patience ? kPlateau : text(to_string(lr_schedule))},
                       {"plateau_patience", plateau_patience ? text(*plateau_patience) : "none"},
                       {"warmup", text(warmup_epochs)},
                       {"warmup_steps", text(warmup_steps)},
                       {"momentum", text(optimizer.momentum)},
                       {"nesterov", text(optimizer.nesterov)},
                       {"weight_decay", text(optimizer.weight_decay)},
                       {"clip_grad_norm", text(max_grad_norm)},
                       {"label_smoothing", text(label_smoothing)},
                       {"sync_bn", text(sync_batch_norm)},
                       {"augment", text(dataset.is_augmented)},
                       {"dtype", text(ddp::to_string(dtype))},
                       {"tf32", text(float32_precision == ddp::Float32Precision::kTf32)},
                       {"amp", text(ddp::nn::amp_name(amp))},
                       {"non_finite", non_finite_name(*this)},
                       {"compress", text(ddp::nn::amp_name(compress))}},
          .conduct = {{"max_steps", text(max_steps)},
                      {"checkpoint_dir_or_resume", text(checkpoints.any())},
                      {"trace_or_step_svg", text(traces.any())}}};
}

}  // namespace train
