// SPDX-License-Identifier: MIT
//
// From which processes spawn() does not fork. This program leaves no threads behind.
#include "ddp/collectives/spawn.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/kernels/conv2d.h"
#include "ddp/kernels/gemm.h"
#include "support/files.h"
#include "support/gate.h"
#include "support/run_ranks.h"
#include "support/scoped_variable.h"

using namespace ddp;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using test::error_of;
using test::TemporaryDirectory;

TEST_CASE("a process with threads is not forked", "[spawn]") {
  test::Gate may_end;
  std::thread other([&] { (void)may_end.wait_for(1); });
  const auto call = [] { spawn([](int) {}, 2); };
  CHECK_THROWS_AS(call(), std::logic_error);
  CHECK_THAT(error_of(call), Contains("[spawn] this process has 2 threads") &&
                                 Contains("call spawn before anything starts threads"));
  may_end.raise();
  other.join();
  CHECK_NOTHROW(call());
}

// If there is OpenBLAS, its threads were started when this program was loaded.
TEST_CASE("a program with OpenBLAS is forked, and each rank computes", "[spawn]") {
  const auto multiply = [] {
    std::vector<double> a(64 * 64, 1.0);
    std::vector<double> c(64 * 64);
    cpu::gemm(buffer_of(a), buffer_of(a), buffer_of(c), {64, 64, 64}, {});
    test::expect(c.front() == 64 && c.back() == 64, "the product");
  };
  multiply();
  CHECK_NOTHROW(spawn([&](int) { multiply(); }, 2));
  multiply();
}

// Applies only with oneDNN, whose OpenMP threads remain.
TEST_CASE("after a convolution, spawn is an error that says what to call first", "[spawn]") {
  const TemporaryDirectory directory;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("OMP_NUM_THREADS", "2", 1);
    const Conv2dShape shape{
        .batch = 4, .in_channels = 32, .out_channels = 32, .input = {32, 32}, .kernel = {3, 3}};
    std::vector<float> x(shape.x_count()), weight(shape.weight_count()), y(shape.y_count());
    cpu::make_conv2d()->forward(buffer_of(x), buffer_of(weight), {nullptr, 0, DType::kFloat32},
                                buffer_of(y), shape);
    const bool has_threads = test::entries_of("/proc/self/task") > 1;
    const std::string error = error_of([] { spawn([](int) {}, 1); });
    test::write_bytes(directory / "error", (has_threads ? "threads: " : "") + error);
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
  CHECK_THAT(test::bytes_of(directory / "error"),
             Equals("") || (Contains("threads: [spawn] this process has 2 threads") &&
                            Contains("call spawn before anything starts threads") &&
                            Contains("a convolution")));
}

TEST_CASE("a process that has used CUDA is not forked", "[spawn]") {
  void* const driver = ::dlopen(DDP_FAKE_CUDA, RTLD_NOW);
  REQUIRE(driver != nullptr);
  const auto call = [] { spawn([](int) {}, 1); };
  CHECK_NOTHROW(call());  // the library is loaded, but not initialized
  {
    const test::ScopedVariable is_used("FAKE_CUDA_INITIALIZED", "1");
    CHECK_THROWS_AS(call(), std::logic_error);
    CHECK_THAT(error_of(call), Contains("[spawn] this process has used CUDA"));
  }
  ::dlclose(driver);
}
