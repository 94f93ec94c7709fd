// SPDX-License-Identifier: MIT
#include "launcher/processes/shared_memory.h"

#include <fmt/core.h>
#include <sys/statvfs.h>

namespace ddp::launcher {
namespace {

// Docker's default, which is often too little.
constexpr std::uint64_t kLittle = std::uint64_t{64} << 20;

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

// The dead process's own memory is free again, so a small total is suspicious, too.
std::string bus_error_hint(const FileSystemSpace& space) {
  const bool is_full = space.free_bytes < space.size_bytes / 50;
  if (space.size_bytes == 0 || (!is_full && space.size_bytes > kLittle)) return "";
  return fmt::format(
      "/dev/shm {} ({:.0f} of {:.0f} MiB free); in a container give it more, such as "
      "docker run --shm-size=8g",
      is_full ? "is full" : "is small", mebibytes(space.free_bytes), mebibytes(space.size_bytes));
}

std::string bus_error_hint() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) return "";
  return bus_error_hint({.size_bytes = std::uint64_t{info.f_frsize} * info.f_blocks,
                         .free_bytes = std::uint64_t{info.f_frsize} * info.f_bavail});
}

}  // namespace ddp::launcher
