// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/stream.h"
#include "ddp/cuda/cuda.h"
#include "ddp/data/batch.h"
#include "ddp/data/dataset.h"
#include "ddp/samplers/epoch_plan.h"

namespace ddp {

// Memory for several batches, a DataLoader's. On the CPU a slot is the batch itself. On CUDA it is
// pinned staging memory and device memory; a stream of the ring's own copies from one to the other.
// Events order those copies behind the consumer's work on the slot's last batch and before its work
// on the next, so that the host waits in one place only: fill(), for the slot's last copy to have
// left the staging memory, which was as many batches ago as there are slots.
//
// Threads may use different slots at the same time. Nothing is allocated but by reserve().
class BatchRing {
 public:
  // The dataset must outlive the ring. `dtype` is that of the inputs.
  BatchRing(const Dataset& dataset, DType dtype, Device device, std::size_t slots);
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;
  ~BatchRing();

  // Makes every slot large enough for that many samples; batches keep their addresses if they are
  // already. While no thread uses a slot.
  void reserve(std::size_t samples);

  // Gathers the samples of a step of the plan and begins their way to the device.
  void fill(std::size_t slot, const EpochPlan& plan, std::int64_t step);

  // The batch that was filled in, ready for work on `stream`.
  [[nodiscard]] Batch acquire(std::size_t slot, Stream stream);

  // What is filled in next does not disturb the work that is on `stream` by now.
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
    Storage device;      // CUDA only, as what follows
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
