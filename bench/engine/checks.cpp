// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/ddp.h"
#include "ddp/store/hash_store.h"
#include "engine/parts.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"
#include "support/training.h"

namespace ddp::bench {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kBatch = 64;

void step(Training& training, ProcessGroup&) { training.step(); }

void step_unless_over(Training& training, ProcessGroup&) {
  if (!training.step_unless_over(kBatch)) throw std::logic_error("no rank ran out of data");
}

// A step as under PyTorch's join(): each rank says by an additional collective that it continues.
void step_beside_all_reduce(Training& training, ProcessGroup& group) {
  std::int32_t active = 1;
  const Work work = group.all_reduce({&active, 1, DType::kInt32, kCpuDevice});
  training.step();
  work.wait();
}

struct Check {
  const char* name;
  DdpOptions options;
  void (*step)(Training&, ProcessGroup&) = bench::step;
};

std::vector<Check> checks() {
  DdpOptions none{.nominal_samples = kBatch, .fingerprint_every = 0};
  std::vector<Check> all = {{"none", none},
                            {"none again", none},
                            {"uneven inputs", none, step_unless_over},
                            {"by an all_reduce", none, step_beside_all_reduce}};
  const auto add = [&](const char* name, auto change) {
    all.push_back({name, none});
    change(all.back().options);
  };
  add("unused = kZero", [](DdpOptions& o) { o.unused = UnusedParameters::kZero; });
  add("non_finite = kSkip", [](DdpOptions& o) { o.non_finite = NonFinite::kSkip; });
  add("and scan_gradients", [](DdpOptions& o) {
    o.non_finite = NonFinite::kSkip;
    o.scan_gradients = true;
  });
  add("fingerprint_every = 1", [](DdpOptions& o) { o.fingerprint_every = 1; });
  add("record_times", [](DdpOptions& o) { o.record_times = true; });
  return all;
}

// All ranks take the same steps in the same order. Returns this rank's times.
std::vector<Variant> measure_rank(const std::string& model, int rank,
                                  const std::shared_ptr<Store>& store, int rounds) {
  const auto group = init_process_group({.backend = Backend::kShm,
                                         .device = DeviceChoice::kCpu,
                                         .rank = rank,
                                         .world_size = kRanks,
                                         .store = store,
                                         .ranks_are_threads = true});
  std::vector<std::unique_ptr<Training>> trainings;
  std::vector<Variant> variants;
  for (const Check& check : checks()) {
    trainings.push_back(std::make_unique<Training>(Workload{.model = model, .batch = kBatch}, group,
                                                   check.options));
    const auto run = [&training = *trainings.back(), &group = *group, step = check.step] {
      return duration_of<std::chrono::milliseconds>([&] { step(training, group); });
    };
    variants.push_back({check.name, run});
  }
  interleave(variants, rounds);
  return variants;
}

void measure(const Table& table, const std::string& model, int rounds) {
  const auto store = std::make_shared<HashStore>();
  std::thread other([&] { (void)measure_rank(model, 1, store, rounds); });
  const std::vector<Variant> variants = measure_rank(model, 0, store, rounds);
  other.join();
  for (const Variant& variant : variants) {
    const Summary time = summarize(variant.samples);
    const Summary cost = ratio(variant.samples, variants[0].samples);
    table.print_row({model, variant.name, fmt::format("{:.3f}", time.median),
                     fmt::format("{:.4f}", cost.median),
                     fmt::format("{:.0f}%", cost.spread_percent())});
  }
}

}  // namespace

void measure_checks(int rounds) {
  fmt::print(
      "\n# A step with one check over a step without any; {} ranks as threads over shm, batch {}, "
      "float32, medians of {} interleaved steps. Promised: uneven inputs and kZero 1.01, a "
      "fingerprint in 100 steps 1.001\n",
      kRanks, kBatch, rounds);
  const Table table({{"model", 7}, {"check", 22}, {"step, ms", 9}, {"ratio", 8}, {"spread", 7}});
  table.print_titles();
  for (const char* model : {"mlp", "lenet5"}) measure(table, model, rounds);
}

}  // namespace ddp::bench
