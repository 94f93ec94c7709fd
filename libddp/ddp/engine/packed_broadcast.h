// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// Gives every rank rank 0's values of many buffers. Small ones travel together, since each
// operation costs some microseconds, or a hundred over tcp, and a model may have hundreds of
// batch-norm statistics. All ranks construct it with buffers of equal sizes.
class PackedBroadcast {
 public:
  // The buffers stay the caller's. `group` must outlive this object.
  PackedBroadcast(ProcessGroup& group, std::span<const Buffer> values);

  // Orders `stream` behind the new values. Collective. Returns the last operation, which on CUDA
  // may be followed by copies on `stream`; its group is null if there was nothing to broadcast.
  Work run(Stream stream);

 private:
  [[nodiscard]] bool is_packed(const Buffer& value) const;
  [[nodiscard]] Buffer slot(const Buffer& value, std::size_t offset) const;
  Work broadcast(std::span<const Buffer> packed, std::size_t size_bytes, Stream stream);

  ProcessGroup& group_;
  std::vector<Buffer> unpacked_;  // each travels by itself
  std::vector<Buffer> packed_;
  Allocation memory_;  // for one pack
};

// Gives every rank rank 0's values, once. Collective; returns when they are there.
void broadcast_values(ProcessGroup& group, std::span<const Buffer> values);

}  // namespace ddp
