// SPDX-License-Identifier: MIT
#include <catch2/catch.hpp>
#include <vector>

#include "ddp/base/error.h"
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
  restore_tensors(loaded->path, loaded->content, tensors, {.stream = stream.view()});
  std::vector<float> restored(expected.size());
  cu::copy_async(restored.data(), memory.data(), memory.size_bytes(), stream.view());
  stream.synchronize();
  CHECK(restored == expected);
  CHECK(steps[0] == 7);
}

TEST_CASE("16-bit weights are restored into device memory of a wider type", "[gpu][io]") {
  const Device device = cuda_device(0);
  const cu::DeviceGuard guard(device);
  const cu::OwnedStream stream(device);
  constexpr std::int64_t kCount = 10007;
  std::vector<Float16> halves(kCount);
  std::vector<BFloat16> brains(kCount);
  std::vector<float> expected(kCount);
  std::vector<double> expected_wide(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = static_cast<float>(i % 2048) / 8;  // 11 bits
    halves[i] = Float16(expected[i]);
    expected_wide[i] = -static_cast<double>(i % 256);  // 8 bits
    brains[i] = BFloat16(static_cast<float>(expected_wide[i]));
  }
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory / "weights";
  save_safetensors(file, std::vector<NamedBuffer>{{"half", {kCount}, buffer_of(halves)},
                                                  {"brain", {kCount}, buffer_of(brains)},
                                                  {"same", {kCount}, buffer_of(expected)}});

  std::vector<float> on_host(kCount);
  const Allocation floats = cu::allocate_device(kCount * sizeof(float), device);
  const Allocation doubles = cu::allocate_device(kCount * sizeof(double), device);
  const NamedBuffer targets[] = {
      {"half", {kCount}, {floats.data(), kCount, DType::kFloat32, device}},
      {"brain", {kCount}, {doubles.data(), kCount, DType::kFloat64, device}},
      {"same", {kCount}, buffer_of(on_host)}};
  const Safetensors loaded = load_safetensors(file);
  CHECK_THROWS_AS(restore_tensors(file, loaded, targets, {.stream = stream.view()}), FileError);
  restore_tensors(file, loaded, targets, {.cast = FloatCast::kExact, .stream = stream.view()});
  std::vector<float> restored(kCount);
  std::vector<double> restored_wide(kCount);
  cu::copy_async(restored.data(), floats.data(), floats.size_bytes(), stream.view());
  cu::copy_async(restored_wide.data(), doubles.data(), doubles.size_bytes(), stream.view());
  stream.synchronize();
  CHECK(restored == expected);
  CHECK(restored_wide == expected_wide);
  CHECK(on_host == expected);
}
