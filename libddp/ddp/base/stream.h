// SPDX-License-Identifier: MIT
#pragma once

namespace ddp {

// A view of an execution queue: null on the CPU (work happens on the calling thread), a
// cudaStream_t on CUDA, which converts by itself. Owning streams live in ddp/cuda/handles.h.
struct Stream {
  void* native = nullptr;

  constexpr Stream() = default;
  constexpr Stream(void* handle) : native(handle) {}  // NOLINT: a cudaStream_t converts
};

}  // namespace ddp
