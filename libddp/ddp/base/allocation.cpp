// SPDX-License-Identifier: MIT
#include "ddp/base/allocation.h"

#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace ddp {
namespace {

// Large memory gets huge pages: looking up many small pages takes time (docs/benchmarks.md,
// Training).
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Says how much was asked for, in memory of its own.
class OutOfHostMemory : public std::bad_alloc {
 public:
  explicit OutOfHostMemory(std::size_t size_bytes) noexcept {
    std::snprintf(text_.data(), text_.size(), "cannot allocate %zu bytes of host memory",
                  size_bytes);
  }
  [[nodiscard]] const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 64> text_{};
};

}  // namespace

Allocation allocate_host(std::size_t size_bytes) {
  if (size_bytes > std::numeric_limits<std::size_t>::max() - kHostAlignment) {
    throw OutOfHostMemory(size_bytes);
  }
  const std::size_t rounded = host_aligned(size_bytes);
  if (rounded == 0) return {};
  const bool is_large = rounded >= kHugePage;
  void* data = nullptr;
  if (::posix_memalign(&data, is_large ? kHugePage : kHostAlignment, rounded) != 0) {
    throw OutOfHostMemory(size_bytes);
  }
  if (is_large) (void)::madvise(data, rounded, MADV_HUGEPAGE);  // if the kernel supports them
  std::memset(data, 0, rounded);
  return {data, size_bytes, [](void* memory) { std::free(memory); }};
}

}  // namespace ddp
