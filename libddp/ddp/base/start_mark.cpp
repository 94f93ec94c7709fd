// SPDX-License-Identifier: MIT
#include "ddp/base/start_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "ddp/base/socket.h"
#include "ddp/base/step_file.h"

namespace ddp {
namespace {

off_t position_of(int local_rank) {
  return static_cast<off_t>(local_rank) * static_cast<off_t>(StepFile::kSlotBytes) +
         static_cast<off_t>(sizeof(std::uint64_t));
}

}  // namespace

// Writes only to a slot that can be read, so a file without this slot is not extended.
void mark_start(int local_rank, StartPhase phase) noexcept {
  const char* path = std::getenv("DDP_STEP_FILE");
  if (path == nullptr || *path == '\0') return;
  const FileDescriptor file(::open(path, O_RDWR | O_CLOEXEC));
  StartPhase before{};
  const off_t position = position_of(local_rank);
  if (::pread(file.get(), &before, sizeof(before), position) != sizeof(before)) return;
  // Errors are ignored: the mark is only used for a remark.
  [[maybe_unused]] const ssize_t written = ::pwrite(file.get(), &phase, sizeof(phase), position);
}

StartPhase read_start_mark(int step_file_fd, int local_rank) noexcept {
  StartPhase phase{};
  const ssize_t size = ::pread(step_file_fd, &phase, sizeof(phase), position_of(local_rank));
  return size == sizeof(phase) ? phase : StartPhase::kNotThere;
}

}  // namespace ddp
