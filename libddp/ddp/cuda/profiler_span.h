// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace ddp::cu {

// A stretch of the host's time that NVIDIA's profilers show under its name (NVTX), until it ends or
// is destroyed, on whatever thread. With no profiler attached it costs a few nanoseconds; in a
// build without CUDA it is nothing.
class ProfilerSpan {
 public:
  ProfilerSpan() = default;
  explicit ProfilerSpan(const char* name) { begin(name); }
  ~ProfilerSpan() { end(); }
  ProfilerSpan(const ProfilerSpan&) = delete;
  ProfilerSpan& operator=(const ProfilerSpan&) = delete;

  // Ends what is open first.
  void begin(const char* name) noexcept;
  void end() noexcept;

 private:
  std::uint64_t id_ = 0;
  bool is_open_ = false;
};

}  // namespace ddp::cu
