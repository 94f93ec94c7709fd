// SPDX-License-Identifier: MIT
#pragma once

struct CUstream_st;  // CUDA's: a cudaStream_t is a CUstream_st*

namespace ddp {

// A view of an execution queue. On CUDA it is a cudaStream_t, which converts implicitly; null is
// the device's default stream. On the CPU it is null, and work runs on the calling thread.
// cu::OwnedStream (ddp/cuda/cuda.h) owns a stream. Other pointers do not convert, such as that to
// a cudaStream_t.
struct Stream {
  CUstream_st* native = nullptr;

  constexpr Stream() = default;
  constexpr Stream(CUstream_st* handle) : native(handle) {}  // NOLINT: a cudaStream_t converts
};

}  // namespace ddp
