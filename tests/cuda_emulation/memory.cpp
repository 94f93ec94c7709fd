// SPDX-License-Identifier: MIT
#include "cuda_emulation/memory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

// Options of the address sanitizer: a small quarantine, so that freed memory is soon used again.
// Otherwise, tests that allocate much spend most of their time on page faults.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=16"; }

namespace ddp::emulation {
namespace {

// The leak sanitizer crashes at exit in a process with threads of OpenMP, which oneDNN starts.
[[maybe_unused]] const int one_openmp_thread = ::setenv("OMP_NUM_THREADS", "1", 1);

constexpr std::size_t kAlignment = 256;  // CUDA's promise
constexpr int kPoison = 0xA5;

struct Extent {
  std::size_t size_bytes;
  int device;  // or kPinned
};

struct Allocations {
  std::mutex mutex;
  std::map<const std::byte*, Extent> extents;  // by where they begin
  std::size_t used_bytes = 0;
};

// Never destroyed, since threads of streams may outlive main().
Allocations& allocations() {
  static auto* const all = new Allocations;
  return *all;
}

// The allocation that holds the byte, with its beginning.
std::optional<std::pair<const std::byte*, Extent>> find(const void* data) {
  const auto* const byte = static_cast<const std::byte*>(data);
  const std::lock_guard lock(allocations().mutex);
  const auto& extents = allocations().extents;
  auto after = extents.upper_bound(byte);
  if (after == extents.begin()) return std::nullopt;
  --after;
  if (byte >= after->first + after->second.size_bytes) return std::nullopt;
  return *after;
}

}  // namespace

std::size_t device_bytes() {
  constexpr std::size_t kDefault = std::size_t{16} << 30;
  const char* text = std::getenv("DDP_EMULATED_MEMORY");
  return text == nullptr ? kDefault : std::strtoull(text, nullptr, 10);
}

std::size_t used_bytes() {
  const std::lock_guard lock(allocations().mutex);
  return allocations().used_bytes;
}

void* allocate(std::size_t size_bytes, int device) {
  void* data = nullptr;
  const std::lock_guard lock(allocations().mutex);
  const std::size_t left = device_bytes() - allocations().used_bytes;
  if (size_bytes > left || posix_memalign(&data, kAlignment, size_bytes) != 0) return nullptr;
  std::memset(data, kPoison, size_bytes);
  allocations().extents[static_cast<std::byte*>(data)] = {size_bytes, device};
  allocations().used_bytes += size_bytes;
  return data;
}

bool release(void* data) {
  std::unique_lock lock(allocations().mutex);
  const auto found = allocations().extents.find(static_cast<std::byte*>(data));
  if (found == allocations().extents.end()) return false;
  allocations().used_bytes -= found->second.size_bytes;
  allocations().extents.erase(found);
  lock.unlock();
  std::free(data);
  return true;
}

int device_of(const void* data) {
  const auto found = find(data);
  return found ? found->second.device : kUnregistered;
}

Range classify(const void* data, std::size_t size_bytes) {
  const auto found = find(data);
  if (!found) return Range::kPageable;
  const std::byte* const end = found->first + found->second.size_bytes;
  return static_cast<const std::byte*>(data) + size_bytes <= end ? Range::kInside : Range::kBeyond;
}

}  // namespace ddp::emulation
