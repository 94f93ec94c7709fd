// SPDX-License-Identifier: MIT
//
// Built three times: with the library's gemm (oneDNN and OpenBLAS), without oneDNN, and with
// no_openblas.cpp instead of OpenBLAS.
#include "ddp/kernels/gemm.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/child_process.h"
#include "support/kernel_values.h"
#include "support/openmp_threads.h"
#include "support/run_ranks.h"
#include "support/sanitizers.h"

namespace {

using ddp::GemmOptions;
using ddp::GemmShape;
using ddp::Transpose;
using ddp::test::error_of;
using ddp::test::uniform;
using ddp::test::Values;

std::atomic<int> signals_seen = 0;

// While it lives, this process gets a signal every half millisecond, and handles it.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action = {};
    action.sa_handler = [](int) { ++signals_seen; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &previous_);
    const itimerval often{{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~Interruptions() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &previous_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction previous_;
};

// Integers in [-4, 4]: every product and sum below is exact in float32.
template <class T>
std::vector<T> small_integers(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(static_cast<int>(engine() % 9) - 4);
  return values;
}

template <class T>
std::vector<T> naive_gemm(const std::vector<T>& a, const std::vector<T>& b, std::vector<T> c,
                          const GemmShape& shape, const GemmOptions& options) {
  const auto [m, n, k] = shape;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < k; ++p) {
        const T x = options.transpose_a == Transpose::kYes ? a[p * m + i] : a[i * k + p];
        const T y = options.transpose_b == Transpose::kYes ? b[j * k + p] : b[p * n + j];
        sum += static_cast<double>(x) * static_cast<double>(y);
      }
      const double old = options.beta == 0 ? 0 : options.beta * static_cast<double>(c[i * n + j]);
      c[i * n + j] = static_cast<T>(options.alpha * sum + old);
    }
  }
  return c;
}

template <class T>
void check_against_naive(const GemmShape& shape, const GemmOptions& options) {
  auto a = small_integers<T>(shape.m * shape.k, 1);
  auto b = small_integers<T>(shape.k * shape.n, 2);
  auto c = small_integers<T>(shape.m * shape.n, 3);
  if (options.beta == 0) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());
  const auto expected = naive_gemm(a, b, c, shape, options);
  ddp::cpu::gemm(ddp::buffer_of(a), ddp::buffer_of(b), ddp::buffer_of(c), shape, options);
  CHECK(c == expected);
}

// The first of endless products, which share A. (The first call takes all threads: oneDNN is not
// loaded yet.)
Values<float> products_with(int threads, std::size_t products, const GemmShape& shape,
                            const GemmOptions& options) {
  const ddp::test::OpenMpThreads openmp(threads);
  auto a = uniform<float>(shape.m * shape.k, 1);
  auto b = uniform<float>(products * shape.k * shape.n, 2);
  Values<float> c(products * shape.m * shape.n);
  ddp::cpu::gemm_batched(ddp::buffer_of(a), ddp::buffer_of(b), ddp::buffer_of(c), shape, options);
  return c;
}

Values<float> product_with(int threads, const GemmShape& shape, const GemmOptions& options) {
  const ddp::test::OpenMpThreads openmp(threads);
  auto a = uniform<float>(shape.m * shape.k, 1), b = uniform<float>(shape.k * shape.n, 2);
  Values<float> c(shape.m * shape.n);
  ddp::cpu::gemm(ddp::buffer_of(a), ddp::buffer_of(b), ddp::buffer_of(c), shape, options);
  return c;
}

}  // namespace

TEMPLATE_TEST_CASE("gemm equals the triple loop for all transposes and odd sizes", "[gemm]", float,
                   double) {
  const auto shape = GENERATE(GemmShape{1, 1, 1}, GemmShape{1, 7, 5}, GemmShape{13, 1, 3},
                              GemmShape{17, 19, 23}, GemmShape{64, 10, 128}, GemmShape{33, 65, 1},
                              GemmShape{1, 129, 33}, GemmShape{5, 67, 301});
  const auto transpose_a = GENERATE(Transpose::kNo, Transpose::kYes);
  const auto transpose_b = GENERATE(Transpose::kNo, Transpose::kYes);
  check_against_naive<TestType>(shape, {transpose_a, transpose_b});
  check_against_naive<TestType>(shape, {transpose_a, transpose_b, 2, 1});
  check_against_naive<TestType>(shape, {transpose_a, transpose_b, -1, 0.5});
}

TEMPLATE_TEST_CASE("gemm takes dimensions of 0, and an empty sum overwrites or keeps C", "[gemm]",
                   float, double) {
  const auto transpose_a = GENERATE(Transpose::kNo, Transpose::kYes);
  const auto transpose_b = GENERATE(Transpose::kNo, Transpose::kYes);
  check_against_naive<TestType>({0, 4, 3}, {transpose_a, transpose_b});
  check_against_naive<TestType>({4, 0, 3}, {transpose_a, transpose_b});
  check_against_naive<TestType>({4, 3, 0}, {transpose_a, transpose_b});
  check_against_naive<TestType>({4, 3, 0}, {transpose_a, transpose_b, 1, 1});
  check_against_naive<TestType>({4, 3, 0}, {transpose_a, transpose_b, 1, 2});
}

TEMPLATE_TEST_CASE("gemm_batched equals products one by one", "[gemm]", float, double) {
  using T = TestType;
  const std::size_t batch = GENERATE(0U, 1U, 7U);
  const bool is_shared = GENERATE(false, true);
  const auto transpose = GENERATE(Transpose::kNo, Transpose::kYes);
  const double beta = GENERATE(0.0, 0.5);
  const auto shape = GENERATE(GemmShape{5, 9, 4}, GemmShape{3, 2, 0});
  const GemmOptions options{transpose, transpose, 2, beta};
  const auto [m, n, k] = shape;
  auto a = small_integers<T>(m * k * batch, 1);
  auto b = small_integers<T>(is_shared ? k * n : k * n * batch, 2);
  auto c = small_integers<T>(m * n * batch, 3);
  if (beta == 0) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());
  std::vector<T> expected;
  const auto part = [](const std::vector<T>& all, std::size_t i, std::size_t size) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * size);
    return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(size));
  };
  for (std::size_t i = 0; i < batch; ++i) {
    const auto one = naive_gemm(part(a, i, m * k), part(b, is_shared ? 0 : i, k * n),
                                part(c, i, m * n), shape, options);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  ddp::cpu::gemm_batched(ddp::buffer_of(a), ddp::buffer_of(b), ddp::buffer_of(c), shape, options);
  CHECK(c == expected);
}

// Each number of threads cuts these at other rows and columns, if oneDNN cuts them.
TEST_CASE("a product has the same bits with any number of threads", "[gemm]") {
  const auto shape =
      GENERATE(GemmShape{64, 64, 96}, GemmShape{16, 144, 48}, GemmShape{7, 65, 48},
               GemmShape{1, 512, 784}, GemmShape{64, 256, 784}, GemmShape{600, 128, 40},
               GemmShape{1100, 300, 64}, GemmShape{500, 500, 500});
  const GemmOptions options{.transpose_b = GENERATE(Transpose::kNo, Transpose::kYes)};
  CAPTURE(shape.m, shape.n, shape.k);
  const Values<float> expected = product_with(1, shape, options);
  for (const int threads : {1, 2, 3, 4, 8}) {
    CHECK(product_with(threads, shape, options) == expected);
  }
}

TEST_CASE("a product of a batch has the same bits with any number of threads and of products",
          "[gemm]") {
  const auto shape = GENERATE(GemmShape{64, 64, 96}, GemmShape{33, 100, 48}, GemmShape{1, 600, 32},
                              GemmShape{300, 64, 300});
  const GemmOptions options{.transpose_a = GENERATE(Transpose::kNo, Transpose::kYes),
                            .transpose_b = GENERATE(Transpose::kNo, Transpose::kYes)};
  CAPTURE(shape.m, shape.n, shape.k);
  const Values<float> expected = products_with(1, 8, shape, options);
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::size_t products : {1U, 2U, 5U}) {
      const Values<float> first = products_with(threads, products, shape, options);
      CHECK(std::equal(first.begin(), first.end(), expected.begin()));
    }
  }
}

TEST_CASE("gemm names the operand whose size or dtype is wrong", "[gemm]") {
  std::vector<float> a(6), b(12), c(8);
  std::vector<double> doubles(12);
  std::vector<std::int32_t> integers(1);
  CHECK(error_of([&] {
          ddp::cpu::gemm(ddp::buffer_of(a), ddp::buffer_of(b), ddp::buffer_of(c), {2, 4, 4}, {});
        }) == "[kernels] gemm: a is float32[6] on cpu, expected float32[8] on cpu");
  CHECK(error_of([&] {
          ddp::cpu::gemm(ddp::buffer_of(a), ddp::buffer_of(doubles), ddp::buffer_of(c), {2, 4, 3},
                         {});
        }) == "[kernels] gemm: b is float64[12] on cpu, expected float32[12] on cpu");
  CHECK(error_of([&] {
          ddp::cpu::gemm(ddp::buffer_of(integers), ddp::buffer_of(integers),
                         ddp::buffer_of(integers), {1, 1, 1}, {});
        }) == "[kernels] gemm: int32 is not supported, only float32 and float64");
}

// Needs a process in which no product was computed yet.
TEST_CASE("a product where no memory is left", "[.][gemm-without-memory]") {
  std::vector<float> a(64 * 64, 1);
  std::vector<float> c(64 * 64);
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_AS, &old) == 0);
  const rlimit nothing{0, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &nothing) == 0);
  const std::string error = error_of([&] {
    ddp::cpu::gemm(ddp::buffer_of(a), ddp::buffer_of(a), ddp::buffer_of(c), {64, 64, 64}, {});
  });
  REQUIRE(setrlimit(RLIMIT_AS, &old) == 0);
  CHECK((error.empty() || error.find("OpenBLAS (see ulimit -v)") != std::string::npos));
}

TEST_CASE("a product ends, also if no memory is left for OpenBLAS's own", "[gemm]") {
  if (ddp::test::kIsSanitized) return;  // a sanitizer needs memory for its own
  ddp::test::ChildProcess child({"/proc/self/exe", "[gemm-without-memory]"});
  CHECK(child.wait() == 0);
}

// A signal's frame goes where the stack pointer points to.
TEST_CASE("signals do not disturb products", "[gemm]") {
  const GemmShape shape{64, 256, 784};
  const std::vector<float> expected(shape.m * shape.n, static_cast<float>(shape.k));
  std::vector<float> a(shape.m * shape.k, 1);
  std::vector<float> b(shape.k * shape.n, 1);
  std::vector<float> c(expected.size());
  const Interruptions interruptions;
  for (const int end = signals_seen + 1000; signals_seen < end;) {
    ddp::cpu::gemm(ddp::buffer_of(a), ddp::buffer_of(b), ddp::buffer_of(c), shape, {});
    REQUIRE(c == expected);
  }
}
