// SPDX-License-Identifier: MIT
#include "engine/device_parts.h"

#include "engine/parts.h"

namespace ddp::bench {

Workload device_workload() { return {.model = "resnet18", .batch = 64, .image_size = 224}; }

Labels labels_of(const Workload& workload) {
  return {{"model", workload.model},
          {"batch", static_cast<double>(workload.batch)},
          {"image", static_cast<double>(workload.sizes().image.height)},
          {"precision", workload.precision()}};
}

std::vector<Part> device_parts(const std::filesystem::path& step_svg) {
  const auto overlap = [step_svg](int rounds) { measure_device_overlap(rounds, step_svg); };
  return {{"clock", measure_device_clock, 1000},
          {"host", measure_device_host_time, 300},
          {"alone", measure_device_alone, 30},
          {"work", measure_device_work, 1},
          {"overlap", overlap, 12},
          {"gemm", measure_gemm_beside, 20}};
}

}  // namespace ddp::bench
