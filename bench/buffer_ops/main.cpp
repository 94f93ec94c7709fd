// SPDX-License-Identifier: MIT
//
// Compares the loops of the CPU's collectives with memcpy, which moves as many bytes between the
// same operands, to show how much of the memory's bandwidth they reach.
#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "buffer_ops/experiments.h"
#include "ddp/base/allocation.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/buffer_ops/loops.h"
#include "support/command_line.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp::bench;
using ddp::Buffer;
using ddp::DType;
using ddp::ReduceOp;
using ddp::buffer_ops::Loops;

constexpr std::size_t kKiB = 1024, kMiB = kKiB * kKiB, kPage = 4 * kKiB;

std::optional<int> parse_rounds(int argc, char** argv) {
  int rounds = 15;
  CommandLine line("bench_buffer_ops", "Loops over operands in memory beside memcpy");
  line.add("rounds", "interleaved repeats", rounds);
  return line.parse(argc, argv) ? std::optional(rounds) : std::nullopt;
}

struct Shape {
  std::size_t terms;
  std::size_t targets;  // if as many as terms, the terms themselves

  [[nodiscard]] bool in_place() const { return terms == targets; }
  [[nodiscard]] std::size_t operands() const { return in_place() ? terms : terms + targets; }
  [[nodiscard]] std::string name() const {
    return fmt::format("{} to {}{}", terms, targets, in_place() ? " in place" : "");
  }
};

constexpr Shape kShapes[] = {{2, 2}, {4, 4}, {8, 8}, {64, 64}, {2, 1}, {4, 1}};
constexpr std::size_t kSizes[] = {512 * kKiB, 8 * kMiB, 200 * kMiB};  // total size of all operands
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Consecutive operands, each on pages of its own.
class Operands {
 public:
  Operands(DType dtype, const Shape& shape, std::size_t size_bytes)
      : each_bytes_(size_bytes / shape.operands() / kPage * kPage),
        memory_(ddp::allocate_host(each_bytes_ * shape.operands())) {
    std::memset(memory_.data(), 0, each_bytes_ * shape.operands());
    for (std::size_t i = 0; i < shape.operands(); ++i) {
      all_.push_back({at(i), each_bytes_ / size_of(dtype), dtype, ddp::kCpuDevice});
    }
    terms.assign(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(shape.terms));
    targets.assign(all_.end() - static_cast<std::ptrdiff_t>(shape.targets), all_.end());
  }

  // Reads and writes in all as many bytes as a reduction does, or one operand less.
  void copy_around() const {
    for (std::size_t i = 0; i < copies(); ++i) {
      std::memcpy(at((i + 1) % all_.size()), at(i % all_.size()), each_bytes_);
    }
  }
  // The factor that corrects the time of copy_around() for the operand that it may leave out.
  [[nodiscard]] double missing_copies() const {
    return static_cast<double>(terms.size() + targets.size()) / 2 / static_cast<double>(copies());
  }

  std::vector<Buffer> terms;
  std::vector<Buffer> targets;

 private:
  [[nodiscard]] std::byte* at(std::size_t i) const {
    return static_cast<std::byte*>(memory_.data()) + i * each_bytes_;
  }
  [[nodiscard]] std::size_t copies() const { return (terms.size() + targets.size()) / 2; }

  std::size_t each_bytes_;
  ddp::Allocation memory_;
  std::vector<Buffer> all_;
};

// Microseconds of 1 + 16 MiB / size_bytes calls of f.
template <class F>
double time_of(std::size_t size_bytes, const F& f) {
  const std::size_t calls = 1 + 64 * kMiB / size_bytes / 4;
  return duration_of<std::chrono::microseconds>([&] {
    for (std::size_t i = 0; i < calls; ++i) f();
  });
}

// The ratio of the two times, as text.
std::string share(const Variant& slower, const Variant& faster) {
  const Summary summary = ratio(slower.samples, faster.samples);
  return fmt::format("{:.2f} +-{:2.0f}%", summary.median, summary.spread_percent());
}

void measure(const Table& table, DType dtype, const Shape& shape, std::size_t size_bytes,
             int rounds) {
  const Operands operands(dtype, shape, size_bytes);
  const auto reduce_with = [&](const Loops& loops) {
    return time_of(size_bytes, [&] {
      loops.reduce_of(dtype, ReduceOp::kSum)(
          {operands.terms.data(), shape.terms, operands.targets.data(), shape.targets, 1.0});
    });
  };
  const auto copy = [&] {
    return time_of(size_bytes, [&] { operands.copy_around(); }) * operands.missing_copies();
  };
  const Loops* avx2 = ddp::buffer_ops::avx2_loops();
  std::vector<Variant> variants{
      {"memcpy", copy},
      {"baseline", [&] { return reduce_with(ddp::buffer_ops::baseline_loops()); }}};
  if (avx2 != nullptr) variants.push_back({"AVX2", [&] { return reduce_with(*avx2); }});
  interleave(variants, rounds);
  table.print_row({std::string(to_string(dtype)), shape.name(),
                   fmt::format("{} KiB", size_bytes / kKiB), share(variants[0], variants[1]),
                   avx2 != nullptr ? share(variants[0], variants[2]) : "-"});
}

// Compares the plain loop with the others.
void measure_experiments(const Table& table, const Shape& shape, std::size_t size_bytes,
                         int rounds) {
  const Operands operands(DType::kFloat32, shape, size_bytes);
  const auto floats = [](const Buffer& buffer) { return static_cast<float*>(buffer.data); };
  float* const targets[2] = {floats(operands.targets[0]),
                             shape.targets == 2 ? floats(operands.targets[1]) : nullptr};
  const std::size_t count = operands.terms[0].count;
  std::vector<Variant> variants;
  for (const SumLoop& loop : sum_loops()) {
    variants.push_back({loop.name, [&operands, &targets, floats, loop, count, size_bytes] {
                          return time_of(size_bytes, [&] {
                            loop.run(floats(operands.terms[0]), floats(operands.terms[1]), targets,
                                     count);
                          });
                        }});
  }
  interleave(variants, rounds);
  for (std::size_t i = 1; i < variants.size(); ++i) {
    table.print_row({variants[i].name, shape.name(), fmt::format("{} KiB", size_bytes / kKiB),
                     share(variants[0], variants[i])});
  }
}

// Measures the nanoseconds of a whole call, with its checks, on a buffer of a few elements.
void measure_small_call(const Table& table, std::size_t terms, std::size_t count, int rounds) {
  constexpr int kCalls = 100000;
  const Operands operands(DType::kFloat32, {terms, terms}, terms * kPage);
  std::vector<Buffer> buffers;
  for (const Buffer& term : operands.terms) buffers.push_back(term.slice(0, count));
  std::vector<Variant> variants{{"call", [&] {
                                   return duration_of<std::chrono::nanoseconds>([&] {
                                            for (int i = 0; i < kCalls; ++i) {
                                              ddp::cpu::reduce_terms(buffers, buffers,
                                                                     ReduceOp::kSum, 1);
                                            }
                                          }) /
                                          kCalls;
                                 }}};
  interleave(variants, rounds);
  const Summary time = summarize(variants[0].samples);
  table.print_row({fmt::format("{} in place", terms), std::to_string(count),
                   fmt::format("{:.0f}", time.median),
                   fmt::format("{:.0f}%", time.spread_percent())});
}

void run(int rounds) {
  const Pinned pinned(ddp::affinity_cpus().front());
  std::puts(header_line("bench_buffer_ops").c_str());
  fmt::print("# reduce_terms, sum, one thread; medians of {} interleaved samples\n", rounds);
  std::puts("# Time of memcpy, moving as many bytes in the same memory, over the loops' time");
  const Table shares({{"dtype", 8}, {"terms", 14}, {"in all", 11}, {"baseline", 10}, {"AVX2", 10}});
  shares.print_titles();
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : kShapes) {
      for (const std::size_t size : kSizes) measure(shares, dtype, shape, size, rounds);
    }
  }
  std::puts(
      "# What the loops do without: a plain loop's time over the time of one with it, float32");
  const Table experiments({{"with", 14}, {"terms", 14}, {"in all", 11}, {"ratio", 10}});
  experiments.print_titles();
  for (const Shape& shape : {Shape{2, 2}, Shape{2, 1}}) {
    for (const std::size_t size : kSizes) measure_experiments(experiments, shape, size, rounds);
  }
  std::puts("# Small calls, float32");
  const Table calls({{"terms", 14}, {"elements", 8}, {"ns", 6}, {"+-", 4}});
  calls.print_titles();
  for (const std::size_t terms : {2U, 4U, 8U}) {
    for (const std::size_t count : {16U, 256U}) measure_small_call(calls, terms, count, rounds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("bench_buffer_ops", [&] {
    if (const auto rounds = parse_rounds(argc, argv)) run(*rounds);
  });
}
