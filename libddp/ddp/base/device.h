// SPDX-License-Identifier: MIT
#pragma once

#if __cplusplus < 202002L
#error "libddp needs C++20. CMake 3.25 ignores CUDA_STANDARD 20: nvcc needs the option -std=c++20"
#endif

#include <string>

namespace ddp {

enum class DeviceType { kCpu, kCuda };

// Where a buffer lives. `index` counts the GPUs in CUDA_VISIBLE_DEVICES; it is 0 for the CPU.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  [[nodiscard]] constexpr bool is_cuda() const { return type == DeviceType::kCuda; }
  friend constexpr bool operator==(Device, Device) = default;
};

inline constexpr Device kCpuDevice{};

[[nodiscard]] constexpr Device cuda_device(int index) { return {DeviceType::kCuda, index}; }

// "cpu" or "cuda:1".
[[nodiscard]] inline std::string to_string(Device device) {
  return device.is_cuda() ? "cuda:" + std::to_string(device.index) : "cpu";
}

}  // namespace ddp
