// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <vector>

#include "ddp/cuda/cuda.h"
#include "ddp/io/checkpoint_directory.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "support/files.h"

using namespace ddp;

TEST_CASE("tensors in device memory are saved in the background and restored", "[gpu][io]") {
  const Device device = cuda_device(0);
  const cu::DeviceGuard guard(device);
  const cu::OwnedStream stream(device);
  std::vector<float> expected(100003);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<float>(i);
  std::vector<std::int64_t> steps = {7};
  const Allocation memory = cu::allocate_device(expected.size() * sizeof(float), device);
  const NamedBuffer tensors[] = {
      {"w", {100003}, {memory.data(), expected.size(), DType::kFloat32, device}},
      {"w.step", {1}, buffer_of(steps)}};
  cu::copy_async(memory.data(), expected.data(), memory.size_bytes(), stream.view());

  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints({.path = directory.path()});
  CheckpointWriter writer(checkpoints);
  writer.save({.name = {.epochs = 1, .step = {}}, .metadata = {}}, tensors, stream.view());
  const std::vector<float> zeros(expected.size());
  cu::copy_async(memory.data(), zeros.data(), memory.size_bytes(), stream.view());
  steps[0] = 0;
  writer.finish();

  const auto loaded = checkpoints.load_newest();
  REQUIRE(loaded);
  restore_tensors(loaded->path, loaded->content, tensors, stream.view());
  std::vector<float> restored(expected.size());
  cu::copy_async(restored.data(), memory.data(), memory.size_bytes(), stream.view());
  stream.synchronize();
  CHECK(restored == expected);
  CHECK(steps[0] == 7);
}
