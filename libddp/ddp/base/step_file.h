// SPDX-License-Identifier: MIT
//
// The last step that each worker of a host has begun, in memory that its launcher owns and can
// still read after the worker has been killed. DDP_STEP_FILE names the file. It has one slot of 64
// bytes for each local rank: first the step (1, 2, …; 0 before the first) in host byte order, then
// the fields of start_mark.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ddp {

// The slot of one worker.
class StepFile {
 public:
  static constexpr std::size_t kSlotBytes = 64;

  StepFile() = default;  // set() does nothing; also if the file cannot be mapped
  StepFile(const std::string& path, int local_rank);

  // The slot in DDP_STEP_FILE; without that variable, one whose set() does nothing.
  static StepFile from_environment(int local_rank);

  void set(std::uint64_t step) const {
    if (slot_) slot_->store(step, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> slot_;
};

}  // namespace ddp
