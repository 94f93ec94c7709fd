// SPDX-License-Identifier: MIT
//
// The convolutions of lenet5 on the CPU: ours against columns and a matrix product.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cxxopts.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conv2d/columns.h"
#include "support/blas.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp::bench;
using ddp::buffer_of;
using ddp::Conv2dShape;

struct Options {
  int rounds;
  std::size_t batch;
};

std::optional<Options> parse(int argc, char** argv) {
  cxxopts::Options parser("bench_conv2d", "Microseconds of lenet5's convolutions, CPU, float32");
  auto add = parser.add_options();
  add("rounds", "interleaved repeats", cxxopts::value<int>()->default_value("200"));
  add("batch-size", "samples", cxxopts::value<std::size_t>()->default_value("64"));
  const auto given = parse_command_line(std::move(parser), argc, argv);
  if (!given) return std::nullopt;
  const cxxopts::ParseResult& parsed = *given;
  return Options{.rounds = parsed["rounds"].as<int>(),
                 .batch = parsed["batch-size"].as<std::size_t>()};
}

struct Operands {
  explicit Operands(const Conv2dShape& s)
      : shape(s),
        x(s.x_count(), 0.5F),
        weight(s.weight_count(), 0.1F),
        bias(s.out_channels, 0.1F),
        y(s.y_count(), 0.2F) {}

  Conv2dShape shape;
  std::vector<float> x, weight, bias, y;
};

void compare(const Table& table, const std::string& name, int rounds,
             const std::function<void()>& ours, const std::function<void()>& columns) {
  std::vector<Variant> variants{
      {"ours", [&] { return duration_of<std::chrono::microseconds>(ours); }},
      {"columns", [&] { return duration_of<std::chrono::microseconds>(columns); }}};
  interleave(variants, rounds);
  const Summary time = summarize(variants[0].samples), rival = summarize(variants[1].samples);
  const Summary factor = ratio(variants[1].samples, variants[0].samples);
  table.print_row(
      {name, fmt::format("{:.0f}", time.median), fmt::format("{:.0f}%", time.spread_percent()),
       fmt::format("{:.0f}", rival.median), fmt::format("{:.0f}%", rival.spread_percent()),
       fmt::format("{:.2f}", factor.median)});
}

void run_layer(const Table& table, const std::string& layer, const Conv2dShape& shape, int rounds) {
  Operands o(shape);
  ColumnConv2d columns(shape);
  const ddp::Buffer x = buffer_of(o.x), weight = buffer_of(o.weight), y = buffer_of(o.y);
  compare(
      table, layer + " forward", rounds,
      [&] { ddp::cpu::conv2d_forward(x, weight, buffer_of(o.bias), y, shape); },
      [&] { columns.forward(o.x, o.weight, o.bias, o.y); });
  compare(
      table, layer + " grad_weight", rounds,
      [&] { ddp::cpu::conv2d_grad_weight(x, y, {weight}, shape); },
      [&] { columns.grad_weight(o.x, o.y, o.weight); });
  compare(
      table, layer + " grad_input", rounds,
      [&] { ddp::cpu::conv2d_grad_input(weight, y, {x}, shape); },
      [&] { columns.grad_input(o.weight, o.y, o.x); });
}

void run(const Options& options) {
  const Pinned pinned(usable_cpus().front());
  std::puts(header_line("bench_conv2d").c_str());
  fmt::print("# Batch {}, float32, one thread, microseconds; medians of {} interleaved samples\n",
             options.batch, options.rounds);
  const Table table(
      {{"operation", 17}, {"ours", 6}, {"+-", 4}, {"columns", 7}, {"+-", 4}, {"columns/ours", 12}});
  table.print_titles();
  run_layer(table, "conv1", {options.batch, 1, 6, {28, 28}, {5, 5}, {1, 1}, {2, 2}},
            options.rounds);
  run_layer(table, "conv2", {options.batch, 6, 16, {14, 14}, {5, 5}}, options.rounds);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_conv2d", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
