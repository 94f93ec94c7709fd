// SPDX-License-Identifier: MIT
//
// The GPUs, of which each is "CPU emulation N", and their streams. DDP_EMULATED_GPUS tells how many
// there are; 1 unless set. If DDP_EMULATED_PRIORITIES is set, streams with a priority run their
// work at once, and so before that of streams for which they should have waited.
#pragma once

#include <memory>

#include "cuda_emulation/stream.h"

// What a cudaStream_t points at: a stream of the current device.
struct CUstream_st {
  explicit CUstream_st(ddp::emulation::Queue::Patience patience = ddp::emulation::Queue::kLate);
  ~CUstream_st() { queue->close(); }
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  const std::shared_ptr<ddp::emulation::Queue> queue;
};

namespace ddp::emulation {

extern constinit thread_local int current_device;

[[nodiscard]] int device_count();
// Of a stream of this priority.
[[nodiscard]] Queue::Patience patience_of(int priority);
// As queue_of(), for those who may need it longer than the handle lives.
[[nodiscard]] const std::shared_ptr<Queue>& shared_queue_of(cudaStream_t stream);
// Until all that is on streams of the current device has run.
void wait_for_device();

}  // namespace ddp::emulation
