// SPDX-License-Identifier: MIT
//
// Compares the CPU functions with plain arithmetic in double. gpu/gpu_buffer_ops_test.cpp compares
// the CUDA functions with the CPU ones.
#include "ddp/buffer_ops/buffer_ops.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "buffer_ops/float_cases.h"
#include "support/padded_buffer.h"
#include "support/run_ranks.h"

using namespace ddp;
using test::combine;
using test::error_of;
using test::kFloats;
using test::kInfinity;
using test::PaddedBuffer;

namespace {

constexpr std::size_t kCounts[] = {0, 1, 7, 1000};
constexpr std::size_t kOffsets[] = {0, 1, 3};
const double kNan = std::nan("");

// Calls f(count, offset) for all shapes.
template <class F>
void for_each_shape(F f) {
  for (const std::size_t count : kCounts) {
    for (const std::size_t offset : kOffsets) f(count, offset);
  }
}

// True if target[i] == expected(i) for all i, and nothing outside the elements was written.
template <class F>
bool holds(PaddedBuffer& target, std::size_t count, F expected) {
  for (std::size_t i = 0; i < count; ++i) {
    if (target.at(i) != expected(i)) return false;
  }
  return target.margins_are_intact();
}

// The value of an element after a cast from `from` to `to`.
double cast_one(DType from, double value, DType to) {
  PaddedBuffer source(from, 1);
  PaddedBuffer target(to, 1);
  source.set(0, value);
  cpu::cast(source.buffer(), target.buffer());
  return target.at(0);
}

double reduce_one(DType dtype, double target_value, double source_value, ReduceOp op) {
  PaddedBuffer source(dtype, 1);
  PaddedBuffer target(dtype, 1);
  source.set(0, source_value);
  target.set(0, target_value);
  cpu::reduce(source.buffer(), target.buffer(), op);
  return target.at(0);
}

bool is_finite_with(DType dtype, double value) {
  PaddedBuffer source(dtype, 1000);
  source.set_small_integers(1);
  source.set(777, value);
  std::uint8_t result = 2;
  cpu::is_finite(source.buffer(), &result);
  REQUIRE(result < 2);
  return result == 1;
}

std::uint64_t fingerprint_of(const Buffer& buffer) {
  std::uint64_t result = 0;
  cpu::fingerprint(buffer, &result);
  return result;
}

}  // namespace

TEST_CASE("fill writes every element and nothing else", "[buffer_ops]") {
  for (const DType dtype : kAllDTypes) {
    for_each_shape([&](std::size_t count, std::size_t offset) {
      PaddedBuffer target(dtype, count, offset);
      cpu::fill(target.buffer(), 42);
      CHECK(holds(target, count, [](std::size_t) { return 42.0; }));
    });
  }
}

TEST_CASE("copy copies any bits", "[buffer_ops]") {
  for (const DType dtype : kAllDTypes) {
    for_each_shape([&](std::size_t count, std::size_t offset) {
      PaddedBuffer source(dtype, count, offset);
      PaddedBuffer target(dtype, count, 1);
      source.set_random_bits(7);
      cpu::copy(source.buffer(), target.buffer());
      const std::size_t bytes = count * size_of(dtype);
      CHECK((count == 0 || std::memcmp(source.buffer().data, target.buffer().data, bytes) == 0));
      CHECK(target.margins_are_intact());
    });
  }
}

TEST_CASE("cast converts between all pairs of dtypes", "[buffer_ops]") {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      for_each_shape([&](std::size_t count, std::size_t offset) {
        PaddedBuffer source(from, count, offset);
        PaddedBuffer target(to, count, offset);
        source.set_small_integers(3);
        cpu::cast(source.buffer(), target.buffer());
        CHECK(holds(target, count, [&](std::size_t i) { return source.at(i); }));
      });
    }
  }
}

TEST_CASE("cast to integers truncates and saturates", "[buffer_ops]") {
  for (const DType from : {DType::kFloat32, DType::kFloat64}) {
    CHECK(cast_one(from, 2.9, DType::kInt32) == 2);
    CHECK(cast_one(from, -2.9, DType::kInt64) == -2);
    CHECK(cast_one(from, 1e30, DType::kInt32) == 2147483647.0);
    CHECK(cast_one(from, -1e30, DType::kInt32) == -2147483648.0);
    CHECK(cast_one(from, 2147483648.0, DType::kInt32) == 2147483647.0);
    CHECK(cast_one(from, kInfinity, DType::kInt64) == 0x1p63);  // max(), rounded by at()
    CHECK(cast_one(from, -kInfinity, DType::kInt64) == -0x1p63);
    CHECK(cast_one(from, -0.5, DType::kUInt8) == 0);
    CHECK(cast_one(from, -3, DType::kUInt8) == 0);
    CHECK(cast_one(from, 255.9, DType::kUInt8) == 255);
    CHECK(cast_one(from, 256, DType::kUInt8) == 255);
    CHECK(cast_one(from, kNan, DType::kInt32) == 0);
    CHECK(cast_one(from, kNan, DType::kInt64) == 0);
  }
  CHECK(cast_one(DType::kInt32, 257, DType::kUInt8) == 1);
  CHECK(cast_one(DType::kInt64, 4294967299.0, DType::kInt32) == 3);
}

TEST_CASE("cast to float types rounds and keeps what is not finite", "[buffer_ops]") {
  CHECK(cast_one(DType::kFloat32, 1e6, DType::kFloat16) == kInfinity);
  CHECK(cast_one(DType::kFloat64, -1e300, DType::kFloat32) == -kInfinity);
  CHECK(cast_one(DType::kFloat32, 2049, DType::kFloat16) == 2048);
  CHECK(cast_one(DType::kFloat32, 257, DType::kBFloat16) == 256);
  CHECK(cast_one(DType::kFloat32, 259, DType::kBFloat16) == 260);
  for (const DType to : kFloats) CHECK(std::isnan(cast_one(DType::kFloat32, kNan, to)));
}

TEST_CASE("scale multiplies every element", "[buffer_ops]") {
  for (const DType dtype : kFloats) {
    for_each_shape([&](std::size_t count, std::size_t offset) {
      PaddedBuffer target(dtype, count, offset);
      target.set_small_integers(5);
      PaddedBuffer before = target;
      const double factor = -0.25;
      cpu::scale(target.buffer(), factor);
      CHECK(holds(target, count, [&](std::size_t i) { return before.at(i) * factor; }));
      cpu::scale_by_value_at(target.buffer(), &factor);
      CHECK(holds(target, count, [&](std::size_t i) { return before.at(i) * factor * factor; }));
    });
  }
}

TEST_CASE("reciprocal inverts every element but 0", "[buffer_ops]") {
  for (const DType dtype : kFloats) {
    for_each_shape([&](std::size_t count, std::size_t offset) {
      PaddedBuffer target(dtype, count, offset);
      for (std::size_t i = 0; i < count; ++i) target.set(i, i % 3 == 0 ? 0.0 : 4.0);
      cpu::reciprocal(target.buffer());
      CHECK(holds(target, count, [](std::size_t i) { return i % 3 == 0 ? 0.0 : 0.25; }));
    });
  }
}

TEST_CASE("reduce combines element by element", "[buffer_ops]") {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
      for_each_shape([&](std::size_t count, std::size_t offset) {
        PaddedBuffer source(dtype, count, offset);
        PaddedBuffer target(dtype, count, 0);
        source.set_small_integers(1);
        target.set_small_integers(2);
        PaddedBuffer before = target;
        cpu::reduce(source.buffer(), target.buffer(), op);
        CHECK(holds(target, count,
                    [&](std::size_t i) { return combine(op, before.at(i), source.at(i)); }));
      });
    }
  }
}

TEST_CASE("reduce takes its own target as source", "[buffer_ops]") {
  PaddedBuffer target(DType::kFloat32, 1000);
  target.set_small_integers(4);
  PaddedBuffer before = target;
  cpu::reduce(target.buffer(), target.buffer(), ReduceOp::kSum);
  CHECK(holds(target, 1000, [&](std::size_t i) { return 2 * before.at(i); }));
}

TEST_CASE("integer reductions wrap around", "[buffer_ops]") {
  CHECK(reduce_one(DType::kInt32, 2147483647.0, 1, ReduceOp::kSum) == -2147483648.0);
  CHECK(reduce_one(DType::kInt32, 65536, 65537, ReduceOp::kProduct) == 65536);
  CHECK(reduce_one(DType::kInt64, -0x1p63, -0x1p63, ReduceOp::kSum) == 0);
  CHECK(reduce_one(DType::kInt64, 0x1p62, 2, ReduceOp::kProduct) == -0x1p63);
  CHECK(reduce_one(DType::kUInt8, 200, 100, ReduceOp::kSum) == 44);
  CHECK(reduce_one(DType::kUInt8, 255, 255, ReduceOp::kProduct) == 1);
}

TEST_CASE("16-bit reductions compute in float32 and round once", "[buffer_ops]") {
  CHECK(reduce_one(DType::kFloat16, 2048, 1, ReduceOp::kSum) == 2048);
  CHECK(reduce_one(DType::kFloat16, 2048, 3, ReduceOp::kSum) == 2052);
  CHECK(reduce_one(DType::kFloat16, 65504, 65504, ReduceOp::kSum) == kInfinity);
  CHECK(reduce_one(DType::kBFloat16, 256, 1, ReduceOp::kSum) == 256);
  CHECK(reduce_one(DType::kBFloat16, 256, 3, ReduceOp::kSum) == 260);
}

TEST_CASE("min and max keep a NaN of either side", "[buffer_ops]") {
  for (const DType dtype : kFloats) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      CHECK(std::isnan(reduce_one(dtype, kNan, 1, op)));
      CHECK(std::isnan(reduce_one(dtype, 1, kNan, op)));
      CHECK(reduce_one(dtype, -kInfinity, kInfinity, op) ==
            (op == ReduceOp::kMin ? -kInfinity : kInfinity));
    }
  }
}

TEST_CASE("is_finite finds one infinity or NaN among many", "[buffer_ops]") {
  for (const DType dtype : kFloats) {
    CHECK(is_finite_with(dtype, 0));
    CHECK(is_finite_with(dtype, -65504));
    CHECK_FALSE(is_finite_with(dtype, kInfinity));
    CHECK_FALSE(is_finite_with(dtype, -kInfinity));
    CHECK_FALSE(is_finite_with(dtype, kNan));
  }
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUInt8}) {
    CHECK(is_finite_with(dtype, 127));
  }
  std::uint8_t result = 0;
  cpu::is_finite(PaddedBuffer(DType::kFloat32, 0).buffer(), &result);
  CHECK(result == 1);
}

TEST_CASE("fingerprint follows its formula", "[buffer_ops]") {
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  };
  constexpr std::uint64_t kC = 0x9e3779b97f4a7c15ULL;
  std::vector<std::uint8_t> bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  CHECK(fingerprint_of(buffer_of(bytes)) ==
        mix(0x0807060504030201ULL + kC) + mix(0x0a09ULL + 2 * kC));
  CHECK(fingerprint_of(Buffer{}) == 0);
  std::vector<std::uint64_t> words;  // whole vectors of processors, and rests of them
  std::uint64_t sum = 0;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    words.push_back(mix(i));
    sum += mix(words.back() + i * kC);
    CHECK(fingerprint_of({words.data(), 8 * words.size(), DType::kUInt8, kCpuDevice}) == sum);
  }
}

TEST_CASE("fingerprint sees every bit, every position and the length", "[buffer_ops]") {
  PaddedBuffer source(DType::kUInt8, 1000, 3);
  source.set_random_bits(11);
  const std::uint64_t before = fingerprint_of(source.buffer());
  for (std::size_t i = 0; i < 1000; ++i) {
    const double value = source.at(i);
    source.set(i, static_cast<double>(static_cast<int>(value) ^ 16));
    CHECK(fingerprint_of(source.buffer()) != before);
    source.set(i, value);
  }
  std::vector<std::int64_t> words{1, 2};
  std::vector<std::int64_t> swapped{2, 1};
  CHECK(fingerprint_of(buffer_of(words)) != fingerprint_of(buffer_of(swapped)));
  CHECK(fingerprint_of(source.buffer().slice(0, 992)) != fingerprint_of(source.buffer()));
}

TEST_CASE("operands that do not fit are refused with both sides in the message", "[buffer_ops]") {
  std::vector<float> floats(4);
  std::vector<double> doubles(4);
  std::vector<std::int32_t> integers(4);
  CHECK_THROWS_AS(cpu::reduce(buffer_of(floats), buffer_of(doubles), ReduceOp::kSum),
                  std::invalid_argument);
  CHECK(error_of([&] { cpu::copy(buffer_of(floats).slice(0, 3), buffer_of(floats)); }) ==
        "[buffer_ops] copy: source float32[3] on cpu does not match target float32[4] on cpu");
  CHECK_THROWS_AS(cpu::cast(buffer_of(floats).slice(0, 3), buffer_of(doubles)),
                  std::invalid_argument);
  CHECK_THROWS_AS(cpu::scale(buffer_of(integers), 2), std::invalid_argument);
  CHECK_THROWS_AS(cpu::reciprocal(buffer_of(integers)), std::invalid_argument);
  CHECK_THROWS_AS(cpu::fill(buffer_of(floats, cuda_device(0)), 1), std::invalid_argument);
}

TEST_CASE("the dispatching functions run on the CPU for CPU buffers", "[buffer_ops]") {
  std::vector<float> source(5);
  std::vector<double> target(5);
  const double factor = 0.5;
  fill(buffer_of(source), 3, Stream{});
  cast(buffer_of(source), buffer_of(target), Stream{});
  scale_by_value_at(buffer_of(target), &factor, Stream{});
  CHECK(target == std::vector<double>(5, 1.5));
  std::vector<double> copied(5);
  copy(buffer_of(target), buffer_of(copied), Stream{});
  reciprocal(buffer_of(copied), Stream{});
  CHECK(copied == std::vector<double>(5, 1 / 1.5));
}
