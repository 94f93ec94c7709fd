// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// A view of an execution queue. On CUDA it is a cudaStream_t, which converts implicitly; null is
// the device's default stream. On the CPU it is null, and work runs on the calling thread.
// cu::OwnedStream (ddp/cuda/cuda.h) owns a stream.
struct Stream {
  void* native = nullptr;

  constexpr Stream() = default;
  constexpr Stream(void* handle) : native(handle) {}  // NOLINT: a cudaStream_t converts
};

}  // namespace ddp
