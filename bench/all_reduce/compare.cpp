// SPDX-License-Identifier: MIT
//
// Rank 0 decides what is measured next. While one contender is measured, nothing else may use a
// CPU. The other ranks therefore sleep in the store until rank 0 names a contender in which they
// take part. Open MPI's ranks sleep until a line arrives on a pipe.
#include "all_reduce/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "all_reduce/comparison_table.h"
#include "all_reduce/contenders.h"
#include "all_reduce/open_mpi.h"
#include "ddp/base/error.h"
#include "ddp/store/prefix_store.h"
#include "support/report.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

constexpr double kSampleMicroseconds = 4000;
constexpr int kMaxCalls = 4096;
constexpr Timeout kPatience = std::chrono::minutes(10);  // rank 0 measures Open MPI meanwhile

// What all ranks do next. 0 calls: a check of the result.
struct Task {
  std::size_t contender;
  std::size_t bytes;
  int calls;
};

// Tasks that rank 0 gives to the other ranks, one at a time: the next one follows when all ranks
// have finished this one.
class TaskQueue {
 public:
  // Collective.
  explicit TaskQueue(ProcessGroup& group)
      : store_(group.fresh_name("tasks"), group.store().clone()) {}

  void push(const Task& task) {
    push_text(fmt::format("{} {} {}", task.contender, task.bytes, task.calls));
  }
  void push_end() { push_text(""); }

  // The next task, or nothing at the end.
  [[nodiscard]] std::optional<Task> pop() {
    std::istringstream text(store_.get(std::to_string(++last_), kPatience));
    Task task{};
    if (text >> task.contender >> task.bytes >> task.calls) return task;
    return std::nullopt;
  }

 private:
  void push_text(const std::string& text) {
    if (last_ > 0) store_.delete_key(std::to_string(last_));
    store_.set(std::to_string(++last_), text);
  }

  PrefixStore store_;
  std::int64_t last_ = 0;
};

double take_part(const Contenders& contenders, const Task& task) {
  const Contender& contender = contenders.all().at(task.contender);
  if (task.calls > 0) return microseconds(contender, task.bytes, task.calls);
  check(contender, task.bytes, contenders.group());
  return 0;
}

// The number of calls for which a sample takes long enough. `sample` makes a number of calls and
// returns the microseconds of one. The shortest of three samples counts, since the first calls
// touch memory for the first time.
template <class Sample>
int calls_in_sample(const Sample& sample) {
  for (int calls = 1;; calls *= 4) {
    const double call = std::min({sample(calls), sample(calls), sample(calls)});
    if (call * calls < kSampleMicroseconds / 4 && calls < kMaxCalls) continue;
    return static_cast<int>(std::clamp(kSampleMicroseconds / call, 1.0, double{kMaxCalls}));
  }
}

template <class Sample>
Variant variant_of(const std::string& name, const Sample& sample) {
  return {name, [sample, calls = calls_in_sample(sample)] { return sample(calls); }};
}

std::vector<Variant> measure(const Contenders& contenders, TaskQueue& tasks, OpenMpi* open_mpi,
                             std::size_t bytes, int rounds) {
  std::vector<Variant> variants;
  for (std::size_t i = 0; i < contenders.all().size(); ++i) {
    const auto run = [&contenders, &tasks, i, bytes](int calls) {
      const Task task{.contender = i, .bytes = bytes, .calls = calls};
      tasks.push(task);
      return take_part(contenders, task);
    };
    run(0);
    variants.push_back(variant_of(contenders.all()[i].name, run));
  }
  if (open_mpi != nullptr) {
    variants.push_back(variant_of(
        "OpenMPI", [open_mpi, bytes](int calls) { return open_mpi->microseconds(bytes, calls); }));
  }
  interleave(variants, rounds);
  return variants;
}

std::unique_ptr<OpenMpi> start_open_mpi(int ranks, std::size_t max_bytes) {
  try {
    auto open_mpi = std::make_unique<OpenMpi>(ranks, max_bytes);
    fmt::print("# OpenMPI: {}\n", open_mpi->version());
    return open_mpi;
  } catch (const Error& error) {
    fmt::print("# OpenMPI is left out: {}\n", error.what());
    return nullptr;
  }
}

void lead(const Contenders& contenders, TaskQueue& tasks, const AllReduceOptions& options) {
  const int ranks = contenders.group().world_size();
  std::puts(header_line("bench_all_reduce --compare").c_str());
  fmt::print(
      "# {} ranks on cpu; float32 sums in place; a call that is waited for, the median of {} "
      "interleaved samples of about {:.0f} ms; +- is half the interquartile range\n"
      "# bound: ranks that sum in memory that all have mapped, and do nothing else. shm, user: the "
      "shm backend with memory of its allocate(), and with any other\n",
      ranks, options.samples, kSampleMicroseconds / 1000);
  const auto open_mpi = start_open_mpi(ranks, options.sizes.back());
  const Table table = make_comparison_table();
  table.print_titles();
  for (const std::size_t bytes : options.sizes) {
    print_comparison(table, bytes,
                     measure(contenders, tasks, open_mpi.get(), bytes, options.samples));
  }
  tasks.push_end();
}

}  // namespace

void compare(const AllReduceOptions& options) {
  const Contenders contenders(options.sizes.back());
  if (contenders.group().world_size() < 2) {
    throw std::invalid_argument(
        "--compare needs ranks: ddp-launch -n 2 bench_all_reduce --compare");
  }
  TaskQueue tasks(contenders.group());
  if (contenders.group().rank() == 0) return lead(contenders, tasks, options);
  while (const auto task = tasks.pop()) take_part(contenders, *task);
}

}  // namespace ddp::bench
