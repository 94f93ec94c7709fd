// SPDX-License-Identifier: MIT
//
// Compares reduce_terms with plain arithmetic in double, and the loops for one instruction set with
// those for another, bit by bit.
#include "ddp/buffer_ops/loops.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "buffer_ops/float_cases.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "support/padded_buffer.h"
#include "support/run_ranks.h"

using namespace ddp;
using buffer_ops::Loops;
using test::combine;
using test::error_of;
using test::kFloats;
using test::kInfinity;
using test::PaddedBuffer;

namespace {

constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                                ReduceOp::kAverage};

bool is_defined(DType dtype, ReduceOp op) {
  return op != ReduceOp::kAverage || is_floating_point(dtype);
}

struct Shape {
  std::size_t terms;
  std::size_t targets;
  std::size_t count;
  bool in_place;           // the targets are the last terms
  std::size_t offset = 0;  // elements from an aligned address
};

// Terms and targets, each in memory of its own and a little less aligned than the one before.
struct Operands {
  Operands(DType dtype, const Shape& shape) {
    const std::size_t separate = shape.in_place ? 0 : shape.targets;
    for (std::size_t i = 0; i < shape.terms + separate; ++i) {
      memory.emplace_back(dtype, shape.count, shape.offset * i);
    }
    for (std::size_t i = 0; i < shape.terms; ++i) terms.push_back(memory[i].buffer());
    const std::size_t first = memory.size() - shape.targets;
    for (std::size_t i = 0; i < shape.targets; ++i) targets.push_back(memory[first + i].buffer());
  }

  [[nodiscard]] PaddedBuffer& target(std::size_t i) {
    return memory[memory.size() - targets.size() + i];
  }

  void reduce_with(const Loops& loops, ReduceOp op) {
    loops.reduce_of(terms[0].dtype,
                    op)({terms.data(), terms.size(), targets.data(), targets.size(), 0.3});
  }

  std::vector<PaddedBuffer> memory;
  std::vector<Buffer> terms;
  std::vector<Buffer> targets;
};

// Values so small that every dtype represents the sum of nine; 1 or 2 for products.
void set_values(Operands& operands, ReduceOp op) {
  std::mt19937 random(static_cast<unsigned>(operands.terms.size()));
  const unsigned values = op == ReduceOp::kProduct ? 2 : 10;
  for (std::size_t t = 0; t < operands.terms.size(); ++t) {
    for (std::size_t i = 0; i < operands.terms[t].count; ++i) {
      operands.memory[t].set(i, 1 + static_cast<double>(random() % values));
    }
  }
}

std::vector<double> expected_of(Operands& operands, ReduceOp op) {
  std::vector<double> expected;
  const DType dtype = operands.terms[0].dtype;
  for (std::size_t i = 0; i < operands.terms[0].count; ++i) {
    double value = operands.memory[0].at(i);
    for (std::size_t t = 1; t < operands.terms.size(); ++t) {
      value = combine(op, value, operands.memory[t].at(i));
    }
    if (op == ReduceOp::kAverage) value /= static_cast<double>(operands.terms.size());
    expected.push_back(dtype == DType::kUInt8 ? std::fmod(value, 256.0) : value);
  }
  return expected;
}

// The largest error from rounding the factor, the product and the result of an average.
double tolerance(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kAverage) return 0;
  if (dtype == DType::kBFloat16) return 0x1p-8;
  if (dtype == DType::kFloat16) return 0x1p-11 + 0x1p-22;
  return dtype == DType::kFloat32 ? 0x1p-23 : 0x1p-52;
}

bool reduces(DType dtype, ReduceOp op, const Shape& shape) {
  Operands operands(dtype, shape);
  set_values(operands, op);
  const std::vector<double> expected = expected_of(operands, op);
  cpu::reduce_terms(operands.terms, operands.targets, op, 1.0 / double(operands.terms.size()));
  for (std::size_t t = 0; t < shape.targets; ++t) {
    if (!operands.target(t).margins_are_intact()) return false;
    for (std::size_t i = 0; i < shape.count; ++i) {
      const double difference = std::abs(operands.target(t).at(i) - expected[i]);
      if (!(difference <= tolerance(dtype, op) * expected[i])) return false;
    }
  }
  return true;
}

// Calls f(dtype, op) for all dtypes and operations.
template <class F>
void for_each_operation(F f) {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllOps) {
      if (is_defined(dtype, op)) f(dtype, op);
    }
  }
}

void expect_reduces(DType dtype, ReduceOp op, const Shape& shape) {
  INFO(to_string(dtype) << " " << to_string(op) << " of " << shape.terms << " terms to "
                        << shape.targets << (shape.in_place ? " of them" : "") << ", count "
                        << shape.count << ", offset " << shape.offset);
  CHECK(reduces(dtype, op, shape));
}

std::vector<double> sum_of(DType dtype, const std::vector<double>& values, ReduceOp op) {
  constexpr std::size_t kCount = 37;
  Operands operands(dtype, {values.size(), 1, kCount, false});
  std::vector<double> result;
  for (std::size_t t = 0; t < values.size(); ++t) {
    for (std::size_t i = 0; i < kCount; ++i) operands.memory[t].set(i, values[t]);
  }
  cpu::reduce_terms(operands.terms, operands.targets, op, 1.0 / double(operands.terms.size()));
  for (std::size_t i = 0; i < kCount; ++i) result.push_back(operands.target(0).at(i));
  return result;
}

bool all_are(const std::vector<double>& values, double expected) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == expected; });
}

// Random bits in most elements; in the others, values that are rare among random bits.
void set_bits(Operands& operands, unsigned seed) {
  for (std::size_t t = 0; t < operands.terms.size(); ++t) {
    operands.memory[t].set_random_bits(seed + static_cast<unsigned>(t));
  }
  if (!is_floating_point(operands.terms[0].dtype)) return;
  const double largest = operands.terms[0].dtype == DType::kFloat16 ? 65504 : 0x1.fep127;
  const double specials[] = {0.0,     -0.0,     kInfinity, -kInfinity, std::nan(""), -std::nan(""),
                             largest, -largest, 0x1p-24,   0x1p-126,   1 + 0x1p-10,  3.0};
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < operands.terms[0].count; i += 2) {
    for (std::size_t t = 0; t < operands.terms.size(); ++t) {
      operands.memory[t].set(i, specials[random() % std::size(specials)]);
    }
  }
}

// True if two NaNs meet in a sum or product from left to right, whose result is then either of
// them. T is the type of the intermediate results, which may become infinite and then NaN.
template <class T>
bool nans_meet(std::vector<PaddedBuffer>& memory, std::size_t terms, std::size_t i, ReduceOp op) {
  T result = static_cast<T>(memory[0].at(i));
  for (std::size_t t = 1; t < terms; ++t) {
    const T term = static_cast<T>(memory[t].at(i));
    if (std::isnan(result) && std::isnan(term)) return true;
    result = op == ReduceOp::kProduct ? result * term : result + term;
  }
  return false;
}

bool nans_meet(std::vector<PaddedBuffer>& memory, DType dtype, const Shape& shape, std::size_t i,
               ReduceOp op) {
  return dtype == DType::kFloat64 ? nans_meet<double>(memory, shape.terms, i, op)
                                  : nans_meet<float>(memory, shape.terms, i, op);
}

bool same_element(const Buffer& a, const Buffer& b, std::size_t i) {
  return std::memcmp(a.slice(i, 1).data, b.slice(i, 1).data, size_of(a.dtype)) == 0;
}

bool loops_agree(const Loops& one, const Loops& other, DType dtype, ReduceOp op,
                 const Shape& shape) {
  Operands a(dtype, shape), b(dtype, shape);
  set_bits(a, 7);
  set_bits(b, 7);
  std::vector<PaddedBuffer> before = a.memory;
  const bool selects = op == ReduceOp::kMin || op == ReduceOp::kMax;
  a.reduce_with(one, op);
  b.reduce_with(other, op);
  for (std::size_t t = 0; t < shape.targets; ++t) {
    for (std::size_t i = 0; i < shape.count; ++i) {
      const bool both_nan = std::isnan(a.target(t).at(i)) && std::isnan(b.target(t).at(i));
      if (both_nan && !selects && nans_meet(before, dtype, shape, i, op)) continue;
      if (!same_element(a.targets[t], b.targets[t], i)) return false;
    }
  }
  return true;
}

// The loops that this processor can run.
std::vector<const Loops*> all_loops() {
  std::vector<const Loops*> loops{&buffer_ops::baseline_loops()};
  if (buffer_ops::avx2_loops() != nullptr) loops.push_back(buffer_ops::avx2_loops());
  if (loops.size() == 1) WARN("no AVX2 here: its loops are not tested");
  return loops;
}

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

// The number of elements that the loop converts to other bits than From and To do.
template <class To, class From>
std::size_t wrong_casts(const Loops& loops, const std::vector<From>& source) {
  std::vector<To> target(source.size());
  loops.cast_of(dtype_of<From>, dtype_of<To>)(source.data(), target.data(), source.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (bits_of(target[i]) != bits_of(To(static_cast<float>(source[i])))) ++wrong;
  }
  return wrong;
}

template <class Half>
std::vector<Half> all_halves() {
  std::vector<Half> halves;
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    halves.push_back(std::bit_cast<Half>(static_cast<std::uint16_t>(bits)));
  }
  return halves;
}

// Every upper half of a float, with those lower halves at which rounding changes direction.
std::vector<float> telling_floats() {
  std::vector<float> floats;
  for (std::uint32_t upper = 0; upper <= 0xffff; ++upper) {
    for (const std::uint32_t lower :
         {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0xffffU}) {
      floats.push_back(std::bit_cast<float>((upper << 16) | lower));
    }
  }
  floats.resize(floats.size() - 3);  // leaves a partial vector at the end
  return floats;
}

}  // namespace

TEST_CASE("reduce_terms combines any number of terms into every target", "[buffer_ops]") {
  for_each_operation([](DType dtype, ReduceOp op) {
    for (std::size_t terms = 1; terms <= 9; ++terms) {
      for (std::size_t targets = 1; targets <= std::min<std::size_t>(terms, 3); ++targets) {
        for (const bool in_place : {false, true}) {
          expect_reduces(dtype, op, {terms, targets, 101, in_place, terms % 2});
        }
      }
      expect_reduces(dtype, op, {terms, terms, 150, true});
    }
  });
}

TEST_CASE("reduce_terms takes any count at any address", "[buffer_ops]") {
  for_each_operation([](DType dtype, ReduceOp op) {
    for (std::size_t count = 0; count <= 100; ++count) {
      expect_reduces(dtype, op, {2, 2, count, true, count % 4});
      expect_reduces(dtype, op, {5, 1, count, false, 1});
    }
    for (const std::size_t terms : {2U, 4U, 9U}) {
      expect_reduces(dtype, op, {terms, terms, 10007, true, 1});  // more than one piece per operand
    }
  });
}

TEST_CASE("reduce_terms without a target does nothing", "[buffer_ops]") {
  CHECK(reduces(DType::kFloat32, ReduceOp::kSum, {3, 0, 50, false}));
}

TEST_CASE("reduce_terms goes from left to right and rounds once", "[buffer_ops]") {
  CHECK(all_are(sum_of(DType::kFloat32, {0x1p24, 1, -0x1p24}, ReduceOp::kSum), 0));
  CHECK(all_are(sum_of(DType::kFloat32, {0x1p24, -0x1p24, 1}, ReduceOp::kSum), 1));
  CHECK(all_are(sum_of(DType::kBFloat16, {256, 1, 1, 1}, ReduceOp::kSum), 260));
  CHECK(all_are(sum_of(DType::kFloat16, {2048, 1, 1, 1}, ReduceOp::kSum), 2052));
  CHECK(all_are(sum_of(DType::kFloat16, {60000, 60000}, ReduceOp::kAverage), 60000));
  CHECK(all_are(sum_of(DType::kFloat16, {60000, 60000}, ReduceOp::kSum), kInfinity));
  CHECK(all_are(sum_of(DType::kUInt8, {200, 100}, ReduceOp::kSum), 44));
  CHECK(all_are(sum_of(DType::kInt32, {0x1p31 - 1, 1}, ReduceOp::kSum), -0x1p31));
}

TEST_CASE("a NaN in any term is the minimum and the maximum", "[buffer_ops]") {
  for (const DType dtype : kFloats) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      for (std::size_t terms = 1; terms <= 9; ++terms) {
        for (std::size_t at = 0; at < terms; ++at) {
          std::vector<double> values(terms, 2.0);
          values[at] = std::nan("");
          for (const double result : sum_of(dtype, values, op)) CHECK(std::isnan(result));
        }
      }
    }
  }
}

TEST_CASE("loops for any processor compute the same bits", "[buffer_ops]") {
  const std::vector<const Loops*> loops = all_loops();
  for_each_operation([&](DType dtype, ReduceOp op) {
    for (const std::size_t terms : {1U, 2U, 3U, 4U, 5U, 9U}) {
      for (const std::size_t count : {1U, 31U, 4999U}) {
        for (const bool in_place : {false, true}) {
          const Shape shape{terms, in_place ? terms : 1, count, in_place, 1};
          INFO(to_string(dtype) << " " << to_string(op) << " of " << terms << " terms, count "
                                << count);
          CHECK(loops_agree(*loops.front(), *loops.back(), dtype, op, shape));
        }
      }
    }
  });
}

TEST_CASE("cast loops do what the 16-bit types do", "[buffer_ops]") {
  const std::vector<float> floats = telling_floats();
  for (const Loops* loops : all_loops()) {
    CHECK(wrong_casts<Float16>(*loops, floats) == 0);
    CHECK(wrong_casts<BFloat16>(*loops, floats) == 0);
    CHECK(wrong_casts<float>(*loops, all_halves<Float16>()) == 0);
    CHECK(wrong_casts<float>(*loops, all_halves<BFloat16>()) == 0);
  }
}

TEST_CASE("reduce_terms refuses what does not fit", "[buffer_ops]") {
  std::vector<float> floats(4);
  std::vector<double> doubles(4);
  std::vector<std::int32_t> integers(4);
  const Buffer f = buffer_of(floats), d = buffer_of(doubles), i = buffer_of(integers);
  const std::vector<Buffer> none, one{f}, mixed{f, d}, whole{i}, shorter{f, f.slice(0, 3)};
  CHECK_THROWS_AS(cpu::reduce_terms(none, one, ReduceOp::kSum, 1), std::invalid_argument);
  CHECK_THROWS_AS(cpu::reduce_terms(mixed, one, ReduceOp::kSum, 1), std::invalid_argument);
  CHECK_THROWS_AS(cpu::reduce_terms(shorter, one, ReduceOp::kSum, 1), std::invalid_argument);
  CHECK_THROWS_AS(cpu::reduce_terms(one, whole, ReduceOp::kSum, 1), std::invalid_argument);
  CHECK(error_of([&] { cpu::reduce_terms(whole, whole, ReduceOp::kAverage, 1); }) ==
        "[buffer_ops] reduce_terms: int32[4] on cpu is not of a floating-point type");
}
