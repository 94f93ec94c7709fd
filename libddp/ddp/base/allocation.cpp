// SPDX-License-Identifier: MIT
#include "ddp/base/allocation.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace ddp {

Allocation allocate_host(std::size_t size_bytes) {
  const std::size_t rounded = (size_bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  if (rounded == 0) return {};
  void* data = std::aligned_alloc(kHostAlignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return {data, size_bytes, [](void* memory) { std::free(memory); }};
}

}  // namespace ddp
