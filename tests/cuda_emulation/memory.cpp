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

// The leak sanitizer crashes at exit in a process with threads of OpenMP, which oneDNN starts.
[[maybe_unused]] const int one_openmp_thread = ::setenv("OMP_NUM_THREADS", "1", 1);

constexpr std::size_t kAlignment = 256;  // CUDA's promise
constexpr int kPoison = 0xA5;

struct Allocations {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> sizes;
  std::size_t used_bytes = 0;
};

// Never destroyed, since threads of streams may outlive main().
Allocations& allocations() {
  static auto* const all = new Allocations;
  return *all;
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

void* allocate(std::size_t size_bytes) {
  void* data = nullptr;
  const std::lock_guard lock(allocations().mutex);
  const std::size_t left = device_bytes() - allocations().used_bytes;
  if (size_bytes > left || posix_memalign(&data, kAlignment, size_bytes) != 0) return nullptr;
  std::memset(data, kPoison, size_bytes);
  allocations().sizes[static_cast<std::byte*>(data)] = size_bytes;
  allocations().used_bytes += size_bytes;
  return data;
}

bool release(void* data) {
  std::unique_lock lock(allocations().mutex);
  const auto found = allocations().sizes.find(static_cast<std::byte*>(data));
  if (found == allocations().sizes.end()) return false;
  allocations().used_bytes -= found->second;
  allocations().sizes.erase(found);
  lock.unlock();
  std::free(data);
  return true;
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
