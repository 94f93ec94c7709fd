// SPDX-License-Identifier: MIT
//
// Measures all_reduce as nccl-tests does, with the same flags, columns and definitions of
// bandwidth: algbw = size / time, and busbw = algbw * 2 (n - 1) / n, the bandwidth that a link
// carries whatever the number of ranks n.
// https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
#include <fmt/core.h>

#include <cstdio>

#include "all_reduce/checker.h"
#include "all_reduce/compare.h"
#include "all_reduce/options.h"
#include "ddp/cuda/cuda.h"
#include "ddp/ddp.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp;
using namespace ddp::bench;

struct Size {
  Buffer buffer;
  std::vector<double> microseconds = {};  // samples: of a call, averaged over ranks
  std::size_t wrong = 0;                  // elements, summed over ranks
};

// As in nccl-tests, all_reduce is in place, and a sample is the mean of calls that are queued back
// to back. The buffer holds zeros, which stay small however often they are summed.
double sample_microseconds(ProcessGroup& group, const Buffer& buffer,
                           const AllReduceOptions& options) {
  group.barrier().wait_host();
  const auto start = Clock::now();
  Work last;
  for (int i = 0; i < options.iterations; ++i) last = group.all_reduce(buffer, options.op);
  last.wait_host();
  const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
  return elapsed.count() / options.iterations;
}

std::vector<Size> make_sizes(const Buffer& memory, const AllReduceOptions& options) {
  std::vector<Size> sizes;
  for (const std::size_t bytes : options.sizes) {
    sizes.push_back({.buffer = memory.slice(0, bytes / size_of(options.dtype))});
  }
  return sizes;
}

void check_results(ProcessGroup& group, std::vector<Size>& sizes, ReduceOp op) {
  Checker checker(group.device());
  for (Size& size : sizes) {
    checker.fill(size.buffer, group.rank(), op);
    group.all_reduce(size.buffer, op).wait_host();
    size.wrong = checker.count_wrong(size.buffer, group.world_size(), op);
  }
}

void measure(ProcessGroup& group, std::vector<Size>& sizes, const AllReduceOptions& options) {
  std::vector<Variant> variants;
  for (const Size& size : sizes) {
    variants.push_back({"", [&] { return sample_microseconds(group, size.buffer, options); }});
  }
  interleave(variants, options.samples);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i].microseconds = variants[i].samples;
}

// Replaces the figures of this rank by those of all ranks together.
void combine_ranks(ProcessGroup& group, std::vector<Size>& sizes) {
  std::vector<double> figures;
  for (const Size& size : sizes) {
    figures.insert(figures.end(), size.microseconds.begin(), size.microseconds.end());
    figures.push_back(static_cast<double>(size.wrong));
  }
  const Allocation memory = group.allocate(figures.size() * sizeof(double));
  const Buffer device{memory.data(), figures.size(), DType::kFloat64, group.device()};
  const auto move = [&](void* target, const void* source) {
    if (!group.device().is_cuda()) {
      std::copy_n(static_cast<const double*>(source), figures.size(), static_cast<double*>(target));
      return;
    }
    cu::copy_async(target, source, device.size_bytes(), {});
    cu::synchronize({});
  };
  move(device.data, figures.data());
  group.all_reduce(device).wait_host();
  move(figures.data(), device.data);

  auto next = figures.begin();
  for (Size& size : sizes) {
    for (double& microseconds : size.microseconds) microseconds = *next++ / group.world_size();
    size.wrong = static_cast<std::size_t>(*next++);
  }
}

void print(const ProcessGroup& group, const std::vector<Size>& sizes,
           const AllReduceOptions& options) {
  std::puts(header_line("bench_all_reduce").c_str());
  fmt::print(
      "# {} ranks on {}, backend {}; in place; time is a call, the median of {} samples of "
      "{} calls; +- is half the interquartile range\n",
      group.world_size(), to_string(group.device()), group.backend(), options.samples,
      options.iterations);
  const Table table({{"size(B)", 12},
                     {"count", 12},
                     {"type", 8},
                     {"redop", 7},
                     {"time(us)", 10},
                     {"+-", 5},
                     {"algbw(GB/s)", 11},
                     {"busbw(GB/s)", 11},
                     {"#wrong", 6}});
  table.print_titles();
  const double ranks = group.world_size();
  for (const Size& size : sizes) {
    const Summary time = summarize(size.microseconds);
    const auto bytes = size.buffer.size_bytes();
    const double algbw = static_cast<double>(bytes) / time.median / 1e3;
    table.print_row({std::to_string(bytes), std::to_string(size.buffer.count),
                     std::string(to_string(options.dtype)), std::string(to_string(options.op)),
                     fmt::format("{:.1f}", time.median),
                     fmt::format("{:.0f}%", time.spread_percent()), fmt::format("{:.2f}", algbw),
                     fmt::format("{:.2f}", algbw * 2 * (ranks - 1) / ranks),
                     std::to_string(size.wrong)});
  }
}

// Returns the number of wrong elements.
std::size_t run(const AllReduceOptions& options) {
  const auto group = init_process_group({.backend = options.backend});
  const cu::DeviceGuard guard(group->device());
  const std::size_t most = options.sizes.back();
  const Allocation memory = group->allocate(most);
  const Buffer all{memory.data(), most / size_of(options.dtype), options.dtype, group->device()};
  std::vector<Size> sizes = make_sizes(all, options);
  measure(*group, sizes, options);
  check_results(*group, sizes, options.op);
  combine_ranks(*group, sizes);
  if (group->rank() == 0) print(*group, sizes, options);
  std::size_t wrong = 0;
  for (const Size& size : sizes) wrong += size.wrong;
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t wrong = 0;
  const int status = run_program("bench_all_reduce", [&] {
    const auto options = parse_all_reduce_options(argc, argv);
    if (!options) return;
    if (options->compare) return compare(*options);
    wrong = run(*options);
  });
  return wrong > 0 ? 1 : status;
}
