// SPDX-License-Identifier: MIT
#include "ddp/buffer_ops/buffer_ops.h"

#include <stdexcept>
#include <string>

#include "ddp/buffer_ops/checks.h"
#include "ddp/buffer_ops/host_transfer.h"

namespace ddp {
namespace buffer_ops {
namespace {

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw std::invalid_argument("[buffer_ops] " + std::string(name) + ": " + why);
}

[[noreturn]] void refuse_pair(std::string_view name, const Buffer& source, const Buffer& target) {
  refuse(name, "source " + to_string(source) + " does not match target " + to_string(target));
}

}  // namespace

void check_device(std::string_view name, const Buffer& buffer, DeviceType type) {
  if (buffer.device.type == type) return;
  refuse(name, to_string(buffer) + " is not on " + (type == DeviceType::kCpu ? "the CPU" : "CUDA"));
}

void check_floating_point(std::string_view name, const Buffer& buffer) {
  if (is_floating_point(buffer.dtype)) return;
  refuse(name, to_string(buffer) + " is not of a floating-point type");
}

void check_same_count(std::string_view name, const Buffer& source, const Buffer& target,
                      DeviceType type) {
  check_device(name, target, type);
  if (source.count != target.count || source.device != target.device) {
    refuse_pair(name, source, target);
  }
}

void check_same(std::string_view name, const Buffer& source, const Buffer& target,
                DeviceType type) {
  check_same_count(name, source, target, type);
  if (source.dtype != target.dtype) refuse_pair(name, source, target);
}

}  // namespace buffer_ops

void fill(const Buffer& target, double value, Stream stream) {
  target.device.is_cuda() ? cu::fill(target, value, stream) : cpu::fill(target, value);
}

void copy(const Buffer& source, const Buffer& target, Stream stream) {
  target.device.is_cuda() ? cu::copy(source, target, stream) : cpu::copy(source, target);
}

void cast(const Buffer& source, const Buffer& target, Stream stream) {
  target.device.is_cuda() ? cu::cast(source, target, stream) : cpu::cast(source, target);
}

void scale(const Buffer& target, double factor, Stream stream) {
  target.device.is_cuda() ? cu::scale(target, factor, stream) : cpu::scale(target, factor);
}

void scale_by_value_at(const Buffer& target, const double* factor, Stream stream) {
  target.device.is_cuda() ? cu::scale_by_value_at(target, factor, stream)
                          : cpu::scale_by_value_at(target, factor);
}

void reduce(const Buffer& source, const Buffer& target, ReduceOp op, Stream stream) {
  target.device.is_cuda() ? cu::reduce(source, target, op, stream)
                          : cpu::reduce(source, target, op);
}

void reciprocal(const Buffer& target, Stream stream) {
  target.device.is_cuda() ? cu::reciprocal(target, stream) : cpu::reciprocal(target);
}

void is_finite(const Buffer& source, std::uint8_t* result, Stream stream) {
  source.device.is_cuda() ? cu::is_finite(source, result, stream) : cpu::is_finite(source, result);
}

void fingerprint(const Buffer& source, std::uint64_t* result, Stream stream) {
  source.device.is_cuda() ? cu::fingerprint(source, result, stream)
                          : cpu::fingerprint(source, result);
}

double item(const Buffer& source, Stream stream) {
  if (source.count != 1) {
    throw std::invalid_argument("[buffer_ops] item: " + to_string(source) +
                                " does not have exactly one element");
  }
  alignas(double) std::byte raw[sizeof(double)];
  const Buffer host{raw, 1, source.dtype, kCpuDevice};
  copy_and_wait(source, host, stream);
  double value = 0;
  cpu::cast(host, {&value, 1, DType::kFloat64, kCpuDevice});
  return value;
}

}  // namespace ddp
