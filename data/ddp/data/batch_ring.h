// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/stream.h"
#include "ddp/cuda/cuda.h"
#include "ddp/data/batch.h"
#include "ddp/data/dataset.h"
#include "ddp/samplers/epoch_plan.h"

namespace ddp {

// A DataLoader's memory for several batches. On the CPU a slot is the batch itself. On CUDA a slot
// is pinned staging memory and device memory, and the ring copies from the first to the second on
// its own stream. Events order each copy behind the consumer's work on the slot's previous batch
// and before its work on the next. The host waits in one place only: fill() waits until the slot's
// last copy has left the staging memory, and that copy is as many batches old as the ring has
// slots.
//
// Threads may use different slots at the same time. Only reserve() allocates.
class BatchRing {
 public:
  // The dataset must outlive the ring. `dtype` is the type of the inputs.
  BatchRing(const Dataset& dataset, DType dtype, Device device, std::size_t slots);
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;
  ~BatchRing();

  // Makes every slot large enough for `samples` samples. Batches keep their addresses if the slots
  // are large enough already. No thread may use a slot meanwhile.
  void reserve(std::size_t samples);

  // Gathers the samples of a step of the plan and starts their copy to the device. If it is
  // cancelled, the slot has no batch.
  void fill(std::size_t slot, const EpochPlan& plan, std::int64_t step,
            const std::stop_token& cancelled);

  // The batch in the slot, ready for work on `stream`.
  [[nodiscard]] Batch acquire(std::size_t slot, Stream stream);

  // Orders the slot's next fill() behind the work that is on `stream` now.
  void release(std::size_t slot, Stream stream);

 private:
  struct Storage {
    Allocation inputs;
    Allocation labels;
  };

  struct Slot {
    std::vector<std::int64_t> samples;
    Batch batch;
    Storage host;
    Storage device;      // only on CUDA, like the events
    cu::Event copied;    // the batch is on the device
    cu::Event released;  // the consumer is done with it
  };

  void reserve(Slot& slot, std::size_t samples);
  [[nodiscard]] Batch view(const Storage& storage, Device device, std::size_t samples) const;
  [[nodiscard]] Batch copy_to_device(Slot& slot, const Batch& host);

  const Dataset& dataset_;
  DType dtype_;
  Device device_;
  std::size_t capacity_ = 0;  // samples
  cu::OwnedStream copies_;    // CUDA only
  std::vector<Slot> slots_;
};

}  // namespace ddp
