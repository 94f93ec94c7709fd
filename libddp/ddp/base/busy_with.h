// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

// While it lives, says what this process is busy with. If other ranks wait for it meanwhile, the
// sentence that names this rank quotes it. The library says so of its own waits for files and data;
// a program may add its own:
//
//   const ddp::BusyWith busy("evaluating");
//
// For any thread.
class [[nodiscard]] BusyWith {
 public:
  [[nodiscard]] explicit BusyWith(std::string what);
  ~BusyWith();
  BusyWith(const BusyWith&) = delete;
  BusyWith& operator=(const BusyWith&) = delete;

 private:
  std::uint64_t number_;
};

// "evaluating for 5.1 s": the last that has begun and not ended; empty if there is none.
[[nodiscard]] std::string busy_with();

}  // namespace ddp
