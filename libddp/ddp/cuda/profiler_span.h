// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

namespace ddp::cu {

// A stretch of the host's time that NVIDIA's profilers show under its name (NVTX), until it ends or
// is destroyed, on whatever thread. With no profiler attached it costs a few nanoseconds; in a
// build without CUDA it is nothing.
class ProfilerSpan {
 public:
  ProfilerSpan() = default;
  explicit ProfilerSpan(const char* name);
  ProfilerSpan(ProfilerSpan&& other) noexcept
      : id_(other.id_), is_open_(std::exchange(other.is_open_, false)) {}
  ProfilerSpan& operator=(ProfilerSpan&& other) noexcept {
    if (this == &other) return *this;
    end();
    id_ = other.id_;
    is_open_ = std::exchange(other.is_open_, false);
    return *this;
  }
  ~ProfilerSpan() { end(); }

  void end() noexcept;

 private:
  std::uint64_t id_ = 0;
  bool is_open_ = false;
};

}  // namespace ddp::cu
