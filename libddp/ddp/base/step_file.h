// SPDX-License-Identifier: MIT
//
// The last step that each worker of a host has begun, in memory that its launcher owns and can read
// after the worker has been killed: DDP_STEP_FILE, one slot of 64 bytes for each local rank, which
// begins with the step (1, 2, …; 0 before the first) in host byte order; then start_mark.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ddp {

// A worker's slot.
class StepFile {
 public:
  static constexpr std::size_t kSlotBytes = 64;

  StepFile() = default;  // steps go nowhere, as they do if the file cannot be mapped
  StepFile(const std::string& path, int local_rank);

  // DDP_STEP_FILE, or nowhere.
  static StepFile from_environment(int local_rank);

  void set(std::uint64_t step) const {
    if (slot_) slot_->store(step, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> slot_;
};

}  // namespace ddp
