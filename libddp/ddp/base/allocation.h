// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "ddp/base/round_up.h"

namespace ddp {

// Owns memory of any kind. `release` gives the memory back and must not throw. Move-only.
class Allocation {
 public:
  using Release = std::function<void(void*)>;

  Allocation() = default;
  Allocation(void* data, std::size_t size_bytes, Release release)
      : data_(data), size_bytes_(size_bytes), release_(std::move(release)) {}
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    Allocation(std::move(other)).swap(*this);
    return *this;
  }
  ~Allocation() {
    if (data_ != nullptr && release_) release_(data_);
  }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }

 private:
  void swap(Allocation& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    release_.swap(other.release_);
  }

  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  Release release_;
};

inline constexpr std::size_t kHostAlignment = 64;

// Rounds up to kHostAlignment: the offset of the next block, where one allocation holds several.
[[nodiscard]] constexpr std::size_t host_aligned(std::size_t size_bytes) {
  return round_up(size_bytes, kHostAlignment);
}

// Zeroed host memory aligned to kHostAlignment; throws a std::bad_alloc that names the size.
[[nodiscard]] Allocation allocate_host(std::size_t size_bytes);

}  // namespace ddp
