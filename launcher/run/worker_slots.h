// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/system/worker_slot.h"

namespace ddp::launcher {

// The memory that this node's workers write to: see ddp/base/system/worker_slot.h. It has no name,
// so it ends with the last process that has it open.
class WorkerSlots {
 public:
  // All slots are empty. Where there is no such memory they stay empty.
  explicit WorkerSlots(int local_world_size);

  // For DDP_WORKER_SLOTS; empty: there is none.
  [[nodiscard]] std::string path() const;

  // What the worker has written so far.
  [[nodiscard]] WorkerSlot::Values read(int local_rank) const;

 private:
  FileDescriptor memory_;
};

}  // namespace ddp::launcher
