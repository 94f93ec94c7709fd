// SPDX-License-Identifier: MIT
#include "trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/io/atomic_file.h"
#include "ddp/io/host_copy.h"
#include "ddp/io/safetensors.h"
#include "ddp/io/sha256.h"
#include "ddp/nn/named_buffers.h"
#include "factories.h"

namespace train {
namespace {

using Seconds = std::chrono::duration<double>;

// Fails at the start, rather than after hours of training, if the file cannot be written.
void check_can_save(const std::filesystem::path& file) {
  try {
    const ddp::AtomicFile probe(file);  // removed at once, and `file` is as it was
  } catch (const ddp::FileError&) {
    std::throw_with_nested(ddp::FileError("--save " + file.string()));
  }
}

// Before anything else that ranks do together, where other flags or data would be harder to
// recognise.
JobDescription same_on_all_ranks(const Options& options, const Task& task,
                                 ddp::ProcessGroup& group) {
  JobDescription job = options.describe(group.world_size(), task);
  check_same_on_all_ranks(job, group);
  if (group.world_size() == 1 && !options.checkpoints.any()) return job;
  const DataFingerprints data = fingerprints_of(task, options.dataset, options.dtype);
  check_same_data_on_all_ranks(data, options.dataset, group);
  // Augmented samples are other ones, but not other data.
  const std::string train = options.dataset.is_augmented ? "augmented_data" : "train_data";
  job.settings[train + "_fingerprint"] = data.train;
  job.settings["test_data_fingerprint"] = data.test;
  return job;
}

}  // namespace

Trainer::Trainer(const Options& options, std::shared_ptr<ddp::ProcessGroup> group)
    : options_(options),
      group_(std::move(group)),
      step_batch_(options.global_batch(group_->world_size())),
      task_(make_task(options.dataset, options.label_smoothing)),
      job_(same_on_all_ranks(options, *task_, *group_)),
      sampler_(make_sampler(options, *group_, task_->train_set().size())),
      loader_(task_->train_set(), loader_options(options, *task_, *group_)),
      learner_(options_, *task_, group_),
      evaluator_(options_, *task_, *group_, learner_.context()) {
  if (options.checkpoints.any()) resume();
  if (options.traces.any()) {
    trace_.emplace(*group_, engine().layout(), options.traces, job_name());
  }
  if (!is_main()) return;
  if (!options.save.empty()) check_can_save(options.save);
  journal_.emplace(JournalOptions{.metrics = options.metrics,
                                  .log_dir = options.log_dir,
                                  .log_every = options.log_every,
                                  .appends = resumed_.has_value(),
                                  .score_name = std::string(task_->objective().score_name())});
}

void Trainer::run() {
  if (is_main()) announce();
  const std::int64_t first = resumed_ ? resumed_->position.epoch : 0;
  const bool is_between_epochs = resumed_ && first > 0 && resumed_->position.consumed == 0;
  // The job that saved this checkpoint was asked to stop, and ended before it evaluated the epoch.
  if (is_between_epochs && !resumed_->evaluation) {
    evaluate_epoch(static_cast<int>(first) - 1, *resumed_);
  }
  const bool is_trained = steps_left() <= 0 || first >= options_.epochs;
  if (is_trained && !is_asked_to_stop_) {
    if (!result_) evaluate();
    if (result_ && is_main()) journal_->untrained(*result_);
  }
  for (std::int64_t epoch = first; epoch < options_.epochs && goes_on(); ++epoch) {
    train_epoch(static_cast<int>(epoch));
    // After a signal there may be little time left.
    is_asked_to_stop_ ? result_.reset() : evaluate_epoch(static_cast<int>(epoch), state());
  }
  if (checkpoints_) checkpoints_->finish();
  if (trace_) trace_->finish();
  if (!is_main()) return;
  if (goes_on() && options_.max_steps > 0) {
    journal_->say(
        fmt::format("--epochs {} ended the training after {} step{}, before --max-steps {}",
                    options_.epochs, steps_done_, steps_done_ == 1 ? "" : "s", options_.max_steps));
  }
  report(stdout);
  finish();
  tell_incomplete_files();
}

void Trainer::evaluate_epoch(int epoch, TrainingState reached) {
  evaluate();
  const std::int64_t consumed = reached.position.consumed;
  if (!result_) {
    // The next job evaluates it. At --max-steps it has been saved.
    if (consumed == 0 && steps_left() > 0) save_before_stop(reached);
    return;
  }
  std::string where = fmt::format("epoch {}/{}", epoch + 1, options_.epochs);
  check_loss(result_->loss, fmt::format("[train] {}: the test loss", where));
  if (consumed == 0) {
    step_plateau(result_->loss);
    reached.evaluation = result_;
    if (checkpoints_) checkpoints_->save(reached);
  } else {  // the epoch was broken off, and its checkpoint has been saved
    where += fmt::format(", step {}/{}", consumed / step_batch_, epoch_steps());
  }
  if (!is_main()) return;
  journal_->epoch(epoch, where, steps_done_, *result_);
}

void Trainer::evaluate() {
  result_ = evaluator_.evaluate(learner_.model(), signals_);
  if (result_) return;
  is_asked_to_stop_ = true;
  tell_stop();
}

void Trainer::tell_stop() {
  if (is_main()) journal_->say(fmt::format("asked to stop: the last step is {}", steps_done_));
}

void Trainer::step_plateau(double loss) {
  const std::optional<double> lowered = learner_.step_plateau(loss);
  if (!lowered || !is_main()) return;
  journal_->say(
      fmt::format("the test loss no longer falls: learning rate {} from here on", *lowered));
}

void Trainer::resume() {
  checkpoints_.emplace(options_.checkpoints, *group_, learner_.checkpoint_tensors(), job_,
                       stream());
  resumed_ = checkpoints_->resume();
  if (!resumed_) return;
  steps_done_ = resumed_->step;
  engine().continue_after(steps_done_);
  sampler_->seek(resumed_->position);
}

void Trainer::announce() {
  journal_->begin();
  if (trace_) trace_->begin();
  journal_->say(fmt::format("{}, {} training samples", job_name(), task_->train_set().size()));
  if (options_.epochs - options_.warmup_epochs == 1 &&
      options_.lr_schedule != ddp::nn::LrScheduleKind::kConstant) {
    journal_->say(
        fmt::format("--lr-schedule {} changes the rate by epoch: in a single one (after "
                    "the warm-up) it stays as it is",
                    to_string(options_.lr_schedule)));
  }
  if (!resumed_ && !learner_.init_remark().empty()) journal_->say(learner_.init_remark());
  if (!resumed_) return;
  journal_->say(
      checkpoints_->remark() +
      (options_.init.empty() ? "" : "; --init " + options_.init.string() + " is not used"));
  journal_->resumed(*resumed_);
}

void Trainer::report(std::FILE* stream) {
  if (journal_) journal_->end_line();
  fmt::print(stream, "{}", engine().report());
  std::fflush(stream);
}

std::string Trainer::job_name() const {
  return fmt::format("{} on {} over {}: {}", options_.model, to_string(group_->device()),
                     group_->backend(), options_.ranks_and_batch(group_->world_size()));
}

ddp::EpochPlan Trainer::plan_epoch() {
  ddp::EpochPlan plan = sampler_->next_epoch();
  return options_.drop_last ? std::move(plan).whole_batches() : plan;
}

void Trainer::begin_epoch(int epoch) {
  epoch_ = epoch;
  loader_.start(plan_epoch());
  const bool is_continued = resumed_ && resumed_->position.epoch == epoch;
  steps_skipped_ = is_continued ? resumed_->position.consumed / step_batch_ : 0;
  interval_.begin();
}

void Trainer::train_epoch(int epoch) {
  begin_epoch(epoch);
  for (;;) {
    const auto waited_since = ddp::Clock::now();
    const auto batch = loader_.next(stream());
    if (!batch) return;
    begin_accumulation(*batch);
    train_step(*batch, waited_since);
    interval_.add_samples(batch->global_count);
    if (!learner_.model().is_synchronized()) continue;
    ++steps_done_;
    interval_.add_step();
    if (checkpoints_) checkpoints_->check();
    const bool ends_epoch = batch->step + 1 == loader_.plan().steps();
    const bool logs = options_.log_every > 0 && interval_.steps() >= options_.log_every;
    const bool saves = checkpoints_ && checkpoints_->is_due(steps_done_);
    // What follows waits for the device anyway, and must not save a model that has gone bad. First
    // the group: if it is broken, the loss may mean nothing.
    if (!goes_on() || ends_epoch || logs || saves) {
      engine().wait_host();
      check_last_step();
    }
    if (is_asked_to_stop_) tell_stop();
    if (!goes_on() || ends_epoch || logs) log_step(epoch, *batch);
    if (signals_.take_report_request()) report(stderr);
    if (!goes_on()) return save_before_stop(state());
    if (saves && !ends_epoch) checkpoints_->save(state());
  }
}

TrainingState Trainer::state() const {
  return {.position = loader_.position(), .step = steps_done_};
}

void Trainer::save_before_stop(const TrainingState& reached) {
  if (!checkpoints_ && !is_asked_to_stop_) return;
  const std::filesystem::path file = checkpoints_ ? checkpoints_->save_and_finish(reached) : "";
  if (!is_main()) return;
  journal_->say(file.empty() ? "no checkpoint saved: there is no --checkpoint-dir"
                             : "saved " + file.string());
}

// At the end of an epoch a step may have fewer batches than usual.
void Trainer::begin_accumulation(const ddp::Batch& batch) {
  if (batch.step % options_.accumulate != 0) return;
  const std::int64_t left = loader_.plan().steps() - batch.step;
  learner_.model().accumulate(static_cast<int>(std::min<std::int64_t>(options_.accumulate, left)));
}

// Reads what all ranks have said in the last step. The host waits for that step, but not the device
// for the host if it has the next forward to run meanwhile.
void Trainer::check_last_step() {
  if (!unchecked_) return;
  const Place place = *std::exchange(unchecked_, std::nullopt);
  is_asked_to_stop_ = is_asked_to_stop_ || engine().stop_requested();
  at(place, [this] { check_loss(engine().summary().metrics[kLossSlot].mean(), "the loss"); });
}

// Does something whose errors about numbers should say where they are.
template <class F>
void Trainer::at(const Place& place, const F& work) const {
  try {
    work();
  } catch (const ddp::NonFiniteError&) {
    std::throw_with_nested(
        ddp::NonFiniteError(fmt::format("[train] epoch {}/{}, step {}/{}", place.epoch + 1,
                                        options_.epochs, place.step, place.steps)));
  }
}

void Trainer::check_loss(double loss, const std::string& name) const {
  if (std::isfinite(loss) || !options_.stops_at_bad_loss()) return;
  throw ddp::NonFiniteError(
      fmt::format("{} is {}: try a smaller --lr or --clip-grad-norm; --non-finite stop names the "
                  "first bad gradient and its rank",
                  name, std::isnan(loss) ? "nan" : "infinite"));
}

void Trainer::train_step(const ddp::Batch& batch, ddp::Clock::time_point waited_since) {
  const ddp::Interval data{waited_since, ddp::Clock::now()};
  trace(StepMoment::kForwardBegin);
  const Learner::Pass pass = learner_.forward(batch);
  trace(StepMoment::kForwardEnd);
  check_last_step();
  const Place place{epoch_, epoch_steps(batch), epoch_steps()};
  at(place, [&] {
    ddp::StepOptions step = ddp::step_options(batch);
    step.asks_to_stop = signals_.stop_requested();
    step.data_seconds = Seconds(data.end - data.begin).count();
    learner_.backward(pass, step);
    trace(StepMoment::kOptimizerBegin);
    if (learner_.model().is_synchronized()) learner_.step_optimizer(epoch_, steps_done_);
  });
  if (learner_.model().is_synchronized()) unchecked_ = place;
  trace(StepMoment::kEnd);
  if (trace_) trace_->add(steps_done_ + 1, data, engine().times());
}

void Trainer::trace(StepMoment moment) {
  if (trace_) trace_->take(moment, stream());
}

// Logs the means over the steps since the last line. All ranks call it: reading the totals waits
// for the device.
void Trainer::log_step(int epoch, const ddp::Batch& batch) {
  const ddp::StepSummary totals = learner_.model().take_totals();
  std::vector<double> counts;
  for (std::size_t i = kCountSlots; i < totals.metrics.size(); ++i) {
    counts.push_back(totals.metrics[i].sum);
  }
  const IntervalMeter::Means means = interval_.take(loader_.statistics().wait_seconds);
  if (!is_main()) return;
  const std::int64_t step = epoch_steps(batch);
  journal_->step({.step = steps_done_,
                  .learning_rate = learner_.learning_rate(),
                  .step_ms = means.step_ms,
                  .data_wait_ms = means.data_wait_ms,
                  .progress = {.epoch = epoch,
                               .epochs = options_.epochs,
                               .step = step,
                               .steps = step + std::min(epoch_steps() - step, steps_left()),
                               .skipped = steps_skipped_,
                               .loss = totals.metrics[kLossSlot].mean(),
                               .score = task_->objective().score(counts, totals.samples),
                               .samples_per_second = means.samples_per_second,
                               .elapsed = interval_.epoch_time()}});
}

void Trainer::finish() {
  if (options_.metrics.empty() && options_.save.empty()) return;
  ddp::HostCopy copy;
  copy.take(ddp::nn::named_buffers(learner_.model().state_dict()), stream());
  const std::span<const ddp::NamedBuffer> model = copy.tensors();
  if (!options_.metrics.empty()) {
    journal_->end(result_, steps_done_,
                  ddp::sha256(model.first(learner_.model().parameters().size())));
  }
  if (options_.save.empty()) return;
  ddp::save_safetensors(options_.save, model);
  journal_->say("saved " + options_.save.string());
}

void Trainer::tell_incomplete_files() {
  std::vector<std::filesystem::path> files = journal_->incomplete_files();
  if (trace_) std::ranges::move(trace_->incomplete_files(), std::back_inserter(files));
  std::string names;
  for (const auto& file : files) names += (names.empty() ? "" : ", ") + file.string();
  if (!files.empty()) journal_->say("incomplete, since they could not be written: " + names);
}

}  // namespace train
