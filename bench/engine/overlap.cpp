// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <vector>

#include "ddp/engine/bucket_layout.h"
#include "engine/overlap_samples.h"
#include "engine/parts.h"
#include "support/report.h"
#include "support/simulated_group.h"
#include "support/simulated_model.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

constexpr ModelShape kShape{.layers = 128, .layer_bytes = 512 << 10, .layer_time = 250us};
constexpr auto kLatency = 20us;

struct NamedBuckets {
  const char* name;
  BucketOptions options;
};

// A link on which reducing these buckets, with the latency of each, takes the fraction `share` of
// the model's backward.
SimulatedLink link_for(double share, const BucketOptions& options) {
  const std::vector<GradientSpec> gradients(kShape.layers,
                                            {kShape.layer_bytes / sizeof(float), DType::kFloat32});
  const BucketLayout layout = lay_out_buckets(gradients, options);
  const auto backward = kShape.layer_time * static_cast<std::int64_t>(kShape.layers);
  const auto latencies = kLatency * static_cast<std::int64_t>(layout.buckets.size());
  const double seconds = share * std::chrono::duration<double>(backward).count() -
                         std::chrono::duration<double>(latencies).count();
  return {.latency = kLatency,
          .bytes_per_second = static_cast<double>(layout.reduced_bytes()) / seconds};
}

std::string with_spread(const std::vector<double>& samples) {
  const Summary summary = summarize(samples);
  return fmt::format("{:.2f} {:3.0f}%", summary.median, summary.spread_percent());
}

BucketOptions equal_buckets(std::size_t buckets) {
  const std::size_t size_bytes = kShape.layers * kShape.layer_bytes / buckets;
  return {.bucket_bytes_cap = size_bytes,
          .first_bucket_bytes_cap = size_bytes,
          .last_bucket_bytes_cap = size_bytes,
          .parts = 1,
          .min_buckets = 1};
}

void measure(const Table& table, double share, const NamedBuckets& buckets, int rounds) {
  SimulatedModel model(make_simulated_group(link_for(share, buckets.options), 2), kShape,
                       {.buckets = buckets.options, .record_times = true});
  OverlapSamples overlap;
  for (int round = 0; round < rounds; ++round) {
    (void)model.run(BackwardKind::kElsewhere, 1);
    overlap.add(model.engine().times());
  }
  table.print_row({fmt::format("{:.0f}%", 100 * share),
                   fmt::format("{}, {}", model.bucket_count(), buckets.name),
                   with_spread(overlap.backward), with_spread(overlap.communication),
                   fmt::format("{:.1f}%", summarize(overlap.hidden).median),
                   with_spread(overlap.exposed), with_spread(overlap.last_bucket)});
}

}  // namespace

void measure_overlap(int rounds) {
  fmt::print(
      "\n# Communication that takes a share of backward's time: {} layers of {} KiB and {} us, "
      "latency {} us; ms, medians of {} steps. Promised: 90 % hidden, the last bucket alone "
      "exposed\n",
      kShape.layers, kShape.layer_bytes >> 10, kShape.layer_time / 1us, kLatency / 1us, rounds);
  const Table table({{"share", 5},
                     {"buckets", 11},
                     {"backward", 11},
                     {"communication", 13},
                     {"hidden", 6},
                     {"exposed", 11},
                     {"last bucket", 11}});
  table.print_titles();
  for (const double share : {0.1, 0.25, 0.5, 0.75, 0.9, 0.95}) {
    for (const NamedBuckets& buckets : {NamedBuckets{"default", {}},
                                        {"equal", equal_buckets(32)},
                                        {"equal", equal_buckets(64)}}) {
      measure(table, share, buckets, rounds);
    }
  }
}

}  // namespace ddp::bench
