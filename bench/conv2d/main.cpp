// SPDX-License-Identifier: MIT
//
// Measures convolutions on the CPU: for each layer, the chosen algorithm and those that it is
// chosen from.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/system/cpu_count.h"
#include "ddp/kernels/conv2d.h"
#include "support/blas.h"
#include "support/command_line.h"
#include "support/pinning.h"
#include "support/program.h"
#include "support/report.h"
#include "support/statistics.h"

namespace {

using namespace ddp::bench;
using ddp::buffer_of;
using ddp::Conv2dShape;
using ddp::cpu::Conv2dBackend;

struct Options {
  int rounds = 30;
  std::size_t batch = 16;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_conv2d", "Microseconds of convolutions, CPU, float32");
  line.add("rounds", "interleaved repeats", options.rounds);
  line.add("batch-size", "samples", options.batch);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

struct Layer {
  std::string name;
  Conv2dShape shape;  // the batch size comes from an option
};

// One layer of each kind in resnet18 and in a U-Net of 32 channels, for images of 64 x 64.
const std::vector<Layer> kLayers{
    {"lenet5 conv1", {0, 1, 6, {28, 28}, {5, 5}, {1, 1}, {2, 2}}},
    {"lenet5 conv2", {0, 6, 16, {14, 14}, {5, 5}}},
    {"resnet18 conv1", {0, 3, 64, {64, 64}, {7, 7}, {2, 2}, {3, 3}}},
    {"resnet18 layer1", {0, 64, 64, {16, 16}, {3, 3}, {1, 1}, {1, 1}}},
    {"resnet18 layer2.0", {0, 64, 128, {16, 16}, {3, 3}, {2, 2}, {1, 1}}},
    {"resnet18 layer2 1x1", {0, 64, 128, {16, 16}, {1, 1}, {2, 2}}},
    {"resnet18 layer3", {0, 256, 256, {4, 4}, {3, 3}, {1, 1}, {1, 1}}},
    {"resnet18 layer4", {0, 512, 512, {2, 2}, {3, 3}, {1, 1}, {1, 1}}},
    {"unet down1", {0, 32, 32, {64, 64}, {3, 3}, {1, 1}, {1, 1}}},
    {"unet up1", {0, 64, 32, {64, 64}, {3, 3}, {1, 1}, {1, 1}}},
    {"unet out", {0, 32, 1, {64, 64}, {1, 1}}},
    {"depthwise", {0, 128, 128, {16, 16}, {3, 3}, {1, 1}, {1, 1}, 128}},
};

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

struct Rival {
  std::string name;
  std::unique_ptr<Conv2dBackend> backend;
};

// The chosen algorithm, then the candidates. In a build without oneDNN, its column is left out.
std::vector<Rival> make_rivals() {
  std::vector<Rival> rivals;
  rivals.push_back({"chosen", ddp::cpu::make_conv2d()});
  rivals.push_back({"loops", ddp::cpu::make_loop_conv2d()});
  rivals.push_back({"columns", ddp::cpu::make_column_conv2d()});
  if (auto onednn = ddp::cpu::make_onednn_conv2d()) {
    rivals.push_back({"oneDNN", std::move(onednn)});
  }
  return rivals;
}

Table make_table(const std::vector<Rival>& rivals) {
  std::vector<Table::Column> columns{{"operation", 31}};
  for (const Rival& rival : rivals) {
    columns.push_back({rival.name, 8});
    columns.push_back({"+-", 4});
  }
  return Table(std::move(columns));
}

void compare(const Table& table, const std::string& name, int rounds,
             const std::vector<Rival>& rivals, const std::function<void(Conv2dBackend&)>& run) {
  std::vector<Variant> variants;
  for (const Rival& rival : rivals) {
    variants.push_back({rival.name, [&run, &rival] {
                          return duration_of<std::chrono::microseconds>(
                              [&] { run(*rival.backend); });
                        }});
  }
  interleave(variants, rounds);
  std::vector<std::string> row{name};
  for (const Variant& variant : variants) {
    const Summary time = summarize(variant.samples);
    row.push_back(fmt::format("{:.0f}", time.median));
    row.push_back(fmt::format("{:.0f}%", time.spread_percent()));
  }
  table.print_row(row);
}

void run_layer(const Table& table, const Layer& layer, const Options& options,
               const std::vector<Rival>& rivals) {
  Conv2dShape shape = layer.shape;
  shape.batch = options.batch;
  Operands o(shape);
  const ddp::Buffer x = buffer_of(o.x), weight = buffer_of(o.weight), y = buffer_of(o.y);
  compare(table, layer.name + " forward", options.rounds, rivals, [&](Conv2dBackend& backend) {
    ddp::cpu::conv2d_forward(x, weight, buffer_of(o.bias), y, shape, backend);
  });
  compare(table, layer.name + " grad_weight", options.rounds, rivals, [&](Conv2dBackend& backend) {
    ddp::cpu::conv2d_grad_weight(x, y, {weight}, shape, backend);
  });
  compare(table, layer.name + " grad_input", options.rounds, rivals, [&](Conv2dBackend& backend) {
    ddp::cpu::conv2d_grad_input(weight, y, {x}, shape, backend);
  });
}

void run(const Options& options) {
  const Pinned pinned(ddp::affinity_cpus().front());
  std::puts(header_line("bench_conv2d").c_str());
  fmt::print("# Batch {}, float32, one thread, microseconds; medians of {} interleaved samples\n",
             options.batch, options.rounds);
  const std::vector<Rival> rivals = make_rivals();
  const Table table = make_table(rivals);
  table.print_titles();
  for (const Layer& layer : kLayers) run_layer(table, layer, options, rivals);
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::bench::run_program("bench_conv2d", [&] {
    use_one_blas_thread(argv);
    if (const auto options = parse(argc, argv)) run(*options);
  });
}
