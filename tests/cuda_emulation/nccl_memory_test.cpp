// SPDX-License-Identifier: MIT
//
// Which memory is NCCL's, tested with a fake NCCL.
#include "ddp/collectives/nccl/nccl_memory.h"

#include <catch2/catch.hpp>
#include <memory>

#include "ddp/store/hash_store.h"
#include "support/fake_nccl.h"

using namespace ddp;

namespace {

int allocations = 0;

NcclApi counting_nccl() {
  NcclApi nccl = test::fake_nccl();
  nccl.mem_alloc = [](void**, std::size_t) {
    ++allocations;
    return ncclUnhandledCudaError;  // so the memory is CUDA's
  };
  return nccl;
}

}  // namespace

TEST_CASE("NCCL is asked for large memory only", "[emulation]") {
  HashStore store;
  const GroupConfig config{.store = store.clone(), .device = cuda_device(0)};
  const auto communicator = std::make_shared<NcclCommunicator>(config, counting_nccl());
  const auto allocate = [&](std::size_t size_bytes) {
    return allocate_registered(communicator, size_bytes, config.device, [] {});
  };
  const Allocation small = allocate(1000);
  CHECK(small.size_bytes() == 1000);
  CHECK(allocations == 0);
  const Allocation large = allocate(std::size_t{1} << 20);
  CHECK(allocations == 1);
}
