// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// A view of an execution queue. On CUDA it is a cudaStream_t, which converts by itself, and null
// is the default stream of the device. On the CPU it is null: work happens on the calling thread.
// cu::OwnedStream (ddp/cuda/cuda.h) owns one.
struct Stream {
  void* native = nullptr;

  constexpr Stream() = default;
  constexpr Stream(void* handle) : native(handle) {}  // NOLINT: a cudaStream_t converts
};

}  // namespace ddp
