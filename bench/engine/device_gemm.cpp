// SPDX-License-Identifier: MIT
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/gemm.h"
#include "ddp/nn/context.h"
#include "engine/device_parts.h"
#include "support/random_tensor.h"
#include "support/simulated_collective.h"
#include "support/statistics.h"

namespace ddp::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 8192;
constexpr int kProducts = 3;            // in one timing
constexpr auto kCollectiveTime = 30ms;  // several times as long as the products
constexpr auto kHeadStart = 1ms;
constexpr std::size_t kOperandBytes = std::size_t{256} << 20;
constexpr unsigned kBlocks[] = {4, 16, 24};

// Large bfloat16 matrix products on one stream, with a collective on another.
class Subject {
 public:
  // Microseconds of a product without a collective.
  double alone() {
    begin_.record(context_.stream());
    multiply();
    end_.synchronize();
    return microseconds();
  }

  // Microseconds of a product that runs at the same time as a collective. The collective is
  // launched first and so gets its multiprocessors; after the products, it would find none free.
  double beside(unsigned blocks) {
    launch_simulated_collective(operand_.buffer(), kCollectiveTime, blocks, side_.view());
    collective_end_.record(side_.view());
    std::this_thread::sleep_for(kHeadStart);
    begin_.record(context_.stream());
    multiply();
    collective_end_.synchronize();
    end_.synchronize();
    if (collective_end_.milliseconds_since(end_) <= 0) {
      throw std::runtime_error("the simulated collective ended before the products beside it");
    }
    return microseconds();
  }

 private:
  void multiply() {
    for (int i = 0; i < kProducts; ++i) {
      context_.gemm(a_.buffer(), b_.buffer(), c_.buffer(), {kSize, kSize, kSize}, {});
    }
    end_.record(context_.stream());
  }
  double microseconds() const {
    return 1e3 * static_cast<double>(end_.milliseconds_since(begin_)) / kProducts;
  }

  Device device_ = cuda_device(0);
  nn::Context context_{device_};
  cu::OwnedStream side_{device_, cu::StreamPriority::kGreatest};
  nn::Tensor a_ = random_tensor(context_, {kSize, kSize}, DType::kBFloat16);
  nn::Tensor b_ = random_tensor(context_, {kSize, kSize}, DType::kBFloat16);
  nn::Tensor c_ = context_.empty({kSize, kSize}, DType::kBFloat16);
  nn::Tensor operand_ = random_tensor(context_, {kOperandBytes / 4}, DType::kFloat32);
  cu::Event begin_{device_, cu::EventTiming::kEnabled};
  cu::Event end_{device_, cu::EventTiming::kEnabled};
  cu::Event collective_end_{device_, cu::EventTiming::kEnabled};
};

}  // namespace

void measure_gemm_beside(int rounds) {
  const auto subject = std::make_shared<Subject>();
  std::vector<Variant> variants = {{"", [=] { return subject->alone(); }}};
  for (const unsigned blocks : kBlocks) {
    variants.push_back({"", [=] { return subject->beside(blocks); }});
  }
  interleave(variants, rounds);
  const Labels labels = {{"dtype", "bfloat16"}, {"size", static_cast<double>(kSize)}};
  print_figure({"GEMM alone", "us", labels}, variants[0].samples);
  for (std::size_t i = 0; i < std::size(kBlocks); ++i) {
    print_figure({"GEMM beside a collective over alone", "ratio",
                  labels + Labels{{"blocks", 1.0 * kBlocks[i]}}},
                 ratio(variants[i + 1].samples, variants[0].samples), variants[0].samples.size());
  }
}

}  // namespace ddp::bench
