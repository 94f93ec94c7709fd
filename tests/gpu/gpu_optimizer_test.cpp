// SPDX-License-Identifier: MIT
//
// Compares the CUDA kernels over many tensors with their CPU twins: more tensors than fit into one
// launch, with no element, one, one chunk, one chunk and one more, and many.
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

// The operands of one kind for all tensors. They are slices of one Twin, so that there is one
// allocation and one upload. Each slice is aligned like an allocation of its own, and is followed
// by elements that no kernel may write.
template <class T>
class Twins {
 public:
  explicit Twins(unsigned seed, bool is_positive = false) : all_(values(seed, is_positive)) {}

  Buffer cpu(std::size_t k) { return slice(all_.cpu(), k); }
  Buffer cuda(std::size_t k) { return slice(all_.cuda(), k); }

  void check_equal() const { all_.check_equal(kTolerance<T>); }

 private:
  static constexpr std::size_t kAlignment = 256 / sizeof(T);  // in elements
  static constexpr double kUntouched = 0.5;

  // The large tensors are among the first.
  static std::size_t size(std::size_t k) { return kSizes[k < 12 ? k % 6 : k % 3]; }
  static std::size_t room(std::size_t k) { return (size(k) / kAlignment + 1) * kAlignment; }

  static std::size_t offset(std::size_t k) {
    std::size_t offset = 0;
    for (std::size_t before = 0; before < k; ++before) offset += room(before);
    return offset;
  }

  static std::vector<T> values(unsigned seed, bool is_positive) {
    std::vector<T> values(offset(kTensors), static_cast<T>(kUntouched));
    for (std::size_t k = 0, first = 0; k < kTensors; first += room(k++)) {
      for (std::size_t i = 0; i < size(k); ++i) {
        const double value = static_cast<double>((seed + 31 * k + 17 * i) % 101) / 50 - 1;
        values[first + i] = static_cast<T>(is_positive ? 1 + value : value);
      }
    }
    return values;
  }

  static Buffer slice(const Buffer& all, std::size_t k) { return all.slice(offset(k), size(k)); }

  Twin<T> all_;
};

const double* pointer(bool is_scaled, const Buffer& scale) {
  return is_scaled ? static_cast<const double*>(scale.data) : nullptr;
}

}  // namespace

TEMPLATE_TEST_CASE("cu::sgd_step equals cpu::sgd_step", "[gpu][optim]", float, double) {
  using T = TestType;
  const double momentum = GENERATE(0.0, 0.9);
  const bool is_scaled = GENERATE(false, true);
  Twins<T> value(1), grad(2), velocity(3);
  Twin<double> scale(std::vector<double>{0.25});
  const ddp::SgdStep step{0.1, momentum, 0.01, momentum > 0 && is_scaled};
  std::vector<ddp::SgdTensor> cpu, cuda;
  for (std::size_t k = 0; k < kTensors; ++k) {
    const std::size_t moved = momentum == 0 ? 0 : value.cpu(k).count;
    cpu.push_back({value.cpu(k), grad.cpu(k), velocity.cpu(k).slice(0, moved)});
    cuda.push_back({value.cuda(k), grad.cuda(k), velocity.cuda(k).slice(0, moved)});
  }
  ddp::cpu::sgd_step(cpu, step, pointer(is_scaled, scale.cpu()));
  ddp::cu::sgd_step(cuda, step, pointer(is_scaled, scale.cuda()), {});
  value.check_equal();
  velocity.check_equal();
}

TEMPLATE_TEST_CASE("cu::adam_step equals cpu::adam_step", "[gpu][optim]", float, double) {
  using T = TestType;
  const auto decay = GENERATE(ddp::WeightDecay::kL2, ddp::WeightDecay::kDecoupled);
  const bool is_scaled = GENERATE(false, true);
  Twins<T> value(1), grad(2), average(3), square(4, true);
  Twin<double> scale(std::vector<double>{0.25});
  const ddp::AdamStep step{.learning_rate = 0.01, .weight_decay = 0.1, .decay = decay};
  std::vector<ddp::AdamTensor> cpu, cuda;
  for (std::size_t k = 0; k < kTensors; ++k) {
    const auto t = static_cast<std::int64_t>(1 + k % 9);
    cpu.push_back({value.cpu(k), grad.cpu(k), average.cpu(k), square.cpu(k), t});
    cuda.push_back({value.cuda(k), grad.cuda(k), average.cuda(k), square.cuda(k), t});
  }
  ddp::cpu::adam_step(cpu, step, pointer(is_scaled, scale.cpu()));
  ddp::cu::adam_step(cuda, step, pointer(is_scaled, scale.cuda()), {});
  value.check_equal();
  average.check_equal();
  square.check_equal();
}

TEMPLATE_TEST_CASE("cu::clip_grad_norm equals cpu::clip_grad_norm", "[gpu][optim]", float, double) {
  using T = TestType;
  const double max_norm = GENERATE(1.0, 1e6);
  const bool is_scaled = GENERATE(false, true);
  Twins<T> grad(2);
  Twin<double> scale(std::vector<double>{0.25});
  std::vector<Buffer> cpu, cuda;
  for (std::size_t k = 0; k < kTensors; ++k) {
    cpu.push_back(grad.cpu(k));
    cuda.push_back(grad.cuda(k));
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
