// SPDX-License-Identifier: MIT
//
// The emulated GPUs, named "CPU emulation N", and their streams. DDP_EMULATED_GPUS sets their
// number; the default is 1. If DDP_EMULATED_PRIORITIES is set, streams with a priority run their
// work at once, and so before the work of streams for which they should have waited. The patience
// of the others is DDP_EMULATED_PATIENCE in milliseconds; the default is 10.
//
// As in CUDA, a process has no context on a device before the first call for it that needs one.
#pragma once

#include <memory>

#include "cuda_emulation/stream.h"

// The object behind a cudaStream_t: a stream of the current device.
struct CUstream_st {
  explicit CUstream_st(int priority = 0, bool is_ordered = false);
  ~CUstream_st() { queue->close(); }
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  const int device;
  const bool is_ordered_with_default;
  const std::shared_ptr<ddp::emulation::Queue> queue;
};

namespace ddp::emulation {

extern constinit thread_local int current_device;

[[nodiscard]] int device_count();
// Calls that need a context of the current device create it.
void use_current_device();
[[nodiscard]] bool has_context(int device);
// The device of a stream; the default streams belong to the current device.
[[nodiscard]] int device_of(cudaStream_t stream);
// The queue of a handle. Orders it with the default stream, if CUDA does so, for what the caller is
// about to push. Like queue_of(), for callers that may use the queue after the handle is destroyed.
[[nodiscard]] const std::shared_ptr<Queue>& shared_queue_of(cudaStream_t stream);
// Waits until all work on streams of the current device has run.
void wait_for_device();

}  // namespace ddp::emulation
