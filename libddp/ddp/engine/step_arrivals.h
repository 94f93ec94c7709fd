// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// What the ranks have added up in the last steps, on its way from a CUDA device to the host, which
// runs ahead of it. A queue in the order of the steps.
class StepArrivals {
 public:
  enum class Wait { kNo, kYes };

  // Always empty.
  StepArrivals() = default;
  // Of `count` numbers each.
  StepArrivals(Device device, std::size_t count);

  // So many steps may be in the queue.
  static constexpr std::size_t kCapacity = 16;
  [[nodiscard]] bool is_full() const { return size_ == kCapacity; }

  // Copies the numbers, which are on the device, behind the work that `stream` holds now. To be
  // called unless the queue is full.
  void copy(const double* numbers, Stream stream);
  // Work enqueued on `consumer` from now on runs behind the copy.
  void make_wait(Stream consumer) const { next().copied.make_wait(consumer); }
  // Puts what was copied last into the queue.
  void push() { ++size_; }

  // The numbers of the first step in the queue. Null if there is none, or none that has arrived
  // without a wait.
  [[nodiscard]] double* front(Wait wait) const { return size_ == 0 ? nullptr : arrived(wait); }
  void pop();

 private:
  struct Arrival {
    double* numbers;
    cu::Event copied;
  };

  [[nodiscard]] const Arrival& next() const { return ring_[(first_ + size_) % kCapacity]; }
  [[nodiscard]] double* arrived(Wait wait) const;

  std::size_t size_ = 0;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  Allocation memory_;  // pinned
  std::vector<Arrival> ring_;
};

}  // namespace ddp
