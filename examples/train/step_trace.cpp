// SPDX-License-Identifier: MIT
#include "step_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "ddp/engine/statistics/step_svg.h"

namespace train {
namespace {

constexpr std::size_t kMoments = static_cast<std::size_t>(StepMoment::kEnd) + 1;

double microseconds(ddp::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

std::string clock_remark(ddp::Clock::duration error) {
  if (error == ddp::Clock::duration::zero()) return "has the same clock as rank 0";
  const double ms = std::chrono::duration<double, std::milli>(error).count();
  return fmt::format("on rank 0's clock to within {:.3f} ms", ms);
}

// Padded to equal length for all ranks, because Perfetto sorts processes by name.
std::string name_of(int rank, std::size_t ranks) {
  return fmt::format("rank {:0{}}", rank, std::to_string(ranks - 1).size());
}

ddp::Clock::time_point first_moment(std::span<const ddp::RankStep> ranks) {
  ddp::Clock::time_point first = ranks[0].engine.begin;
  for (const ddp::RankStep& rank : ranks) {
    first = std::min({first, rank.engine.begin, rank.data ? rank.data->begin : first});
  }
  return first;
}

}  // namespace

StepTrace::StepTrace(ddp::ProcessGroup& group, const ddp::BucketLayout& layout,
                     const TraceFiles& files, std::string caption)
    : files_(files), caption_(std::move(caption)), history_(group, layout) {
  for (std::size_t i = 0; i < kMoments; ++i) moments_.emplace_back(group.device());
  if (group.device().is_cuda()) clock_.emplace(group.device());
  if (group.rank() != 0) return;
  if (!files.trace.empty()) writer_.emplace(files.trace);
  if (!files.step_svg.empty()) {
    svg_.emplace("step_svg", files.step_svg, ddp::TextFileMode::kTruncate);
  }
}

void StepTrace::begin() {
  if (writer_) writer_->begin();
  if (svg_) svg_->begin();
}

void StepTrace::take(StepMoment moment, ddp::Stream stream) {
  moments_[static_cast<std::size_t>(moment)].take(stream);
}

void StepTrace::add(std::int64_t step, const ddp::Interval& data, ddp::StepTimes engine) {
  moments_.back().synchronize();
  ddp::RankStep part{.step = step};
  part.data = {advance_to(data.begin), advance_to(data.end)};
  part.forward = {advance_to(StepMoment::kForwardBegin), advance_to(StepMoment::kForwardEnd)};
  engine.begin = advance_to(engine.begin);
  engine.backward_end = advance_to(engine.backward_end);
  engine.end = advance_to(engine.end);
  part.optimizer = {advance_to(StepMoment::kOptimizerBegin), advance_to(StepMoment::kEnd)};
  part.engine = std::move(engine);
  history_.add(part);
}

// The parts of a step come one after the other. Their times may overlap: the host begins a backward
// while the device is still in the forward, and conversions of the device's clock have errors.
ddp::Clock::time_point StepTrace::advance_to(ddp::Clock::time_point time) {
  return last_ = std::max(last_, time);
}

ddp::Clock::time_point StepTrace::advance_to(StepMoment moment) {
  return advance_to(moments_[static_cast<std::size_t>(moment)].time(clock_));
}

void StepTrace::finish() {
  std::size_t until_typical = history_.typical();
  history_.collect([&](std::span<const ddp::RankStep> ranks) {
    if (writer_) write(ranks);
    if (until_typical-- != 0 || !svg_) return;
    svg_->write(ddp::draw_step(
        ranks, fmt::format("a typical step ({}) of a run of {}", ranks[0].step, caption_)));
  });
  if (writer_) writer_->finish();
}

std::vector<std::filesystem::path> StepTrace::incomplete_files() const {
  std::vector<std::filesystem::path> files;
  if (writer_ && writer_->failed()) files.push_back(files_.trace);
  if (svg_ && svg_->failed()) files.push_back(files_.step_svg);
  return files;
}

void StepTrace::write(std::span<const ddp::RankStep> ranks) {
  if (lanes_.empty()) add_lanes(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) write(lanes_[i], ranks[i]);
}

void StepTrace::add_lanes(std::span<const ddp::RankStep> ranks) {
  writer_->start_at(first_moment(ranks));
  for (const ddp::RankStep& rank : ranks) {
    writer_->add_process(rank.rank, name_of(rank.rank, ranks.size()),
                         rank.rank == 0 ? "" : clock_remark(history_.clock_error(rank.rank)));
    lanes_.push_back({.training = writer_->add_lane(rank.rank, "training"),
                      .reductions = writer_->add_lane(rank.rank, "all_reduce")});
  }
}

void StepTrace::write(const Lanes& lanes, const ddp::RankStep& step) {
  const ddp::StepTimes& engine = step.engine;
  const auto span = [&](const char* name, const std::optional<ddp::Interval>& interval) {
    if (interval) writer_->span(lanes.training, name, *interval, {{"step", step.step}});
  };
  span("data", step.data);
  span("forward", step.forward);
  span("backward", ddp::Interval{engine.begin, engine.backward_end});
  span("wait for reductions", ddp::Interval{engine.backward_end, engine.end});
  span("optimizer", step.optimizer);
  for (std::size_t b = 0; b < engine.buckets.size(); ++b) {
    const ddp::StepTimes::Bucket& bucket = engine.buckets[b];
    if (!bucket.reduction) continue;  // a world of one
    writer_->span(lanes.reductions, fmt::format("bucket {}", b), *bucket.reduction,
                  {{"step", step.step},
                   {"bytes", static_cast<std::int64_t>(bucket.size_bytes)},
                   {"queued_us", microseconds(bucket.reduction->begin - bucket.ready)},
                   {"hidden", bucket.reduction->end <= engine.backward_end}});
  }
}

}  // namespace train
