// SPDX-License-Identifier: MIT
#include "soak/promises.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ddp::soak {
namespace {

// `what`, how often it was measured, and the median.
std::string begin_of_line(const std::string& what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return fmt::format("{:<58} {:4} rounds: median {:7.1f} ms", what, times.size(),
                     times[times.size() / 2]);
}

}  // namespace

Promises::Promises(std::function<void(const std::string& line)> print) : print_(std::move(print)) {}

void Promises::at_most(const std::string& what, double promise_ms,
                       const std::vector<double>& times) {
  const double most = *std::max_element(times.begin(), times.end());
  finding(fmt::format("{}, max {:7.1f} ms (promised {} ms)", begin_of_line(what, times), most,
                      promise_ms),
          most <= promise_ms);
}

void Promises::at_least(const std::string& what, double promise_ms,
                        const std::vector<double>& times) {
  const double least = *std::min_element(times.begin(), times.end());
  finding(fmt::format("{}, min {:7.1f} ms (promised at least {} ms)", begin_of_line(what, times),
                      least, promise_ms),
          least >= promise_ms);
}

void Promises::finding(const std::string& text, bool is_kept) {
  all_kept_ = all_kept_ && is_kept;
  print_(is_kept ? text : text + "  BROKEN");
}

}  // namespace ddp::soak
