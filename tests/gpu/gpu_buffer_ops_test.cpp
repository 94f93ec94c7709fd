// SPDX-License-Identifier: MIT
//
// Compares each CUDA function with its CPU twin: from equal bytes, both must produce equal bytes
// (except NaNs), including the poisoned margins.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/buffer_ops/host_transfer.h"
#include "ddp/cuda/cuda.h"
#include "gpu/emulated.h"
#include "support/padded_buffer.h"

using namespace ddp;
using test::PaddedBuffer;

namespace {

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kAverage};

struct Shape {
  std::size_t count;
  std::size_t source_offset;
  std::size_t target_offset;
};

// Odd and even sizes around a 16-byte access and around a grid, aligned and unaligned.
std::vector<Shape> shapes() {
  const std::size_t large = test::is_emulated() ? 262144 : 1048576;
  std::vector<Shape> all{{0, 0, 0},     {1, 0, 0},      {7, 0, 0},     {16, 0, 0},
                         {1000, 1, 0},  {1000, 0, 1},   {1001, 3, 3},  {4096, 0, 0},
                         {65537, 1, 2}, {300007, 0, 0}, {large, 0, 0}, {large + 3, 5, 0}};
  std::mt19937 random(1);
  for (int i = 0; i < 10; ++i) all.push_back({random() % 20000, random() % 17, random() % 17});
  return all;
}

// The GPU under test, with a stream of its own.
class Gpu {
 public:
  Device device() const { return cuda_device(0); }
  Stream stream() const { return stream_.view(); }

  Allocation upload(PaddedBuffer& host) const {
    Allocation copy = cu::allocate_device(host.bytes().size(), device());
    cu::copy_async(copy.data(), host.bytes().data(), host.bytes().size(), stream());
    return copy;
  }

  void download(const Allocation& copy, PaddedBuffer& host) const {
    cu::copy_async(host.bytes().data(), copy.data(), host.bytes().size(), stream());
    stream_.synchronize();
  }

 private:
  cu::DeviceGuard guard_{cuda_device(0)};
  cu::OwnedStream stream_{cuda_device(0)};
};

bool same(PaddedBuffer& a, PaddedBuffer& b) {
  if (std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0) return true;
  if (!a.margins_are_intact() || !b.margins_are_intact()) return false;
  const Buffer elements = a.buffer();
  for (std::size_t i = 0; i < elements.count; ++i) {
    const std::size_t width = size_of(elements.dtype);
    const auto* in_a = static_cast<const std::byte*>(elements.data) + i * width;
    const auto* in_b = static_cast<const std::byte*>(b.buffer().data) + i * width;
    if (std::memcmp(in_a, in_b, width) == 0) continue;
    if (!std::isnan(a.at(i)) || !std::isnan(b.at(i))) return false;
  }
  return true;
}

// Runs both twins on copies of `target`, and compares the results.
bool twins_agree(const Gpu& gpu, PaddedBuffer target, const std::function<void(Buffer)>& on_cpu,
                 const std::function<void(Buffer)>& on_gpu) {
  PaddedBuffer result = target;
  const Allocation copy = gpu.upload(target);
  on_gpu(target.in(copy.data(), gpu.device()));
  gpu.download(copy, result);
  on_cpu(target.buffer());
  return same(target, result);
}

bool twins_agree(const Gpu& gpu, PaddedBuffer source, PaddedBuffer target,
                 const std::function<void(Buffer, Buffer)>& on_cpu,
                 const std::function<void(Buffer, Buffer)>& on_gpu) {
  const Allocation copy = gpu.upload(source);
  return twins_agree(
      gpu, std::move(target), [&](Buffer t) { on_cpu(source.buffer(), t); },
      [&](Buffer t) { on_gpu(source.in(copy.data(), gpu.device()), t); });
}

PaddedBuffer random_bits(DType dtype, std::size_t count, std::size_t offset, unsigned seed) {
  PaddedBuffer buffer(dtype, count, offset);
  buffer.set_random_bits(seed);
  return buffer;
}

std::string describe_case(DType dtype, const Shape& shape) {
  return std::string(to_string(dtype)) + "[" + std::to_string(shape.count) + "] at " +
         std::to_string(shape.source_offset) + " and " + std::to_string(shape.target_offset);
}

// A double in device memory.
Allocation device_double(const Gpu& gpu, double value) {
  Allocation memory = cu::allocate_device(sizeof value, gpu.device());
  cu::copy_async(memory.data(), &value, sizeof value, gpu.stream());
  cu::synchronize(gpu.stream());
  return memory;
}

}  // namespace

TEST_CASE("fill on CUDA equals fill on the CPU", "[gpu][buffer_ops]") {
  const Gpu gpu;
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : shapes()) {
      for (const double value : {0.0, 3.0, -1.5, 1e10}) {
        INFO(describe_case(dtype, shape) << " with " << value);
        CHECK(twins_agree(
            gpu, PaddedBuffer(dtype, shape.count, shape.target_offset),
            [&](Buffer t) { cpu::fill(t, value); },
            [&](Buffer t) { cu::fill(t, value, gpu.stream()); }));
      }
    }
  }
}

TEST_CASE("copy on CUDA equals copy on the CPU", "[gpu][buffer_ops]") {
  const Gpu gpu;
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : shapes()) {
      INFO(describe_case(dtype, shape));
      CHECK(twins_agree(
          gpu, random_bits(dtype, shape.count, shape.source_offset, 1),
          PaddedBuffer(dtype, shape.count, shape.target_offset),
          [](Buffer s, Buffer t) { cpu::copy(s, t); },
          [&](Buffer s, Buffer t) { cu::copy(s, t, gpu.stream()); }));
    }
  }
}

TEST_CASE("cast on CUDA equals cast on the CPU, for any bits", "[gpu][buffer_ops]") {
  const Gpu gpu;
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      for (const Shape& shape : shapes()) {
        INFO(describe_case(from, shape) << " to " << to_string(to));
        CHECK(twins_agree(
            gpu, random_bits(from, shape.count, shape.source_offset, 2),
            PaddedBuffer(to, shape.count, shape.target_offset),
            [](Buffer s, Buffer t) { cpu::cast(s, t); },
            [&](Buffer s, Buffer t) { cu::cast(s, t, gpu.stream()); }));
      }
    }
  }
}

TEST_CASE("scale and reciprocal on CUDA equal those on the CPU", "[gpu][buffer_ops]") {
  const Gpu gpu;
  const double factor = 1.0 / 3;
  const Allocation on_device = device_double(gpu, factor);
  const auto* device_factor = static_cast<const double*>(on_device.data());
  for (const DType dtype : kFloats) {
    for (const Shape& shape : shapes()) {
      INFO(describe_case(dtype, shape));
      const PaddedBuffer target = random_bits(dtype, shape.count, shape.target_offset, 3);
      CHECK(twins_agree(
          gpu, target, [&](Buffer t) { cpu::scale(t, factor); },
          [&](Buffer t) { cu::scale(t, factor, gpu.stream()); }));
      CHECK(twins_agree(
          gpu, target, [&](Buffer t) { cpu::scale_by_value_at(t, &factor); },
          [&](Buffer t) { cu::scale_by_value_at(t, device_factor, gpu.stream()); }));
      CHECK(twins_agree(
          gpu, target, [](Buffer t) { cpu::reciprocal(t); },
          [&](Buffer t) { cu::reciprocal(t, gpu.stream()); }));
    }
  }
}

TEST_CASE("reduce on CUDA equals reduce on the CPU, for any bits", "[gpu][buffer_ops]") {
  const Gpu gpu;
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : shapes()) {
      for (const ReduceOp op : kOps) {
        INFO(describe_case(dtype, shape) << " " << to_string(op));
        CHECK(twins_agree(
            gpu, random_bits(dtype, shape.count, shape.source_offset, 4),
            random_bits(dtype, shape.count, shape.target_offset, 5),
            [&](Buffer s, Buffer t) { cpu::reduce(s, t, op); },
            [&](Buffer s, Buffer t) { cu::reduce(s, t, op, gpu.stream()); }));
      }
    }
  }
}

TEST_CASE("is_finite on CUDA finds one infinity or NaN anywhere", "[gpu][buffer_ops]") {
  const Gpu gpu;
  const Allocation result = cu::allocate_pinned(1);
  auto* finite = static_cast<std::uint8_t*>(result.data());
  for (const DType dtype : kFloats) {
    for (const Shape& shape : shapes()) {
      INFO(describe_case(dtype, shape));
      PaddedBuffer source(dtype, shape.count, shape.source_offset);
      source.set_small_integers(6);
      const Allocation copy = gpu.upload(source);
      cu::is_finite(source.in(copy.data(), gpu.device()), finite, gpu.stream());
      cu::synchronize(gpu.stream());
      CHECK(*finite == 1);
      if (shape.count == 0) continue;
      source.set(shape.count - 1, shape.count % 2 == 0 ? -INFINITY : NAN);
      const Allocation bad = gpu.upload(source);
      cu::is_finite(source.in(bad.data(), gpu.device()), finite, gpu.stream());
      cu::synchronize(gpu.stream());
      CHECK(*finite == 0);
    }
  }
}

TEST_CASE("fingerprint on CUDA equals fingerprint on the CPU", "[gpu][buffer_ops]") {
  const Gpu gpu;
  const Allocation in_host = cu::allocate_pinned(sizeof(std::uint64_t));
  const Allocation in_device = cu::allocate_device(sizeof(std::uint64_t), gpu.device());
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : shapes()) {
      INFO(describe_case(dtype, shape));
      PaddedBuffer source = random_bits(dtype, shape.count, shape.source_offset, 7);
      const Allocation copy = gpu.upload(source);
      const Buffer on_device = source.in(copy.data(), gpu.device());
      std::uint64_t expected = 0;
      std::uint64_t actual = 1;
      cpu::fingerprint(source.buffer(), &expected);
      cu::fingerprint(on_device, static_cast<std::uint64_t*>(in_host.data()), gpu.stream());
      cu::fingerprint(on_device, static_cast<std::uint64_t*>(in_device.data()), gpu.stream());
      cu::copy_async(&actual, in_device.data(), sizeof actual, gpu.stream());
      cu::synchronize(gpu.stream());
      CHECK(*static_cast<std::uint64_t*>(in_host.data()) == expected);
      CHECK(actual == expected);
    }
  }
}

TEST_CASE("CUDA operations refuse operands on the CPU", "[gpu][buffer_ops]") {
  std::vector<float> host(4);
  CHECK_THROWS_AS(cu::fill(buffer_of(host), 1, Stream{}), std::invalid_argument);
  CHECK_THROWS_AS(cu::copy(buffer_of(host), buffer_of(host, cuda_device(0)), Stream{}),
                  std::invalid_argument);
}

TEST_CASE("a copy between the host and a device casts on the host", "[gpu][buffer_ops]") {
  const Gpu gpu;
  const std::vector<float> values = {1, -0.5F, 3, 0x1p-9F, 65504};
  std::vector<float> source = values;
  for (const DType dtype : {DType::kFloat16, DType::kFloat64, DType::kFloat32}) {
    CAPTURE(to_string(dtype));
    const Allocation memory = cu::allocate_device(source.size() * size_of(dtype), gpu.device());
    const Buffer on_device{memory.data(), source.size(), dtype, gpu.device()};
    copy_and_wait(buffer_of(source), on_device, gpu.stream());
    std::vector<float> back(source.size());
    copy_and_wait(on_device, buffer_of(back), gpu.stream());
    CHECK(back == values);
  }
}
