// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// A small array that exists in a group's memory and on the host. On the CPU both are the same
// memory, and nothing is copied.
class HostMirror {
 public:
  HostMirror(ProcessGroup& group, std::size_t count, DType dtype);

  // The array in the group's memory.
  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  // The host's copy, for writing; waits for the last upload() and download().
  [[nodiscard]] void* outgoing();
  // The host's copy as of the last download(); waits for that.
  [[nodiscard]] const void* arrived();

  void upload(Stream stream);
  // Downloads run one after the other, whatever their streams.
  void download(Stream stream);
  // Orders `stream` behind the last download().
  void make_wait(Stream stream) const;

 private:
  Allocation memory_;
  Buffer buffer_;
  Allocation pinned_;  // only on CUDA, like the events
  cu::Event uploaded_;
  cu::Event downloaded_;
};

}  // namespace ddp
