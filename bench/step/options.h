// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ddp/collectives/init.h"
#include "ddp/engine/bucket_layout.h"
#include "support/workload.h"

namespace ddp::bench {

struct StepBenchOptions {
  bool on_gpus = false;
  std::vector<std::string> models = {"mlp", "lenet5"};
  std::vector<Backend> backends = {Backend::kAuto};
  std::vector<std::size_t> min_buckets = {4};
  std::size_t bucket_mib = 0;  // BucketOptions::bucket_bytes_cap, with parts = 1; 0: the defaults
  int rounds = 300;
  int steps = 1;  // in one timing
  std::size_t batch = 64;
  std::size_t image_size = 0;
  DType dtype = DType::kFloat32;
  std::optional<DType> amp = {};
  Float32Precision float32_precision = Float32Precision::kIeee;

  [[nodiscard]] Workload workload(const std::string& model) const {
    return {model, batch, dtype, amp, image_size, float32_precision};
  }
  [[nodiscard]] BucketOptions buckets(std::size_t min) const {
    if (bucket_mib == 0) return {.min_buckets = min};
    return {.bucket_bytes_cap = bucket_mib << 20, .parts = 1, .min_buckets = min};
  }
};

// Returns nothing after --help. Throws std::invalid_argument for bad values, and Skipped if a GPU
// is requested but there is none.
[[nodiscard]] std::optional<StepBenchOptions> parse_step_bench_options(int argc, char** argv);

}  // namespace ddp::bench
