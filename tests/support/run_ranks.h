// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>

namespace ddp::test {

// Runs fn(rank) for ranks 0 .. world_size-1, each on a thread of its own, joins all threads, and
// rethrows the error of the lowest rank that failed. Catch2 2.x can assert only on the main thread:
// inside fn use expect(), which throws.
void run_ranks(int world_size, const std::function<void(int rank)>& fn);

// Likewise runs fn(each) for all cases at the same time, for those that mostly wait.
template <class Cases, class F>
void for_each_at_once(const Cases& cases, const F& fn) {
  run_ranks(static_cast<int>(std::size(cases)), [&](int i) {
    try {
      fn(cases[static_cast<std::size_t>(i)]);
    } catch (const std::exception& error) {
      throw std::runtime_error("case " + std::to_string(i) + ": " + error.what());
    }
  });
}

inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("expected: " + what);
}

// The text of the exception that fn throws, nested causes included; "" if it throws none.
std::string error_of(const std::function<void()>& fn);

}  // namespace ddp::test
