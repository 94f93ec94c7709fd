// SPDX-License-Identifier: MIT
//
// The loader's batches on the device, compared with those on the CPU. The consumer lags behind the
// host: it copies each batch back on its own stream, and the host waits only at the end of the
// epoch.
#include <catch2/catch.hpp>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "ddp/data/data_loader.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/images.h"

namespace {

using namespace ddp;

constexpr std::int64_t kSamples = 1003;
constexpr std::int64_t kBatch = 64;
constexpr std::size_t kBatchPixels = kBatch * 4;

EpochPlan plan(std::int64_t epoch) {
  return ExactSampler({.dataset_size = kSamples,
                       .world_size = 1,
                       .rank = 0,
                       .global_batch_size = kBatch,
                       .seed = 1})
      .plan({.epoch = epoch});
}

// The inputs of all batches, concatenated.
std::vector<float> on_cpu(const Dataset& dataset, std::int64_t epoch) {
  std::vector<float> all;
  DataLoader loader(dataset, {});
  loader.start(plan(epoch));
  while (const auto batch = loader.next()) {
    const auto inputs = batch->inputs.as<float>();
    all.insert(all.end(), inputs.begin(), inputs.end());
  }
  return all;
}

// Takes the batches on `taker`, and copies them back on `stream`.
std::vector<float> on_gpu(DataLoader& loader, std::int64_t epoch, const cu::OwnedStream& stream,
                          Stream taker) {
  const auto steps = static_cast<std::size_t>(plan(epoch).steps());
  const Allocation pinned = cu::allocate_pinned(steps * kBatchPixels * sizeof(float));
  loader.start(plan(epoch));
  std::size_t done = 0;
  while (const auto batch = loader.next(taker)) {
    cu::copy_async(static_cast<float*>(pinned.data()) + done, batch->inputs.data,
                   batch->inputs.size_bytes(), stream.view());
    done += batch->inputs.count;
  }
  stream.synchronize();
  const auto* begin = static_cast<const float*>(pinned.data());
  return {begin, begin + done};
}

}  // namespace

TEST_CASE("batches on the GPU equal those on the CPU", "[gpu][data]") {
  const Device device = cuda_device(0);
  const cu::DeviceGuard guard(device);
  const cu::OwnedStream stream(device);
  const ImageDataset dataset = test::numbered_images(kSamples);
  for (const int num_workers : {0, 1, 2, 4}) {
    for (const int prefetch : {1, 2, 8}) {
      CAPTURE(num_workers, prefetch);
      DataLoader loader(dataset,
                        {.device = device, .num_workers = num_workers, .prefetch = prefetch});
      for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
        loader.start(plan(epoch));  // stopped after one batch
        REQUIRE(loader.next(stream.view()));
        REQUIRE(on_gpu(loader, epoch, stream, stream.view()) == on_cpu(dataset, epoch));
      }
    }
  }
}

TEST_CASE("batches that are taken without a stream are whole on one in order with the default one",
          "[gpu][data]") {
  const Device device = cuda_device(0);
  const cu::DeviceGuard guard(device);
  const cu::OwnedStream stream(device, cu::StreamPriority::kDefault,
                               cu::StreamOrder::kWithDefaultStream);
  const ImageDataset dataset = test::numbered_images(kSamples);
  DataLoader loader(dataset, {.device = device, .num_workers = 2, .prefetch = 2});
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    REQUIRE(on_gpu(loader, epoch, stream, {}) == on_cpu(dataset, epoch));
  }
}
