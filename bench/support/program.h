// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>

namespace ddp::bench {

// This machine lacks what is to be measured.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What main returns: 0 after `body`, 1 after an exception of it, which is told on standard error;
// 77 after Skipped, as CTest and Automake have it.
[[nodiscard]] int run_program(const char* name, const std::function<void()>& body);

// How long f() takes.
template <class Unit, class F>
[[nodiscard]] double duration_of(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  const std::chrono::duration<double, typename Unit::period> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

}  // namespace ddp::bench
