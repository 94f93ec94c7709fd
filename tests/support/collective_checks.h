// SPDX-License-Identifier: MIT
//
// Checks that a group's collectives are exact. The operands are small integers, whose sums are
// exact.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"
#include "support/run_ranks.h"

namespace ddp::test {

// A vector of any dtype on any device, which is read and written as double. Device work on it is
// ordered by the device's default stream.
class Values {
 public:
  Values(DType dtype, std::size_t count, Device device = kCpuDevice)
      : host_(count * size_of(dtype) + 1), host_buffer_{host_.data(), count, dtype, kCpuDevice} {
    if (!device.is_cuda()) return;
    device_ = cu::allocate_device(host_buffer_.size_bytes(), device);
    device_buffer_ = {device_.data(), count, dtype, device};
  }

  [[nodiscard]] const Buffer& buffer() const { return on_device() ? device_buffer_ : host_buffer_; }

  template <class ValueAt>
  void fill(const ValueAt& value_at) {
    dispatch(host_buffer_.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* elements = host_buffer_.as<T>().data();
      for (std::size_t i = 0; i < host_buffer_.count; ++i) {
        elements[i] = static_cast<T>(static_cast<float>(value_at(i)));
      }
    });
    if (on_device()) copy(device_buffer_.data, host_.data());
  }

  [[nodiscard]] std::vector<double> read() {
    if (on_device()) copy(host_.data(), device_buffer_.data);
    std::vector<double> values(host_buffer_.count);
    cpu::cast(host_buffer_, buffer_of(values));
    return values;
  }

 private:
  [[nodiscard]] bool on_device() const { return device_buffer_.device.is_cuda(); }
  void copy(void* to, const void* from) const {
    const cu::DeviceGuard guard(device_buffer_.device);
    cu::copy_async(to, from, host_buffer_.size_bytes(), {});
    cu::synchronize({});
  }

  std::vector<std::byte> host_;
  Buffer host_buffer_;
  Allocation device_;
  Buffer device_buffer_;
};

// The element i of rank r's operand: 1, 2 or 3.
inline double element(int rank, std::size_t i) {
  return static_cast<double>(1 + (static_cast<std::size_t>(rank) * 5 + i) % 3);
}

// This rank's operand.
inline Values filled(const ProcessGroup& group, DType dtype, std::size_t count) {
  Values values(dtype, count, group.device());
  values.fill([&](std::size_t i) { return element(group.rank(), i); });
  return values;
}

inline double reduced(ReduceOp op, int world_size, std::size_t i) {
  double result = element(0, i);
  for (int rank = 1; rank < world_size; ++rank) {
    const double term = element(rank, i);
    if (op == ReduceOp::kProduct) {
      result *= term;
    } else if (op == ReduceOp::kMin) {
      result = std::min(result, term);
    } else if (op == ReduceOp::kMax) {
      result = std::max(result, term);
    } else {
      result += term;
    }
  }
  return op == ReduceOp::kAverage ? result / world_size : result;
}

// Averages of 16-bit types are rounded; sums of small integers are not.
inline double rounded(DType dtype, double value) {
  Values one(dtype, 1);
  one.fill([&](std::size_t) { return value; });
  return one.read()[0];
}

// The same function of an element's index, for one that depends on the operands' elements only:
// those repeat themselves with a period of three.
template <class F>
auto repeated(const F& value_at) {
  return [all = std::array{value_at(std::size_t{0}), value_at(std::size_t{1}),
                           value_at(std::size_t{2})}](std::size_t i) { return all[i % 3]; };
}

// Throws unless values[i] == wanted(i) for all i.
template <class Wanted>
inline void expect_all(Values& values, const char* what, const Wanted& wanted) {
  const std::vector<double> all = values.read();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == wanted(i)) continue;
    throw std::runtime_error(std::string(what) + "[" + std::to_string(i) + "] is " +
                             std::to_string(all[i]) + ", not " + std::to_string(wanted(i)));
  }
}

inline bool applies(ReduceOp op, DType dtype) {
  return op != ReduceOp::kAverage || is_floating_point(dtype);
}

inline void check_reductions(ProcessGroup& group, DType dtype, std::size_t count, ReduceOp op,
                             int root) {
  const int world = group.world_size();
  const auto ranks = static_cast<std::size_t>(world);
  Values all = filled(group, dtype, count);
  group.all_reduce(all.buffer(), op).wait();
  Values rooted = filled(group, dtype, count);
  group.reduce(rooted.buffer(), root, op).wait();
  Values input = filled(group, dtype, count * ranks);
  Values share(dtype, count, group.device());
  group.reduce_scatter(input.buffer(), share.buffer(), op).wait();
  const bool is_exact = op != ReduceOp::kAverage;
  const auto result = repeated([&](std::size_t i) {
    const double value = reduced(op, world, i);
    return is_exact ? value : rounded(dtype, value);
  });
  const bool is_root = group.rank() == root;
  expect_all(all, "all_reduce", result);
  expect_all(rooted, "reduce",
             [&](std::size_t i) { return is_root ? result(i) : element(group.rank(), i); });
  const std::size_t offset = static_cast<std::size_t>(group.rank()) * count;
  expect_all(share, "reduce_scatter", [&](std::size_t i) { return result(offset + i); });
}

inline void check_exchanges(ProcessGroup& group, DType dtype, std::size_t count, int root) {
  const int world = group.world_size();
  const auto ranks = static_cast<std::size_t>(world);
  const auto rank = static_cast<std::size_t>(group.rank());
  Values sent = filled(group, dtype, count);
  group.broadcast(sent.buffer(), root).wait();
  Values own = filled(group, dtype, count);
  Values gathered(dtype, count * ranks, group.device());
  group.all_gather(own.buffer(), gathered.buffer()).wait();
  Values at_root(dtype, count * ranks, group.device());
  group.gather(own.buffer(), at_root.buffer(), root).wait();
  Values whole = filled(group, dtype, count * ranks);
  Values scattered(dtype, count, group.device());
  group.scatter(whole.buffer(), scattered.buffer(), root).wait();
  Values exchanged(dtype, count * ranks, group.device());
  group.all_to_all(whole.buffer(), exchanged.buffer()).wait();
  const auto source = [&](std::size_t i) { return static_cast<int>(i / count); };
  expect_all(sent, "broadcast", [&](std::size_t i) { return element(root, i); });
  expect_all(scattered, "scatter", [&](std::size_t i) { return element(root, rank * count + i); });
  expect_all(gathered, "all_gather", [&](std::size_t i) { return element(source(i), i % count); });
  expect_all(at_root, "gather", [&](std::size_t i) {
    return group.rank() == root ? element(source(i), i % count) : 0;
  });
  expect_all(exchanged, "all_to_all",
             [&](std::size_t i) { return element(source(i), rank * count + i % count); });
}

inline void check_reductions(ProcessGroup& group, DType dtype, std::size_t count, ReduceOp op) {
  check_reductions(group, dtype, count, op, group.world_size() - 1);
}

inline void check_exchanges(ProcessGroup& group, DType dtype, std::size_t count) {
  check_exchanges(group, dtype, count, group.world_size() / 2);
}

// Each rank sends to the next rank and receives from the previous one, all at the same time.
inline void check_ring(ProcessGroup& group, DType dtype, std::size_t count) {
  const int world = group.world_size();
  if (world == 1) return;
  const int before = (group.rank() + world - 1) % world;
  Values outgoing = filled(group, dtype, count);
  Values incoming(dtype, count, group.device());
  auto batch = group.batch();
  static_cast<void>(group.send(outgoing.buffer(), (group.rank() + 1) % world));
  static_cast<void>(group.recv(incoming.buffer(), before));
  batch.end().wait();
  expect_all(incoming, "recv", [&](std::size_t i) { return element(before, i); });
}

// Checks every collective with every reduction.
inline void check_all(ProcessGroup& group, DType dtype, std::size_t count) {
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
    if (applies(op, dtype)) check_reductions(group, dtype, count, op);
  }
  check_exchanges(group, dtype, count);
  check_ring(group, dtype, count);
}

}  // namespace ddp::test
