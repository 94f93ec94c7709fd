// SPDX-License-Identifier: MIT
//
// The loops that dominate training come from loops.h, for the processor at hand. The others are
// plain loops that the compiler vectorises. `ivdep` promises that no iteration reads what an
// earlier one wrote, which holds for operands that are identical or do not overlap.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "ddp/base/random.h"
#include "ddp/base/vectorised.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/buffer_ops/checks.h"
#include "ddp/buffer_ops/loops.h"

namespace ddp::cpu {
namespace {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// The type in which elements of type T are computed with.
template <class T>
using Compute = std::conditional_t<kIsHalf<T>, float, T>;

// Floating point to integer: towards zero, saturating, NaN to 0 (C++ leaves those undefined).
template <class Integer, class Real>
Integer saturate(Real value) {
  using Limits = std::numeric_limits<Integer>;
  const Real end = std::ldexp(Real{1}, Limits::digits);  // max() itself may not be representable
  if (value >= end) return Limits::max();
  if (value <= static_cast<Real>(Limits::min())) return Limits::min();
  return std::isnan(value) ? Integer{0} : static_cast<Integer>(value);
}

template <class To, class From>
To convert(From value) {
  if constexpr (kIsHalf<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
void cast_elements(const From* source, To* target, std::size_t count) {
#ifndef __clang__
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i) target[i] = convert<To>(source[i]);
}

template <class T, class F>
void transform_elements(const Buffer& target, F f) {
  for (T& element : target.as<T>()) element = convert<T>(f(convert<Compute<T>>(element)));
}

const buffer_ops::Loops& best_loops() {
  const buffer_ops::Loops* avx2 = buffer_ops::avx2_loops();
  return avx2 != nullptr ? *avx2 : buffer_ops::baseline_loops();
}

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint16_t bits_of(Float16 value) { return value.bits(); }
std::uint16_t bits_of(BFloat16 value) { return value.bits(); }

template <class T>
constexpr int kMantissaBits = std::numeric_limits<T>::digits - 1;
template <>
constexpr int kMantissaBits<Float16> = 10;
template <>
constexpr int kMantissaBits<BFloat16> = 7;

// Infinities and NaNs have an exponent of all ones: adding 1 to it carries into the bit of the
// sign. There is neither a comparison nor an early exit, since elements are usually finite, and a
// loop without them is faster.
template <class T>
bool all_finite(const T* elements, std::size_t count) {
  using Bits = decltype(bits_of(T()));
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  constexpr Bits kOne = Bits{1} << kMantissaBits<T>;
  constexpr Bits kExponent = kSign - kOne;
  Bits found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= static_cast<Bits>((bits_of(elements[i]) & kExponent) + kOne);
  }
  return (found & kSign) == 0;
}

std::uint64_t load_word(const std::byte* bytes, std::size_t n) {
  static_assert(std::endian::native == std::endian::little, "words are little-endian");
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, n);
  return word;
}

constexpr std::uint64_t kFingerprintStep = 0x9e3779b97f4a7c15ULL;

// The sum of a fingerprint over this many whole words.
inline std::uint64_t sum_of_words(const std::byte* bytes, std::size_t words) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words; ++i) {
    sum += mix_bits(load_word(bytes + 8 * i, 8) + (i + 1) * kFingerprintStep);
  }
  return sum;
}

}  // namespace

void fill(const Buffer& target, double value) {
  buffer_ops::check_device("fill", target, DeviceType::kCpu);
  dispatch(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T element = convert<T>(value);
    for (T& e : target.as<T>()) e = element;
  });
}

void copy(const Buffer& source, const Buffer& target) {
  buffer_ops::check_same("copy", source, target, DeviceType::kCpu);
  if (source.count > 0) std::memmove(target.data, source.data, source.size_bytes());
}

void cast(const Buffer& source, const Buffer& target) {
  buffer_ops::check_same_count("cast", source, target, DeviceType::kCpu);
  if (const auto loop = best_loops().cast_of(source.dtype, target.dtype)) {
    return loop(source.data, target.data, source.count);
  }
  dispatch(source.dtype, [&](auto from) {
    dispatch(target.dtype, [&](auto to) {
      cast_elements(source.as<decltype(from)>().data(), target.as<decltype(to)>().data(),
                    source.count);
    });
  });
}

void scale(const Buffer& target, double factor) {
  buffer_ops::check_device("scale", target, DeviceType::kCpu);
  buffer_ops::check_floating_point("scale", target);
  best_loops().reduce_of(target.dtype, ReduceOp::kAverage)({&target, 1, &target, 1, factor});
}

void scale_by_value_at(const Buffer& target, const double* factor) { cpu::scale(target, *factor); }

void reciprocal(const Buffer& target) {
  buffer_ops::check_device("reciprocal", target, DeviceType::kCpu);
  buffer_ops::check_floating_point("reciprocal", target);
  dispatch(target.dtype, [&](auto zero) {
    using T = decltype(zero);
    transform_elements<T>(target, [](auto value) { return value == 0 ? value : 1 / value; });
  });
}

void reduce(const Buffer& source, const Buffer& target, ReduceOp op) {
  buffer_ops::check_same("reduce", source, target, DeviceType::kCpu);
  const ReduceOp without_dividing = op == ReduceOp::kAverage ? ReduceOp::kSum : op;
  const Buffer terms[] = {target, source};
  best_loops().reduce_of(target.dtype, without_dividing)({terms, 2, &target, 1, 1});
}

void reduce_terms(std::span<const Buffer> terms, std::span<const Buffer> targets, ReduceOp op,
                  double factor) {
  if (terms.empty()) {
    throw std::invalid_argument("[buffer_ops] reduce_terms: needs at least one term");
  }
  if (op == ReduceOp::kAverage) buffer_ops::check_floating_point("reduce_terms", terms[0]);
  for (const Buffer& term : terms) {
    buffer_ops::check_same("reduce_terms", term, terms[0], DeviceType::kCpu);
  }
  for (const Buffer& target : targets) {
    buffer_ops::check_same("reduce_terms", terms[0], target, DeviceType::kCpu);
  }
  best_loops().reduce_of(terms[0].dtype,
                         op)({terms.data(), terms.size(), targets.data(), targets.size(), factor});
}

void is_finite(const Buffer& source, std::uint8_t* result) {
  buffer_ops::check_device("is_finite", source, DeviceType::kCpu);
  *result = dispatch(source.dtype, [&](auto zero) -> std::uint8_t {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      return 1;
    } else {
      return all_finite(source.as<T>().data(), source.count) ? 1 : 0;
    }
  });
}

void fingerprint(const Buffer& source, std::uint64_t* result) {
  buffer_ops::check_device("fingerprint", source, DeviceType::kCpu);
  const auto* bytes = static_cast<const std::byte*>(source.data);
  const std::size_t size_bytes = source.size_bytes();
  const std::size_t whole = size_bytes / 8;
  std::uint64_t sum = 0;
  vectorised([&] { sum = sum_of_words(bytes, whole); });
  if (const std::size_t rest = size_bytes % 8; rest > 0) {
    sum += mix_bits(load_word(bytes + 8 * whole, rest) + (whole + 1) * kFingerprintStep);
  }
  *result = sum;
}

}  // namespace ddp::cpu
