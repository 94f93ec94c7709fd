// SPDX-License-Identifier: MIT
#include "cuda_emulation/memory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

// Options of the address sanitizer: a small quarantine, so that freed memory is soon used again.
// Otherwise, tests that allocate much spend most of their time on page faults.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=16"; }

namespace ddp::emulation {
namespace {

constexpr std::size_t kDeviceBytes = std::size_t{16} << 30;
constexpr std::size_t kAlignment = 256;  // CUDA's promise
constexpr int kPoison = 0xA5;

struct Allocations {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> sizes;
};

// Never destroyed, since threads of streams may outlive main().
Allocations& allocations() {
  static auto* const all = new Allocations;
  return *all;
}

}  // namespace

void* allocate(std::size_t size_bytes) {
  void* data = nullptr;
  if (size_bytes > kDeviceBytes || posix_memalign(&data, kAlignment, size_bytes) != 0) {
    return nullptr;
  }
  std::memset(data, kPoison, size_bytes);
  const std::lock_guard lock(allocations().mutex);
  allocations().sizes[static_cast<std::byte*>(data)] = size_bytes;
  return data;
}

bool release(void* data) {
  std::unique_lock lock(allocations().mutex);
  const bool is_known = allocations().sizes.erase(static_cast<std::byte*>(data)) == 1;
  lock.unlock();
  if (is_known) std::free(data);
  return is_known;
}

Range classify(const void* data, std::size_t size_bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(allocations().mutex);
  const auto& sizes = allocations().sizes;
  auto after = sizes.upper_bound(begin);
  if (after == sizes.begin()) return Range::kPageable;
  const auto& [first, size] = *--after;
  if (begin >= first + size) return Range::kPageable;
  return begin + size_bytes <= first + size ? Range::kInside : Range::kBeyond;
}

}  // namespace ddp::emulation
