// SPDX-License-Identifier: MIT
#include "step_trace.h"

#include <fmt/core.h>

namespace train {

StepTrace::StepTrace(const std::filesystem::path& path, int rank)
    : writer_(path, rank, fmt::format("rank {}", rank)),
      training_(writer_.add_lane("training")),
      reductions_(writer_.add_lane("all_reduce")) {}

void StepTrace::add(std::int64_t step, const HostTimes& host, const ddp::StepTimes& engine) {
  const auto span = [&](const char* name, ddp::Clock::time_point begin,
                        ddp::Clock::time_point end) {
    writer_.span(training_, name, {begin, end}, {{"step", step}});
  };
  span("data", host.begin, host.data_end);
  span("forward", host.data_end, host.forward_end);
  span("backward", engine.begin, engine.backward_end);
  span("wait for reductions", engine.backward_end, engine.end);
  span("optimizer", host.backward_end, host.end);
  for (std::size_t b = 0; b < engine.buckets.size(); ++b) {
    const ddp::StepTimes::Bucket& bucket = engine.buckets[b];
    if (!bucket.reduction) continue;  // a world of one
    writer_.span(reductions_, fmt::format("bucket {}", b), *bucket.reduction,
                 {{"step", step},
                  {"bytes", static_cast<std::int64_t>(bucket.size_bytes)},
                  {"hidden", bucket.reduction->end <= engine.backward_end}});
  }
}

}  // namespace train
