// SPDX-License-Identifier: MIT
#include "launcher/step_board.h"

#include <sys/mman.h>
#include <unistd.h>

#include "ddp/base/step_file.h"

namespace ddp::launcher {

StepBoard::StepBoard(int local_world_size) : memory_(::memfd_create("ddp-steps", MFD_CLOEXEC)) {
  const auto size = static_cast<off_t>(local_world_size) * static_cast<off_t>(StepFile::kSlotBytes);
  if (::ftruncate(memory_.get(), size) != 0) memory_.reset();
}

std::string StepBoard::path() const {
  if (!memory_.is_open()) return "";
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory_.get());
}

std::optional<std::int64_t> StepBoard::step(int local_rank) const {
  std::int64_t step = 0;
  const auto at = static_cast<off_t>(local_rank) * static_cast<off_t>(StepFile::kSlotBytes);
  const bool is_read = ::pread(memory_.get(), &step, sizeof(step), at) == sizeof(step);
  return is_read && step > 0 ? std::optional(step) : std::nullopt;
}

StartPhase StepBoard::start_phase(int local_rank) const {
  return read_start_mark(memory_.get(), local_rank);
}

}  // namespace ddp::launcher
