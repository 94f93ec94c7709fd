// SPDX-License-Identifier: MIT
#include "engine/subject.h"

#include <string>
#include <thread>
#include <utility>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/memory_pool.h"
#include "support/allocation_counter.h"
#include "support/program.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

template <class F>
double microseconds_of(const F& f) {
  return duration_of<std::chrono::microseconds>(f);
}

std::optional<cu::OwnedStream> stream_on(Device device) {
  if (!device.is_cuda()) return std::nullopt;
  return cu::OwnedStream(device);
}

}  // namespace

HostTimeSubject::HostTimeSubject(std::shared_ptr<ProcessGroup> group,
                                 std::chrono::microseconds pause)
    : pause_(pause),
      stream_(stream_on(group->device())),
      ddp_(group, parameters(group->device()),
           {.buckets = {.bucket_bytes_cap = kBucketBytes}, .fold_scale = true}) {}

HostTimes HostTimeSubject::measure(int rounds) {
  constexpr int kWarmUp = 12;  // NCCL's calls are checked in the first ten steps
  HostTimes warm_up, times;
  for (int round = 0; round < kWarmUp; ++round) {
    step(warm_up);
    // In place of an optimizer, which the engine misses.
    fill({values_[0].data(), 1, DType::kFloat32, ddp_.gradient(0).device}, round + 1,
         stream_ ? stream_->view() : Stream());
  }
  for (int round = 0; round < rounds; ++round) step(times);
  return times;
}

std::vector<Parameter> HostTimeSubject::parameters(Device device) {
  constexpr std::size_t kCount = kParameterBytes / sizeof(float);
  std::vector<Parameter> result;
  for (std::size_t i = 0; i < kParameters; ++i) {
    values_.push_back(nn::allocate(kParameterBytes, device));
    result.push_back({"layer" + std::to_string(i),
                      {static_cast<std::int64_t>(kCount)},
                      {values_.back().data(), kCount, DType::kFloat32, device}});
  }
  return result;
}

void HostTimeSubject::step(HostTimes& times) {
  const Stream stream = stream_ ? stream_->view() : Stream();
  const std::int64_t allocations = test::allocations();
  const double begin_us = microseconds_of([&] { (void)ddp_.begin_step(); });
  double mark_us = 0, launch_us = 0;
  for (const BucketSpec& bucket : ddp_.layout().buckets) {
    mark_us += microseconds_of([&] {
      for (std::size_t i = 0; i + 1 < bucket.parameters.size(); ++i) {
        ddp_.mark_ready(bucket.parameters[i], stream);
      }
    });
    if (pause_ > 0us) std::this_thread::sleep_for(pause_);
    launch_us += microseconds_of([&] { ddp_.mark_ready(bucket.parameters.back(), stream); });
  }
  const double wait_us = microseconds_of([&] { ddp_.wait(stream); });
  (void)ddp_.gradient_scale();  // as an optimizer asks for it; otherwise the engine warns
  const auto buckets = static_cast<double>(ddp_.layout().buckets.size());
  const std::int64_t allocated = test::allocations() - allocations;
  if (stream_) stream_->synchronize();  // otherwise the host runs ahead and blocks later
  times.begin_step.push_back(begin_us);
  times.mark_ready.push_back(mark_us / (kParameters - buckets));
  times.launching.push_back(launch_us / buckets);
  times.wait.push_back(wait_us);
  times.step.push_back(begin_us + mark_us + launch_us + wait_us);
  times.allocations.push_back(allocated);
}

}  // namespace ddp::bench
