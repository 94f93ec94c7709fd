// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace ddp::cu {

// A time span on the host, shown by NVIDIA's profilers under its name (NVTX). It lasts until end()
// or the destructor, which may run on another thread than begin(). Without an attached profiler it
// costs a few nanoseconds; in a build without CUDA it does nothing.
class ProfilerSpan {
 public:
  ProfilerSpan() = default;
  explicit ProfilerSpan(const char* name) { begin(name); }
  ~ProfilerSpan() { end(); }
  ProfilerSpan(const ProfilerSpan&) = delete;
  ProfilerSpan& operator=(const ProfilerSpan&) = delete;

  // Starts a span; ends the open one first, if any.
  void begin(const char* name) noexcept;
  void end() noexcept;

 private:
  std::uint64_t id_ = 0;
  bool is_open_ = false;
};

}  // namespace ddp::cu
