// SPDX-License-Identifier: MIT
//
// For tests of CUDA kernels against their CPU twins.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "ddp/kernels/shapes.h"

namespace ddp::test {

inline constexpr Device kGpu = cuda_device(0);

// The same operand in host memory and in device memory.
template <class T>
class Twin {
 public:
  explicit Twin(std::vector<T> values)
      : host_(std::move(values)), device_(cu::allocate_device(host_.size() * sizeof(T), kGpu)) {
    cu::copy_async(device_.data(), host_.data(), host_.size() * sizeof(T), {});
    cu::synchronize({});
  }
  static Twin uniform(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<double> draw(-2, 2);
    std::vector<T> values(count);
    for (T& value : values) value = static_cast<T>(draw(engine));
    return Twin(std::move(values));
  }
  static Twin poison(std::size_t count) {
    return Twin(std::vector<T>(count, std::numeric_limits<T>::quiet_NaN()));
  }
  // The initial contents of a gradient's memory for this mode.
  static Twin gradient(std::size_t count, WriteMode mode) {
    return mode == WriteMode::kOverwrite ? poison(count) : uniform(count, 99);
  }

  Buffer cpu() { return buffer_of(host_); }
  Buffer cuda() const { return {device_.data(), host_.size(), dtype_of<T>, kGpu}; }

  std::vector<T> download() const {
    std::vector<T> copy(host_.size());
    cu::synchronize({});
    cu::copy_async(copy.data(), device_.data(), copy.size() * sizeof(T), {});
    cu::synchronize({});
    return copy;
  }

  // Checks that both are equal up to `tolerance` times the largest of the value, 1, and the root
  // mean square of all values. So a small element whose large terms cancelled may have the same
  // absolute error as the others.
  void check_equal(double tolerance) const {
    const std::vector<T> copy = download();
    const double margin = tolerance * std::max(1.0, root_mean_square());
    const auto is_close = [&](T value, T expected) {
      return value == expected || value == Approx(expected).epsilon(tolerance).margin(margin);
    };
    const auto [value, expected] = std::ranges::mismatch(copy, host_, is_close);
    const std::ptrdiff_t first_differing = value - copy.begin();
    if (value != copy.end()) UNSCOPED_INFO("CUDA " << *value << ", CPU " << *expected);
    CHECK(first_differing == static_cast<std::ptrdiff_t>(copy.size()));
  }

 private:
  double root_mean_square() const {
    double squares = 0;
    for (const T value : host_) squares += static_cast<double>(value) * static_cast<double>(value);
    return host_.empty() ? 0 : std::sqrt(squares / static_cast<double>(host_.size()));
  }

  std::vector<T> host_;
  Allocation device_;
};

template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-5 : 1e-13;

}  // namespace ddp::test
