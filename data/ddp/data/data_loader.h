// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ddp/base/allocation.h"
#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"
#include "ddp/cuda/cuda.h"
#include "ddp/data/dataset.h"
#include "ddp/samplers/epoch_plan.h"

namespace ddp {

// One step's samples on this rank.
struct Batch {
  Buffer inputs;                  // count * input_shape elements
  Buffer labels;                  // count * label_shape elements, int64
  std::int64_t step = 0;          // within the plan
  std::int64_t count = 0;         // 0 if other ranks have this step's samples
  std::int64_t global_count = 0;  // on all ranks together
};

struct BatchLoaderOptions {
  DType dtype = DType::kFloat32;  // of the inputs
  Device device = kCpuDevice;     // where batches are delivered
};

// Delivers the batches of an epoch in the order of its plan:
//
//   loader.start(sampler.next_epoch());
//   while (const auto batch = loader.next(stream)) train(*batch);
//
// Buffers keep their addresses until a plan needs larger ones. Not thread-safe.
class BatchLoader {
 public:
  // The dataset must outlive the loader.
  BatchLoader(const Dataset& dataset, const BatchLoaderOptions& options);

  // Begins an epoch, or what is left of one; what remains of the last plan is forgotten.
  void start(EpochPlan plan);

  // The next batch, or nothing after the last one. It is ready for work on `stream` and stays valid
  // until the next call, which must name the same stream. std::logic_error before start().
  [[nodiscard]] std::optional<Batch> next(Stream stream = {});

  // The plan of the epoch that was started. std::logic_error before start().
  [[nodiscard]] const EpochPlan& plan() const;

 private:
  struct Storage {
    Allocation inputs;
    Allocation labels;
  };

  void reserve(std::size_t samples);
  [[nodiscard]] Batch view(const Storage& storage, Device device, std::size_t samples) const;
  [[nodiscard]] Batch copy_to_device(const Batch& host, Stream stream);

  const Dataset& dataset_;
  BatchLoaderOptions options_;
  std::optional<EpochPlan> plan_;
  std::int64_t step_ = 0;
  std::size_t capacity_ = 0;  // samples
  Storage host_;
  Storage device_;    // CUDA only
  cu::Event copied_;  // CUDA only: the last batch has left host_
};

}  // namespace ddp
