// SPDX-License-Identifier: MIT
#include "trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"
#include "ddp/data/fashion_mnist.h"
#include "ddp/io/atomic_file.h"
#include "ddp/io/host_copy.h"
#include "ddp/io/safetensors.h"
#include "ddp/io/sha256.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/samplers/distributed_sampler.h"
#include "ddp/samplers/exact_sampler.h"
#include "named_buffers.h"

namespace train {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kLoss = 0;
constexpr std::size_t kAccuracy = 1;
constexpr std::int64_t kEvaluationBatch = 1000;  // of all ranks together

std::unique_ptr<ddp::Sampler> make_sampler(const Options& options, const ddp::ProcessGroup& group,
                                           std::int64_t dataset_size, std::int64_t global_batch) {
  if (options.sampler == SamplerKind::kExact) {
    return std::make_unique<ddp::ExactSampler>(
        ddp::ExactSamplerOptions{.dataset_size = dataset_size,
                                 .world_size = group.world_size(),
                                 .rank = group.rank(),
                                 .global_batch_size = global_batch,
                                 .seed = options.seed});
  }
  if (global_batch % group.world_size() != 0) {
    throw std::invalid_argument(fmt::format(
        "--sampler torch cannot cut a global batch of {} over {} ranks; --sampler exact can",
        global_batch, group.world_size()));
  }
  return std::make_unique<ddp::DistributedSampler>(
      ddp::DistributedSamplerOptions{.dataset_size = dataset_size,
                                     .world_size = group.world_size(),
                                     .rank = group.rank(),
                                     .batch_size = global_batch / group.world_size(),
                                     .seed = options.seed});
}

ddp::DdpOptions engine_options(const Options& options, std::int64_t global_batch,
                               const ddp::ProcessGroup& group) {
  ddp::DdpOptions result;
  result.nominal_samples = static_cast<double>(global_batch) / group.world_size();
  // On the CPU it costs next to nothing, and the report then tells the bandwidth.
  result.record_times = options.traces.any() || !group.device().is_cuda();
  result.buckets.bucket_bytes_cap = static_cast<std::size_t>(options.bucket_cap_mb * (1 << 20));
  return result;
}

// Hours of training should not end at a place where nothing can be written.
void check_can_save(const std::filesystem::path& file) {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) {
    throw ddp::FileError(fmt::format("--save {}: is not a regular file", file.string()));
  }
  const ddp::AtomicFile probe(file);  // gone again without having been there
}

// The batch as nn sees it: rows of features, and labels.
ddp::nn::Tensor inputs_of(const ddp::Batch& batch, const ddp::Dataset& dataset) {
  const auto rows = static_cast<std::size_t>(batch.count);
  std::size_t features = 1;
  for (const std::int64_t extent : dataset.input_shape()) {
    features *= static_cast<std::size_t>(extent);
  }
  return ddp::nn::Tensor::view(batch.inputs, {rows, features});
}

ddp::nn::Tensor labels_of(const ddp::Batch& batch) {
  return ddp::nn::Tensor::view(batch.labels, {batch.labels.count});
}

}  // namespace

Trainer::Trainer(const Options& options, std::shared_ptr<ddp::ProcessGroup> group)
    : options_(options),
      group_(std::move(group)),
      context_(group_->device()),
      global_batch_(options.global_batch(group_->world_size())),
      train_set_(ddp::load_fashion_mnist(ddp::DataSplit::kTrain, options.data_dir)),
      test_set_(ddp::load_fashion_mnist(ddp::DataSplit::kTest, options.data_dir)),
      sampler_(make_sampler(options, *group_, train_set_.size(), global_batch_)),
      loader_(train_set_, loader_options()),
      module_(ddp::nn::make_model(options.model, {context_, options.dtype, options.seed})),
      model_(*module_, context_, group_, engine_options(options, global_batch_, *group_)),
      optimizer_(context_, module_->parameters(),
                 {.learning_rate = options.learning_rate,
                  .momentum = options.momentum,
                  .weight_decay = options.weight_decay}),
      tape_(context_) {
  if (options.checkpoints.any()) resume();
  if (options.traces.any()) {
    trace_.emplace(*group_, model_.engine().layout(), options.traces, job_name());
  }
  if (!is_main()) return;
  if (!options.save.empty()) check_can_save(options.save);
  if (!options.metrics.empty()) {
    metrics_.emplace(options.metrics,
                     resumed_ ? ddp::TextFileMode::kAppend : ddp::TextFileMode::kTruncate);
  }
  if (!options.log_dir.empty()) summaries_.emplace(options.log_dir);
  progress_.emplace(ddp::ProgressOptions{.style = ddp::progress_style_of_stdout(),
                                         .log_every = options.log_every},
                    [](std::string_view text) {
                      std::fwrite(text.data(), 1, text.size(), stdout);
                      std::fflush(stdout);
                    });
}

void Trainer::run() {
  if (is_main()) announce();
  Evaluation result;
  const std::int64_t first = resumed_ ? resumed_->position.epoch : 0;
  bool more = has_steps_left();
  if (!more || first >= options_.epochs) result = evaluate();  // nothing is left to train
  for (std::int64_t epoch = first; epoch < options_.epochs && more; ++epoch) {
    more = train_epoch(static_cast<int>(epoch));
    result = evaluate();
    save_epoch(result);
    if (is_main()) report_epoch(epoch, result);
  }
  if (checkpoints_) checkpoints_->finish();
  if (trace_) trace_->finish();
  if (!is_main()) return;
  report(stdout);
  finish(result);
}

void Trainer::resume() {
  std::vector<ddp::NamedBuffer> tensors = named_buffers(module_->state_dict());
  std::ranges::move(named_buffers(optimizer_.state(), "optimizer."), std::back_inserter(tensors));
  checkpoints_.emplace(options_.checkpoints, *group_, std::move(tensors),
                       options_.describe(group_->world_size(), train_set_.size()),
                       context_.stream());
  resumed_ = checkpoints_->resume();
  if (!resumed_) return;
  steps_done_ = resumed_->step;
  sampler_->seek(resumed_->position);
}

void Trainer::announce() {
  fmt::print("{}, {} training samples\n", job_name(), train_set_.size());
  if (!resumed_) return;
  fmt::print("{}\n", checkpoints_->remark());
  std::fflush(stdout);
  if (metrics_) {
    metrics_->write("resume", {{"epoch", resumed_->position.epoch}, {"step", resumed_->step}});
  }
}

void Trainer::report_epoch(std::int64_t epoch, const Evaluation& result) {
  progress_->end_line();
  fmt::print("epoch {}/{}: test accuracy {:.2f} %, test loss {:.4f}\n", epoch + 1, options_.epochs,
             100 * result.accuracy, result.loss);
  std::fflush(stdout);
  if (summaries_) {
    summaries_->add_scalar("Loss/test", result.loss, steps_done_);
    summaries_->add_scalar("Accuracy/test", result.accuracy, steps_done_);
  }
  if (!metrics_) return;
  metrics_->write(
      "epoch", {{"epoch", epoch}, {"test_accuracy", result.accuracy}, {"test_loss", result.loss}});
}

void Trainer::report(std::FILE* stream) {
  fmt::print(stream, "{}", model_.engine().report());
  std::fflush(stream);
}

std::string Trainer::job_name() const {
  const int ranks = group_->world_size();
  const std::string accumulated =
      options_.accumulate == 1 ? "" : fmt::format(", {} of them a step", options_.accumulate);
  return fmt::format("{} on {} over {}: {} rank{}, global batch {}{}", options_.model,
                     to_string(group_->device()), group_->backend(), ranks, ranks == 1 ? "" : "s",
                     global_batch_, accumulated);
}

void Trainer::begin_epoch(int epoch) {
  optimizer_.set_learning_rate(ddp::nn::learning_rate({.kind = options_.lr_schedule,
                                                       .base = options_.learning_rate,
                                                       .epochs = options_.epochs,
                                                       .warmup_epochs = options_.warmup_epochs},
                                                      epoch));
  loader_.start(sampler_->next_epoch());
  const bool is_continued = resumed_ && resumed_->position.epoch == epoch;
  steps_skipped_ = is_continued ? resumed_->position.consumed / global_batch_ : 0;
  epoch_begin_ = interval_begin_ = ddp::Clock::now();
  interval_samples_ = interval_steps_ = interval_batches_ = 0;
  interval_wait_ = 0;
}

bool Trainer::train_epoch(int epoch) {
  begin_epoch(epoch);
  for (;;) {
    const auto waited_since = ddp::Clock::now();
    const auto batch = loader_.next(context_.stream());
    if (!batch) return true;
    begin_accumulation(*batch);
    train_step(*batch, waited_since);
    interval_samples_ += batch->global_count;
    ++interval_batches_;
    if (!model_.engine().is_synchronized()) continue;
    ++steps_done_;
    ++interval_steps_;
    const bool stops = model_.engine().stop_requested();
    if (stops && is_main()) {
      progress_->end_line();
      fmt::print("asked to stop: the last step is {}\n", steps_done_);
    }
    const bool last = stops || !has_steps_left();
    const bool ends = last || batch->step + 1 == loader_.plan().steps();
    if (ends || (options_.log_every > 0 && interval_batches_ >= options_.log_every)) {
      log_step(epoch, *batch);
    }
    if (signals_.take_report_request()) report(stderr);
    if (last) {
      save_before_stop();
      return false;
    }
    if (!ends && checkpoints_ && checkpoints_->is_due(steps_done_)) checkpoints_->save(state());
  }
}

TrainingState Trainer::state() const {
  return {.position = loader_.position(), .step = steps_done_};
}

void Trainer::save_before_stop() {
  if (!checkpoints_) return;
  checkpoints_->save(state());
  const std::filesystem::path file = checkpoints_->finish();
  if (is_main()) fmt::print("saved {}\n", file.string());
}

// Of an epoch that has broken off there is a checkpoint already.
void Trainer::save_epoch(const Evaluation& result) {
  TrainingState reached = state();
  if (!checkpoints_ || reached.position.consumed != 0) return;
  reached.evaluation = result;
  checkpoints_->save(reached);
}

// At the end of an epoch a step may have fewer batches than others.
void Trainer::begin_accumulation(const ddp::Batch& batch) {
  if (batch.step % options_.accumulate != 0) return;
  const std::int64_t left = loader_.plan().steps() - batch.step;
  model_.engine().accumulate(static_cast<int>(std::min<std::int64_t>(options_.accumulate, left)));
}

void Trainer::train_step(const ddp::Batch& batch, ddp::Clock::time_point waited_since) {
  HostTimes times{.begin = waited_since, .data_end = ddp::Clock::now()};
  const auto n = static_cast<double>(batch.count);
  const ddp::nn::Tensor labels = labels_of(batch);
  const ddp::nn::Variable logits = model_.forward(tape_, inputs_of(batch, train_set_));
  const ddp::nn::Variable loss = ddp::nn::softmax_cross_entropy(tape_, logits, labels);
  const ddp::nn::Tensor correct = ddp::nn::count_correct(context_, logits.value(), labels);
  const std::array<ddp::nn::StepMetric, 2> metrics = {
      {{loss.value(), n}, {correct, 1}}};  // in the order of kLoss, kAccuracy
  times.forward_end = ddp::Clock::now();
  model_.backward(tape_, loss,
                  {.samples = n,
                   .asks_to_stop = signals_.stop_requested(),
                   .data_seconds = Seconds(times.data_end - times.begin).count()},
                  metrics);
  times.backward_end = ddp::Clock::now();
  if (model_.engine().is_synchronized()) model_.step(optimizer_);
  times.end = ddp::Clock::now();
  if (trace_) trace_->add(steps_done_ + 1, times, model_.engine().times());
}

// Means over the steps since the last line. All ranks come here: reading the totals is what waits
// for the device.
void Trainer::log_step(int epoch, const ddp::Batch& batch) {
  const ddp::StepSummary totals = model_.engine().take_totals();
  const double loss = totals.metrics[kLoss].mean();
  const double accuracy = totals.metrics[kAccuracy].sum / totals.samples;
  const auto now = ddp::Clock::now();
  const double seconds = Seconds(now - interval_begin_).count();
  const double samples_per_second = static_cast<double>(interval_samples_) / seconds;
  const double step_ms = 1000 * seconds / static_cast<double>(interval_steps_);
  const double waited = loader_.statistics().wait_seconds;
  const double data_wait_ms =
      1000 * (waited - interval_wait_) / static_cast<double>(interval_steps_);
  interval_begin_ = now;
  interval_wait_ = waited;
  interval_samples_ = interval_steps_ = interval_batches_ = 0;
  if (!is_main()) return;
  progress_->update({.epoch = epoch,
                     .epochs = options_.epochs,
                     .step = steps_skipped_ + batch.step + 1,
                     .steps = steps_skipped_ + loader_.plan().steps(),
                     .skipped = steps_skipped_,
                     .loss = loss,
                     .accuracy = accuracy,
                     .samples_per_second = samples_per_second,
                     .elapsed = now - epoch_begin_});
  if (summaries_) {
    summaries_->add_scalar("Loss/train", loss, steps_done_);
    summaries_->add_scalar("Accuracy/train", accuracy, steps_done_);
    summaries_->add_scalar("learning_rate", optimizer_.learning_rate(), steps_done_);
    summaries_->add_scalar("samples_per_second", samples_per_second, steps_done_);
  }
  if (!metrics_) return;
  metrics_->write("step", {{"epoch", std::int64_t{epoch}},
                           {"step", steps_done_},
                           {"loss", loss},
                           {"accuracy", accuracy},
                           {"samples_per_second", samples_per_second},
                           {"step_ms", step_ms},
                           {"data_wait_ms", data_wait_ms}});
}

Evaluation Trainer::evaluate() {
  model_.engine().broadcast_buffers(context_.stream());
  const ddp::ExactSampler sampler({.dataset_size = test_set_.size(),
                                   .world_size = group_->world_size(),
                                   .rank = group_->rank(),
                                   .global_batch_size = kEvaluationBatch,
                                   .shuffle = false});
  ddp::DataLoader loader(test_set_, loader_options());
  loader.start(sampler.plan({}));
  ddp::nn::Tape tape(context_, ddp::nn::Recording::kOff);
  std::array<double, 2> sums{};  // loss, correct
  while (const auto batch = loader.next(context_.stream())) {
    if (batch->count == 0) continue;
    const ddp::nn::Tensor labels = labels_of(*batch);
    const ddp::nn::Variable logits = module_->forward(tape, inputs_of(*batch, test_set_));
    const ddp::nn::Variable loss = ddp::nn::softmax_cross_entropy(tape, logits, labels);
    const ddp::nn::Tensor correct = ddp::nn::count_correct(context_, logits.value(), labels);
    sums[kLoss] += ddp::item(loss.buffer(), context_.stream()) * static_cast<double>(batch->count);
    sums[kAccuracy] += ddp::item(correct.buffer(), context_.stream());
  }
  ddp::all_reduce_on_host(*group_, sums);
  const auto samples = static_cast<double>(test_set_.size());
  return {.loss = sums[kLoss] / samples, .accuracy = sums[kAccuracy] / samples};
}

void Trainer::finish(const Evaluation& result) {
  ddp::HostCopy copy;
  copy.take(named_buffers(module_->state_dict()), context_.stream());
  const std::span<const ddp::NamedBuffer> model = copy.tensors();
  if (metrics_) {
    metrics_->write("final",
                    {{"test_accuracy", result.accuracy},
                     {"test_loss", result.loss},
                     {"params_sha256", ddp::sha256(model.first(module_->parameters().size()))}});
  }
  if (options_.save.empty()) return;
  ddp::save_safetensors(options_.save, model);
  fmt::print("saved {}\n", options_.save.string());
}

ddp::DataLoaderOptions Trainer::loader_options() const {
  return {.dtype = options_.dtype, .device = group_->device(), .num_workers = options_.num_workers};
}

}  // namespace train
