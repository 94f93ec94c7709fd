// SPDX-License-Identifier: MIT
#include "all_reduce/checker.h"

#include <algorithm>
#include <cmath>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/cuda/cuda.h"

namespace ddp::bench {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

// 1, 2, 3, 1, ... shifted by the rank. For products: 2 on rank 0 at odd indices, 1 elsewhere.
double pattern(std::size_t index, int rank, ReduceOp op) {
  if (op == ReduceOp::kProduct) return rank == 0 && index % 2 == 1 ? 2 : 1;
  return static_cast<double>(1 + (index + static_cast<std::size_t>(rank)) % 3);
}

double combine(double a, double b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      break;
  }
  return a + b;
}

double expected(std::size_t index, int world_size, ReduceOp op) {
  double value = pattern(index, 0, op);
  for (int rank = 1; rank < world_size; ++rank)
    value = combine(value, pattern(index, rank, op), op);
  return op == ReduceOp::kAverage ? value / world_size : value;
}

// One unit in the last place of a value below 4.
double tolerance(DType dtype, ReduceOp op) {
  if (op != ReduceOp::kAverage) return 0;
  const int digits = dtype == DType::kBFloat16 ? 6 : dtype == DType::kFloat16 ? 9 : 22;
  return std::ldexp(1, -digits);
}

// Calls f(first index, count) for one block after the other.
template <class F>
void for_each_block(std::size_t count, F&& f) {
  for (std::size_t first = 0; first < count; first += kBlock)
    f(first, std::min(kBlock, count - first));
}

void copy_and_wait(const Buffer& source, const Buffer& target) {
  cu::copy_async(target.data, source.data, source.size_bytes(), {});
  cu::synchronize({});
}

}  // namespace

Checker::Checker(Device device) : device_(device), host_(allocate_host(kBlock * sizeof(double))) {
  if (device.is_cuda()) device_memory_ = cu::allocate_device(kBlock * sizeof(double), device);
}

Buffer Checker::host_block(std::size_t count) const {
  return {host_.data(), count, DType::kFloat64, kCpuDevice};
}

Buffer Checker::device_block(std::size_t count) const {
  if (!device_.is_cuda()) return host_block(count);
  return {device_memory_.data(), count, DType::kFloat64, device_};
}

void Checker::fill(const Buffer& target, int rank, ReduceOp op) {
  for_each_block(target.count, [&](std::size_t first, std::size_t count) {
    const Buffer values = host_block(count);
    for (std::size_t i = 0; i < count; ++i) values.as<double>()[i] = pattern(first + i, rank, op);
    if (device_.is_cuda()) copy_and_wait(values, device_block(count));
    cast(device_block(count), target.slice(first, count));
  });
  if (device_.is_cuda()) cu::synchronize({});
}

std::size_t Checker::count_wrong(const Buffer& result, int world_size, ReduceOp op) {
  std::size_t wrong = 0;
  for_each_block(result.count, [&](std::size_t first, std::size_t count) {
    cast(result.slice(first, count), device_block(count));
    const Buffer values = host_block(count);
    if (device_.is_cuda()) copy_and_wait(device_block(count), values);
    for (std::size_t i = 0; i < count; ++i) {
      const double error = values.as<double>()[i] - expected(first + i, world_size, op);
      if (!(std::abs(error) <= tolerance(result.dtype, op))) ++wrong;  // counts a NaN, too
    }
  });
  return wrong;
}

}  // namespace ddp::bench
