// SPDX-License-Identifier: MIT
//
// Which memory is NCCL's, and what is said when NCCL refuses, tested with a fake NCCL.
#include "ddp/collectives/nccl/nccl_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ddp/store/hash_store.h"
#include "support/child_process.h"
#include "support/fake_nccl.h"
#include "support/scoped_variable.h"
#include "support/stderr_capture.h"

using namespace ddp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

ncclResult_t result_of_allocation, result_of_registration;
std::mutex mutex;
std::vector<std::string> calls;  // under the mutex

ncclResult_t called(const char* what, ncclResult_t result = ncclSuccess) {
  const std::lock_guard lock(mutex);
  calls.emplace_back(what);
  return result;
}

NcclApi recording_nccl() {
  NcclApi nccl = test::fake_nccl();
  nccl.mem_alloc = [](void** data, std::size_t size_bytes) {
    if (result_of_allocation == ncclSuccess) cudaMalloc(data, size_bytes);
    return called("allocate", result_of_allocation);
  };
  nccl.mem_free = [](void* data) {
    cudaFree(data);
    return called("free");
  };
  nccl.comm_register = [](ncclComm_t, void*, std::size_t, void** registration) {
    *registration = &calls;  // any non-null pointer
    return called("register", result_of_registration);
  };
  nccl.comm_deregister = [](ncclComm_t, void*) { return called("deregister"); };
  return nccl;
}

struct Group {
  explicit Group(NcclRegistration memory_registration = NcclRegistration::kAlways,
                 int nccl_version = NCCL_VERSION_CODE)
      : version(nccl_version), registration(memory_registration) {
    result_of_allocation = result_of_registration = ncclSuccess;
    calls.clear();
  }
  [[nodiscard]] Allocation allocate(std::size_t size_bytes) {
    return memory.allocate(size_bytes, [](const void*, std::size_t) {});
  }

  [[nodiscard]] NcclApi nccl() const {
    NcclApi api = recording_nccl();
    api.version = version;
    return api;
  }

  int version;
  HashStore store;
  GroupConfig config{.store = store.clone(), .device = cuda_device(0), .name = "default"};
  NcclRegistration registration;
  NcclMemory memory{std::make_shared<NcclCommunicator>(config, nccl()), config, registration};
};

std::vector<std::string> lines_after(const std::function<void()>& action) {
  const test::StderrCapture captured;
  action();
  return test::lines_of(captured.text());
}

}  // namespace

TEST_CASE("NCCL is asked for large memory only", "[emulation]") {
  Group group;
  result_of_allocation = ncclUnhandledCudaError;  // so the memory is CUDA's
  const Allocation small = group.allocate(1000);
  CHECK(small.size_bytes() == 1000);
  CHECK(calls.empty());
  const Allocation large = group.allocate(kLarge);
  CHECK(calls == std::vector<std::string>{"allocate"});
}

TEST_CASE("memory is not registered unless that is asked for", "[emulation]") {
  const test::ScopedVariable nothing("DDP_NCCL_REGISTER", std::nullopt);
  Group group(nccl_registration_from_environment(), NCCL_VERSION(2, 25, 0));
  const auto lines = lines_after([&] { (void)group.allocate(kLarge); });
  CHECK(calls == std::vector<std::string>{"allocate", "free"});
  CHECK(lines.empty());
  const test::ScopedVariable always("DDP_NCCL_REGISTER", "1");
  CHECK(nccl_registration_from_environment() == NcclRegistration::kAlways);
}

// Such an NCCL may round the size up to 512 MiB.
TEST_CASE("an old NCCL allocates only what will be registered", "[emulation]") {
  const auto calls_with = [](NcclRegistration registration) {
    Group group(registration, NCCL_VERSION(2, 24, 3));
    static_cast<void>(group.allocate(kLarge));
    return calls;
  };
  CHECK(calls_with(NcclRegistration::kNever).empty());
  CHECK(calls_with(NcclRegistration::kAlways) ==
        std::vector<std::string>{"allocate", "register", "deregister", "free"});
}

TEST_CASE("memory is registered once, and deregistered before it is freed", "[emulation]") {
  Group group;
  const auto lines = lines_after([&] { (void)group.allocate(kLarge); });
  CHECK(calls == std::vector<std::string>{"allocate", "register", "deregister", "free"});
  CHECK(lines.empty());
}

TEST_CASE("one line says that NCCL does not register memory, why, and what it costs",
          "[emulation]") {
  Group group;
  result_of_registration = ncclInvalidUsage;
  const auto lines = lines_after([&] {
    for (int i = 0; i < 3; ++i) CHECK(group.allocate(kLarge).size_bytes() == kLarge);
  });
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], StartsWith("[ddp] warning: [nccl] group \"default\" on rank 0") &&
                           Contains("not registered") && Contains("slower") &&
                           Contains("what NCCL says"));
  CHECK(std::count(calls.begin(), calls.end(), "free") == 3);
  CHECK(std::count(calls.begin(), calls.end(), "deregister") == 0);
}

TEST_CASE("one line says that NCCL cannot allocate memory, why, and what it costs", "[emulation]") {
  Group group;
  result_of_allocation = ncclUnhandledCudaError;
  const auto lines = lines_after([&] {
    for (int i = 0; i < 3; ++i) CHECK(group.allocate(kLarge).size_bytes() == kLarge);
  });
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], StartsWith("[ddp] warning: [nccl] group \"default\" on rank 0") &&
                           Contains("could not allocate") && Contains("slower") &&
                           Contains("what NCCL says"));
}
