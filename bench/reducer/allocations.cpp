// SPDX-License-Identifier: MIT
#include "reducer/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};

void* counted(void* memory) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The other forms of new call one of these two.
void* operator new(std::size_t size_bytes) {
  return counted(std::malloc(size_bytes == 0 ? 1 : size_bytes));
}
void* operator new(std::size_t size_bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (size_bytes + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace ddp::bench {

std::uint64_t allocation_count() { return count.load(std::memory_order_relaxed); }

}  // namespace ddp::bench
