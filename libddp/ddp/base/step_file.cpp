// SPDX-License-Identifier: MIT
#include "ddp/base/step_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdlib>

#include "ddp/base/socket.h"

namespace ddp {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint64_t>) <= StepFile::kSlotBytes);

// The size is checked first: touching a mapping beyond the end of its file would kill the process.
StepFile::StepFile(const std::string& path, int local_rank) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  const std::size_t size = static_cast<std::size_t>(local_rank + 1) * kSlotBytes;
  if (::fstat(file.get(), &info) != 0 || static_cast<std::size_t>(info.st_size) < size) return;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return;
  const std::shared_ptr<void> mapping(memory, [size](void* start) { ::munmap(start, size); });
  auto* slots = static_cast<std::byte*>(memory);
  slot_ = {mapping, reinterpret_cast<std::atomic<std::uint64_t>*>(slots + size - kSlotBytes)};
}

StepFile StepFile::from_environment(int local_rank) {
  const char* path = std::getenv("DDP_STEP_FILE");
  return path == nullptr || *path == '\0' ? StepFile() : StepFile(path, local_rank);
}

}  // namespace ddp
