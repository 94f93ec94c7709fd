// SPDX-License-Identifier: MIT
//
// What happens when a GPU has no memory left. DDP_EMULATED_MEMORY sets what the emulated GPUs have.
#include <catch2/catch.hpp>
#include <memory>

#include "ddp/base/error.h"
#include "ddp/cuda/cuda.h"
#include "ddp/nn/memory_pool.h"

using namespace ddp;
using Catch::Matchers::Contains;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("an allocation that fails tells the sizes and what helps", "[emulation]") {
  const Allocation used = cu::allocate_device(24 * kMiB, cuda_device(0));
  CHECK_THROWS_WITH(cu::allocate_device(50 * kMiB, cuda_device(0)),
                    Contains("50.0 MiB on cuda:0") && Contains("40.0 of 64.0 MiB are free") &&
                        Contains("smaller batch"));
}

TEST_CASE("a pool frees its idle blocks before it gives up", "[emulation]") {
  nn::MemoryPool pool(cuda_device(0));
  static_cast<void>(pool.allocate(40 * kMiB));  // idle from here on
  const std::shared_ptr<void> block = pool.allocate(50 * kMiB);
  CHECK(block != nullptr);
  CHECK(pool.size_bytes() == 50 * kMiB);
  CHECK_THROWS_AS(pool.allocate(20 * kMiB), CudaError);
}
