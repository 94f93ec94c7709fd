// SPDX-License-Identifier: MIT
#include "launcher/run/worker_slots.h"

#include <sys/mman.h>
#include <unistd.h>

namespace ddp::launcher {

WorkerSlots::WorkerSlots(int local_world_size)
    : memory_(::memfd_create("ddp-workers", MFD_CLOEXEC)) {
  const auto size = static_cast<off_t>(local_world_size) * static_cast<off_t>(WorkerSlot::kBytes);
  if (::ftruncate(memory_.get(), size) != 0) memory_.reset();
}

std::string WorkerSlots::path() const {
  if (!memory_.is_open()) return "";
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory_.get());
}

WorkerSlot::Values WorkerSlots::read(int local_rank) const {
  return WorkerSlot::read(memory_.get(), local_rank);
}

}  // namespace ddp::launcher
