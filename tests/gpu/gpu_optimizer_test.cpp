// SPDX-License-Identifier: MIT
//
// The CUDA twins of the kernels that take many tensors at once, against the CPU ones: more tensors
// than fit into a launch, of no element, one, a chunk and one more, and many.
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "ddp/kernels/adam.h"
#include "ddp/kernels/grad_norm.h"
#include "ddp/kernels/sgd.h"
#include "gpu/twin.h"

namespace {

using ddp::Buffer;
using ddp::test::kTolerance;
using ddp::test::Twin;

constexpr std::size_t kSizes[] = {0, 1, 4096, 4097, 1009, 100'003};
constexpr std::size_t kTensors = 300;

template <class T>
std::vector<Twin<T>> twins(unsigned seed, bool is_positive = false) {
  std::vector<Twin<T>> twins;
  for (std::size_t k = 0; k < kTensors; ++k) {
    std::vector<T> values(kSizes[k < 12 ? k % 6 : k % 3]);  // large ones among the first
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = static_cast<double>((seed + 31 * k + 17 * i) % 101) / 50 - 1;
      values[i] = static_cast<T>(is_positive ? 1 + value : value);
    }
    twins.emplace_back(std::move(values));
  }
  return twins;
}

template <class T>
void check_equal(const std::vector<Twin<T>>& all) {
  for (const Twin<T>& each : all) each.check_equal(kTolerance<T>);
}

const double* pointer(bool is_scaled, const Buffer& scale) {
  return is_scaled ? static_cast<const double*>(scale.data) : nullptr;
}

}  // namespace

TEMPLATE_TEST_CASE("cu::sgd_step equals cpu::sgd_step", "[gpu][optim]", float, double) {
  using T = TestType;
  const double momentum = GENERATE(0.0, 0.9);
  const bool is_scaled = GENERATE(false, true);
  auto value = twins<T>(1), grad = twins<T>(2), velocity = twins<T>(3);
  Twin<double> scale(std::vector<double>{0.25});
  const ddp::SgdStep step{0.1, momentum, 0.01, momentum > 0 && is_scaled};
  std::vector<ddp::SgdTensor> cpu, cuda;
  for (std::size_t k = 0; k < kTensors; ++k) {
    const std::size_t moved = momentum == 0 ? 0 : value[k].cpu().count;
    cpu.push_back({value[k].cpu(), grad[k].cpu(), velocity[k].cpu().slice(0, moved)});
    cuda.push_back({value[k].cuda(), grad[k].cuda(), velocity[k].cuda().slice(0, moved)});
  }
  ddp::cpu::sgd_step(cpu, step, pointer(is_scaled, scale.cpu()));
  ddp::cu::sgd_step(cuda, step, pointer(is_scaled, scale.cuda()), {});
  check_equal(value);
  check_equal(velocity);
}

TEMPLATE_TEST_CASE("cu::adam_step equals cpu::adam_step", "[gpu][optim]", float, double) {
  using T = TestType;
  const auto decay = GENERATE(ddp::WeightDecay::kL2, ddp::WeightDecay::kDecoupled);
  const bool is_scaled = GENERATE(false, true);
  auto value = twins<T>(1), grad = twins<T>(2), average = twins<T>(3), square = twins<T>(4, true);
  Twin<double> scale(std::vector<double>{0.25});
  const ddp::AdamStep step{.learning_rate = 0.01, .weight_decay = 0.1, .decay = decay};
  std::vector<ddp::AdamTensor> cpu, cuda;
  for (std::size_t k = 0; k < kTensors; ++k) {
    const auto t = static_cast<std::int64_t>(1 + k % 9);
    cpu.push_back({value[k].cpu(), grad[k].cpu(), average[k].cpu(), square[k].cpu(), t});
    cuda.push_back({value[k].cuda(), grad[k].cuda(), average[k].cuda(), square[k].cuda(), t});
  }
  ddp::cpu::adam_step(cpu, step, pointer(is_scaled, scale.cpu()));
  ddp::cu::adam_step(cuda, step, pointer(is_scaled, scale.cuda()), {});
  check_equal(value);
  check_equal(average);
  check_equal(square);
}

TEMPLATE_TEST_CASE("cu::clip_grad_norm equals cpu::clip_grad_norm", "[gpu][optim]", float, double) {
  using T = TestType;
  const double max_norm = GENERATE(1.0, 1e6);
  const bool is_scaled = GENERATE(false, true);
  auto grad = twins<T>(2);
  Twin<double> scale(std::vector<double>{0.25});
  std::vector<Buffer> cpu, cuda;
  for (auto& each : grad) {
    cpu.push_back(each.cpu());
    cuda.push_back(each.cuda());
  }
  auto norm = Twin<double>::poison(1), factor = Twin<double>::poison(1);
  auto partials = Twin<double>::poison(ddp::grad_norm_partials(cpu));
  ddp::cpu::clip_grad_norm(cpu, max_norm, pointer(is_scaled, scale.cpu()),
                           {norm.cpu(), factor.cpu(), partials.cpu()});
  ddp::cu::clip_grad_norm(cuda, max_norm, pointer(is_scaled, scale.cuda()),
                          {norm.cuda(), factor.cuda(), partials.cuda()}, {});
  partials.check_equal(1e-13);
  norm.check_equal(1e-13);
  factor.check_equal(1e-13);
}
