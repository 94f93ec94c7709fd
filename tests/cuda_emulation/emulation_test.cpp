// SPDX-License-Identifier: MIT
//
// Tests that the emulation finds what it should. Cases marked [.] end their process; another case
// runs them and checks the result.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/cuda/cuda.h"
#include "ddp/cuda/launch.cuh"
#include "support/child_process.h"

using namespace ddp;
using Catch::Matchers::Contains;

namespace {

constexpr unsigned kThreads = 96;
constexpr Device kGpu = cuda_device(0);

// An array of ints in device memory, and a stream.
struct Ints {
  explicit Ints(unsigned count) : memory(cu::allocate_device(count * sizeof(int), kGpu)) {}
  int* data() const { return static_cast<int*>(memory.data()); }
  std::vector<int> read(Stream stream) const {
    std::vector<int> host(memory.size_bytes() / sizeof(int));
    cu::copy_async(host.data(), data(), memory.size_bytes(), stream);
    cu::synchronize(stream);
    return host;
  }

  Allocation memory;
};

__global__ void reverse(int* values, bool has_barrier) {
  __shared__ int shared[kThreads];
  shared[threadIdx.x] = -1;
  __syncthreads();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (has_barrier) __syncthreads();
  values[blockIdx.x * kThreads + threadIdx.x] = shared[kThreads - 1 - threadIdx.x];
}

__global__ void sum_of_warp(int* values) {
  int sum = values[threadIdx.x];
  for (unsigned mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, mask);
  values[threadIdx.x] = sum;
}

__global__ void vote(int* first, int* votes) {
  const unsigned bits = __ballot_sync(0xffffffffU, threadIdx.x % 3 == 0);
  votes[threadIdx.x] = static_cast<int>(bits);
  first[threadIdx.x] = __ffs(votes[threadIdx.x]);
}

__global__ void set(int* values, unsigned index, int value) { values[index] = value; }

struct Place {
  int* values;
  std::size_t index;
};

__global__ void set_at(Place place, int value) { place.values[place.index] = value; }

__global__ void diverge() {
  if (threadIdx.x % 2 == 0) __syncthreads();
}

__global__ void diverge_in_warp(int* value) {
  if (threadIdx.x % 2 == 0) *value = __shfl_xor_sync(0xffffffffU, 1, 2);
}

std::string fate_of(const std::string& name, int expected) {
  test::ChildProcess child({std::filesystem::read_symlink("/proc/self/exe"), name});
  CHECK(child.wait() == expected);
  return child.err();
}

}  // namespace

TEST_CASE("after a barrier, threads of a block see each other's writes", "[emulation]") {
  const Ints values(2 * kThreads);
  cu::launch_kernel(reverse, 2, kThreads, {}, values.data(), true);
  std::vector<int> expected(kThreads);
  std::iota(expected.rbegin(), expected.rend(), 0);
  expected.insert(expected.end(), expected.begin(), expected.begin() + kThreads);
  CHECK(values.read({}) == expected);
}

TEST_CASE("without a barrier, threads of a block miss each other's writes", "[emulation]") {
  const Ints values(kThreads);
  cu::launch_kernel(reverse, 1, kThreads, {}, values.data(), false);
  const std::vector<int> found = values.read({});
  CHECK(std::count(found.begin(), found.end(), -1) > 0);
}

TEST_CASE("lanes of a warp exchange values", "[emulation]") {
  const Ints values(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) {
    cu::launch_kernel(set, 1, 1, {}, values.data(), i, i < 32 ? 1 : 2);
  }
  cu::launch_kernel(sum_of_warp, 1, kThreads, {}, values.data());
  std::vector<int> expected(kThreads, 64);
  std::fill_n(expected.begin(), 32, 32);
  CHECK(values.read({}) == expected);
}

TEST_CASE("the lanes of a warp learn of each other's votes", "[emulation]") {
  const Ints first(kThreads), votes(kThreads);
  cu::launch_kernel(vote, 1, kThreads, {}, first.data(), votes.data());
  std::vector<int> expected_first, expected_votes;
  for (unsigned i = 0; i < kThreads; ++i) {  // 0, 33 and 66 are the warps' first multiples of 3
    expected_first.push_back(static_cast<int>(1 + i / 32));
    expected_votes.push_back(static_cast<int>(0x49249249U << (i / 32)));
  }
  CHECK(first.read({}) == expected_first);
  CHECK(votes.read({}) == expected_votes);
}

TEST_CASE("a stream without a wait runs before the one it should wait for", "[emulation]") {
  const Ints value(1);
  const cu::OwnedStream producer(kGpu), consumer(kGpu);
  cu::launch_kernel(set, 1, 1, producer.view(), value.data(), 0U, 7);
  CHECK(value.read(consumer.view()) == std::vector{0});
}

TEST_CASE("a stream may be in order with the default stream", "[emulation]") {
  const cu::OwnedStream stream(kGpu, cu::StreamPriority::kDefault,
                               cu::StreamOrder::kWithDefaultStream);
  const Ints first(1), second(1);
  cu::launch_kernel(set, 1, 1, stream.view(), first.data(), 0U, 7);
  CHECK(first.read({}) == std::vector{7});
  cu::launch_kernel(set, 1, 1, {}, second.data(), 0U, 8);
  CHECK(second.read(stream.view()) == std::vector{8});
}

TEST_CASE("a stream that waits for an event runs after it", "[emulation]") {
  const Ints value(1);
  const cu::OwnedStream producer(kGpu), consumer(kGpu);
  cu::Event event(kGpu);
  cu::launch_kernel(set, 1, 1, producer.view(), value.data(), 0U, 7);
  event.record(producer.view());
  event.make_wait(consumer.view());
  CHECK(value.read(consumer.view()) == std::vector{7});
}

TEST_CASE("a stream that nobody waits for runs at the end", "[emulation]") {
  const Ints value(1);
  const cu::OwnedStream stream(kGpu);
  cu::Event event(kGpu);
  cu::launch_kernel(set, 1, 1, stream.view(), value.data(), 0U, 7);
  event.record(stream.view());
  CHECK_FALSE(event.done());
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  while (!event.done() && !deadline.passed()) std::this_thread::yield();
  CHECK(event.done());
}

TEST_CASE("pinned memory is read when the copy runs, pageable memory at once", "[emulation]") {
  const Ints from_pinned(1), from_pageable(1);
  const Allocation pinned = cu::allocate_pinned(sizeof(int));
  int pageable = 1;
  auto& source = *static_cast<int*>(pinned.data()) = 1;
  cu::copy_async(from_pinned.data(), &source, sizeof(int), {});
  cu::copy_async(from_pageable.data(), &pageable, sizeof(int), {});
  source = pageable = 2;
  CHECK(from_pinned.read({}) == std::vector{2});
  CHECK(from_pageable.read({}) == std::vector{1});
}

TEST_CASE("the emulation refuses what CUDA refuses", "[emulation]") {
  const Ints values(1);
  CHECK_THROWS_AS(cu::launch_kernel(set, 0, 1, {}, values.data(), 0U, 1), CudaError);
  CHECK_THROWS_AS(cu::launch_kernel(set, 1, 1025, {}, values.data(), 0U, 1), CudaError);
  CHECK_THROWS_AS(cu::copy_async(values.data(), values.data(), 2 * sizeof(int), {}), CudaError);
  CHECK_THROWS_AS(cu::allocate_device(std::size_t{1} << 40, kGpu), CudaError);
}

TEST_CASE("a kernel may not use memory of the host that is not pinned", "[emulation]") {
  int on_host = 0;
  CHECK_THROWS_AS(cu::launch_kernel(set, 1, 1, {}, &on_host, 0U, 1), CudaError);
  CHECK_THROWS_AS(cu::launch_kernel(set_at, 1, 1, {}, Place{&on_host, 0}, 1), CudaError);
  const Allocation pinned = cu::allocate_pinned(sizeof(int));
  auto* const value = static_cast<int*>(pinned.data());
  cu::launch_kernel(set_at, 1, 1, {}, Place{value, 0}, 7);
  cu::synchronize({});
  CHECK(*value == 7);
}

TEST_CASE("kernels and events belong to their stream's device", "[emulation]") {
  constexpr Device kOther = cuda_device(1);
  const Ints values(1);
  const cu::OwnedStream stream(kGpu), of_other(kOther);
  cu::Event event(kGpu);
  CHECK_THROWS_AS(cu::launch_kernel(set, 1, 1, of_other.view(), values.data(), 0U, 1), CudaError);
  CHECK_THROWS_AS(event.record(of_other.view()), CudaError);
  event.record(stream.view());
  event.make_wait(of_other.view());  // any stream may wait for it
  of_other.synchronize();
}

TEST_CASE("memory is freed while the device still uses it", "[.]") {
  void* data = nullptr;
  REQUIRE(cudaMalloc(&data, sizeof(int)) == cudaSuccess);
  cu::launch_kernel(set, 1, 1, {}, static_cast<int*>(data), 0U, 1);
  REQUIRE(cudaFree(data) == cudaSuccess);
  cu::synchronize({});
}

TEST_CASE("memory that is freed too early ends the process", "[emulation]") {
  CHECK_THAT(fate_of("memory is freed while the device still uses it", 1),
             Contains("heap-use-after-free"));
}

TEST_CASE("a GPU for which the build has no code is an error that says what to do", "[emulation]") {
  CHECK_THROWS_WITH(cu::check(cudaErrorNoKernelImageForDevice, "a launch"),
                    Contains("a launch") && Contains("-DDDP_CUDA_ARCHITECTURES=native"));
  CHECK_THROWS_WITH(cu::check(cudaErrorInvalidValue, "a launch"), !Contains("ARCHITECTURES"));
}

TEST_CASE("errors of a machine whose setup is wrong say what to do", "[emulation]") {
  CHECK_THROWS_WITH(cu::check(cudaErrorDevicesUnavailable, "a call"), Contains("compute mode"));
  CHECK_THROWS_WITH(cu::check(cudaErrorSystemNotReady, "a call"), Contains("fabricmanager"));
  CHECK_THROWS_WITH(cu::check(cudaErrorSystemDriverMismatch, "a call"), Contains("reboot"));
}

TEST_CASE("part of a block at a barrier", "[.]") {
  cu::launch_kernel(diverge, 1, kThreads, {});
  cu::synchronize({});
}

TEST_CASE("part of a warp in an exchange", "[.]") {
  const Ints value(1);
  cu::launch_kernel(diverge_in_warp, 1, kThreads, {}, value.data());
  cu::synchronize({});
}

TEST_CASE("an index beyond an allocation", "[.]") {
  const Ints values(3);
  cu::launch_kernel(set, 1, 1, {}, values.data(), 3U, 1);
  cu::synchronize({});
}

TEST_CASE("kernels whose threads wait in different places end the process", "[emulation]") {
  CHECK_THAT(fate_of("part of a block at a barrier", 128 + SIGABRT),
             Contains("block 0 of 1: 48 of 96 threads wait in __syncthreads()"));
  CHECK_THAT(fate_of("part of a warp in an exchange", 128 + SIGABRT),
             Contains("16 of 32 threads of a warp exchange values"));
}

TEST_CASE("a kernel that writes beyond its memory ends the process", "[emulation]") {
  CHECK_THAT(fate_of("an index beyond an allocation", 1), Contains("heap-buffer-overflow"));
}
