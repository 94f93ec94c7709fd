// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/parts.h"
#include "support/report.h"
#include "support/simulated_group.h"
#include "support/simulated_model.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

constexpr ModelShape kShape{.layers = 256, .layer_bytes = 256 << 10, .layer_time = 200us};
constexpr std::size_t kCapsKib[] = {256, 512, 1024, 2048, 4096, 8192, 16384, 25600, 65536};
constexpr double kPromisedPercent = 5;

struct NamedLink {
  const char* name;
  SimulatedLink link;
};

constexpr NamedLink kLinks[] = {
    {"NVLink, 150 GB/s, 20 us", {.latency = 20us, .bytes_per_second = 150e9}},
    {"100 Gbit/s, 10 GB/s, 50 us", {.latency = 50us, .bytes_per_second = 10e9}},
    {"25 Gbit/s, 2.5 GB/s, 100 us", {.latency = 100us, .bytes_per_second = 2.5e9}},
    {"10 Gbit/s, 1 GB/s, 100 us", {.latency = 100us, .bytes_per_second = 1e9}},
};

BucketOptions buckets_of(std::size_t cap) {
  const BucketOptions defaults;
  return {.bucket_bytes_cap = cap,
          .first_bucket_bytes_cap = std::min(cap, defaults.first_bucket_bytes_cap),
          .last_bucket_bytes_cap = std::min(cap, defaults.last_bucket_bytes_cap),
          .parts = 1,
          .min_buckets = 1};
}

std::string name_of(const std::string& cap, std::size_t buckets) {
  return fmt::format("{} ({})", cap, buckets);
}

Variant variant(const SimulatedLink& link, const std::string& cap, const BucketOptions& buckets) {
  const auto model = std::make_shared<SimulatedModel>(make_simulated_group(link, 2), kShape,
                                                      DdpOptions{.buckets = buckets});
  return {name_of(cap, model->bucket_count()),
          [model] { return model->run(BackwardKind::kElsewhere, 1).milliseconds; }};
}

void measure(const NamedLink& named, int rounds) {
  std::vector<Variant> variants;
  for (const std::size_t kib : kCapsKib) {
    variants.push_back(variant(named.link, std::to_string(kib), buckets_of(kib << 10)));
  }
  variants.push_back(variant(named.link, "default", {}));
  interleave(variants, rounds);
  const auto median = [](const Variant& each) { return summarize(each.samples).median; };
  const auto best =
      std::min_element(variants.begin(), variants.end() - 1,
                       [&](const Variant& a, const Variant& b) { return median(a) < median(b); });
  fmt::print("{}\n", named.name);
  const Table table(
      {{"cap, KiB (buckets)", 18}, {"step, ms", 8}, {"+-", 4}, {"over the best", 13}});
  table.print_titles();
  for (const Variant& each : variants) {
    const Summary time = summarize(each.samples);
    table.print_row({each.name, fmt::format("{:.2f}", time.median),
                     fmt::format("{:.0f}%", time.spread_percent()),
                     fmt::format("{:+.1f}%", 100 * (time.median / median(*best) - 1))});
  }
}

}  // namespace

void measure_bucket_sizes(int rounds) {
  fmt::print(
      "\n# Step time by bucket size on simulated links: {} layers of {} KiB and {} us of backward; "
      "medians of {} interleaved steps. Promised: the default within {} % of the best\n",
      kShape.layers, kShape.layer_bytes >> 10, kShape.layer_time / 1us, rounds, kPromisedPercent);
  for (const NamedLink& link : kLinks) measure(link, rounds);
}

}  // namespace ddp::bench
