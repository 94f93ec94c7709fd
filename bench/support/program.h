// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>

namespace ddp::bench {

// Thrown if this machine lacks the hardware or the program to be measured.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Runs `body` and returns the exit code for main: 0 on success; 1 after an exception, whose message
// goes to standard error; 77 after Skipped, as CTest and Automake define it.
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
