// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ddp/base/allocation.h"
#include "ddp/collectives/process_group.h"
#include "ddp/cuda/cuda.h"

namespace ddp {

// A small array that exists in a group's memory and on the host. On the CPU both are one, and
// nothing is ever copied.
class HostMirror {
 public:
  HostMirror(ProcessGroup& group, std::size_t count, DType dtype);

  // In the group's memory.
  [[nodiscard]] const Buffer& buffer() const { return buffer_; }
  // On the host, to be written; waits for the last upload() and download().
  [[nodiscard]] void* outgoing();
  // On the host, as of the last download(); waits until that is there.
  [[nodiscard]] const void* arrived();

  void upload(Stream stream);
  // One after the other, from whatever streams.
  void download(Stream stream);
  // Orders `stream` behind the last download().
  void make_wait(Stream stream) const;

 private:
  Allocation memory_;
  Buffer buffer_;
  Allocation pinned_;  // CUDA, as the two events
  cu::Event uploaded_;
  cu::Event downloaded_;
};

}  // namespace ddp
