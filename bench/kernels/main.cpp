// SPDX-License-Identifier: MIT
//
// Measures how fast each kernel of a device is. A kernel that moves bytes is compared with a copy
// inside the device's memory, a product with a large matrix product of the same type, both measured
// in the same run. Prints one figure per line.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "kernels/work.h"
#include "support/command_line.h"
#include "support/device.h"
#include "support/figure.h"
#include "support/program.h"

namespace {

using namespace ddp::bench;

struct Options {
  std::string device = "cuda";
  std::size_t mebielements = 128;
  int samples = 20;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  CommandLine line("bench_kernels", "Each kernel's time, over that of a copy or a large product");
  line.add("device", "cuda or cpu", options.device);
  line.add("mebielements", "size of a large operand: several times a cache", options.mebielements);
  line.add("samples", "repeats", options.samples);
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

// Copies with the device's own copy, not with a kernel of ours.
void copy_bytes(const ddp::Buffer& from, const ddp::Buffer& to, ddp::Stream stream) {
  if (from.device.is_cuda()) {
    ddp::cu::copy_async(to.data, from.data, from.size_bytes(), stream);
  } else {
    std::memcpy(to.data, from.data, from.size_bytes());
  }
}

class KernelBench {
 public:
  explicit KernelBench(const Options& options)
      : bench_(device_named(options.device), options.mebielements << 20),
        samples_(options.samples),
        calls_(bench_.context.device().is_cuda() ? 5 : 1) {}

  void run() {
    measure_copy();
    for (const auto& kernels : {buffer_kernels(), pointwise_kernels(), loss_kernels(),
                                image_kernels(), transformer_kernels(), optimizer_kernels()}) {
      for (const MakeWork& make : kernels) measure_traffic(make(bench_));
    }
    for (const ddp::DType dtype : {ddp::DType::kFloat32, ddp::DType::kBFloat16}) {
      measure_large_product(dtype);
    }
    for (const MakeWork& make : product_kernels()) measure_product(make);
  }

 private:
  std::vector<double> microseconds(const std::function<void()>& call, int calls) {
    return microseconds_on(bench_.context.device(), bench_.context.stream(), call,
                           {.samples = samples_, .calls = calls});
  }

  void measure_copy() {
    const ddp::nn::Tensor from = bench_.large(), to = bench_.large();
    const double bytes = 2.0 * static_cast<double>(from.buffer().size_bytes());
    const std::vector<double> times = microseconds(
        [&] { copy_bytes(from.buffer(), to.buffer(), bench_.context.stream()); }, calls_);
    copied_bytes_per_us_ = bytes / summarize(times).median;
    print_figure({"copy within the device", "us", {{"gb_per_s", 1e-3 * copied_bytes_per_us_}}},
                 times);
  }

  void measure_traffic(const Work& work) {
    const std::vector<double> times = microseconds(work.run, calls_);
    const double bytes_per_us = work.bytes() / summarize(times).median;
    print_figure({work.kernel, "us",
                  labels_of(work) + Labels{{"gb_per_s", 1e-3 * bytes_per_us},
                                           {"of_copy", bytes_per_us / copied_bytes_per_us_}}},
                 times);
  }

  void measure_large_product(ddp::DType dtype) {
    const Work work = large_product(bench_, dtype);
    const std::vector<double> times = microseconds(work.run, 1);
    flops_per_us_[dtype] = work.flops / summarize(times).median;
    print_figure(
        {work.kernel, "us", labels_of(work) + Labels{{"tflop_per_s", 1e-6 * flops_per_us_[dtype]}}},
        times);
  }

  // Several instances of a kernel, each on operands of its own. Together these are as large as a
  // large operand, so an instance finds none of its operands in a cache when its turn comes again.
  std::vector<Work> turns_of(const MakeWork& make) {
    const double large_bytes = 2.0 * static_cast<double>(bench_.elements);  // elements of 16 bits
    std::vector<Work> turns = {make(bench_)};
    while (static_cast<double>(turns.size()) * turns[0].bytes() < large_bytes) {
      turns.push_back(make(bench_));
    }
    return turns;
  }

  void measure_product(const MakeWork& make) {
    const std::vector<Work> turns = turns_of(make);
    const Work& work = turns[0];
    std::size_t next = 0;
    const auto take_turn = [&] { turns[next++ % turns.size()].run(); };
    const int calls = std::max(calls_, static_cast<int>(turns.size()));
    const std::vector<double> times = microseconds(take_turn, calls);
    const double flops_per_us = work.flops / summarize(times).median;
    print_figure(
        {work.kernel, "us",
         labels_of(work) + Labels{{"tflop_per_s", 1e-6 * flops_per_us},
                                  {"of_large_gemm", flops_per_us / flops_per_us_.at(work.dtype)}}},
        times);
  }

  static Labels labels_of(const Work& work) {
    return {{"dtype", std::string(to_string(work.dtype))}};
  }

  Workbench bench_;
  int samples_;
  int calls_;  // calls in one timing, so that launches weigh little
  double copied_bytes_per_us_ = 0;
  std::map<ddp::DType, double> flops_per_us_;  // of the large product, by dtype
};

}  // namespace

int main(int argc, char** argv) {
  return run_program("bench_kernels", [&] {
    if (const auto options = parse(argc, argv)) KernelBench(*options).run();
  });
}
