// SPDX-License-Identifier: MIT
//
// What NVIDIA's profilers show of a step, through a library that NVTX loads in place of theirs.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/engine.h"

using namespace ddp;

namespace {

template <class F>
F* function(const char* name) {
  void* library = ::dlopen(DDP_FAKE_PROFILER, RTLD_NOW);
  REQUIRE(library != nullptr);
  void* address = ::dlsym(library, name);
  REQUIRE(address != nullptr);
  return reinterpret_cast<F*>(address);
}

void pass(DistributedDataParallel& ddp) {
  (void)ddp.begin_step();
  test::mark_all(ddp);
  ddp.wait();
}

}  // namespace

TEST_CASE("a step, its passes and its buckets are ranges of a profiler", "[engine][profiler]") {
  REQUIRE(::setenv("NVTX_INJECTION64_PATH", DDP_FAKE_PROFILER, 1) == 0);  // before the first range
  constexpr int kRanks = 2;
  std::size_t buckets = 0;
  test::run_groups(Backend::kShm, kRanks, [&](ProcessGroup& group) {
    test::Model model(0);
    DistributedDataParallel ddp(group.shared_from_this(), model.parameters,
                                {.buckets = {.bucket_bytes_cap = 64, .min_buckets = 3}});
    pass(ddp);
    ddp.accumulate(2);
    pass(ddp);
    pass(ddp);
    if (group.rank() == 0) buckets = ddp.layout().buckets.size();
  });
  auto* const ended = function<int(const char*)>("ended_ranges");
  CHECK(ended("ddp step") == kRanks * 2);
  CHECK(ended("ddp backward") == kRanks * 3);
  REQUIRE(buckets > 1);
  for (std::size_t b = 0; b < buckets; ++b) {
    CAPTURE(b);
    CHECK(ended(("ddp bucket " + std::to_string(b)).c_str()) == kRanks * 2);
  }
  CHECK(ended(("ddp bucket " + std::to_string(buckets)).c_str()) == 0);
  CHECK(ended("never begun") == 0);
  CHECK(function<int()>("open_ranges")() == 0);
}
