// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// A small array that exists both in a group's memory and on the host. On the CPU the two are the
// same memory, and nothing is copied.
class HostMirror {
 public:
  HostMirror(ProcessGroup& group, std::size_t count, DType dtype);

  // The array in the group's memory.
  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  // The array on the host, for writing. Waits until the last upload() and download() have ended.
  [[nodiscard]] void* outgoing();
  // The array on the host as the last download() copied it. Waits until that copy has ended.
  [[nodiscard]] const void* arrived();

  void upload(Stream stream);
  // Downloads run one after the other, whichever streams they are on.
  void download(Stream stream);
  // Orders `stream` behind the last download().
  void make_wait(Stream stream) const;

 private:
  Allocation memory_;
  Buffer buffer_;
  Allocation pinned_;  // CUDA only, like the two events
  cu::Event uploaded_;
  cu::Event downloaded_;
};

}  // namespace ddp
