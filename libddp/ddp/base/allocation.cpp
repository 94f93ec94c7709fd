// SPDX-License-Identifier: MIT
#include "ddp/base/allocation.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace ddp {
namespace {

// Large memory gets huge pages: looking up many small pages takes time (docs/benchmarks.md,
// Training).
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Allocation allocate_host(std::size_t size_bytes) {
  if (size_bytes > std::numeric_limits<std::size_t>::max() - kHostAlignment) throw std::bad_alloc();
  const std::size_t rounded = host_aligned(size_bytes);
  if (rounded == 0) return {};
  const bool is_large = rounded >= kHugePage;
  void* data = nullptr;
  if (::posix_memalign(&data, is_large ? kHugePage : kHostAlignment, rounded) != 0) {
    throw std::bad_alloc();
  }
  if (is_large) (void)::madvise(data, rounded, MADV_HUGEPAGE);  // if the kernel supports them
  std::memset(data, 0, rounded);
  return {data, size_bytes, [](void* memory) { std::free(memory); }};
}

}  // namespace ddp
