// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace ddp::launcher {

// What an output lacks because it could not be written for a while, as on a full disk.
class Gap {
 public:
  void add(std::size_t bytes, int error) {
    bytes_ += bytes;
    error_ = error;
  }
  [[nodiscard]] bool is_open() const { return bytes_ > 0; }
  // If it is open, writes a line in its place that says how much is missing, which ends it. Returns
  // the errno if that, too, cannot be written, else 0.
  [[nodiscard]] int close(int fd, bool& is_at_line_begin);

 private:
  std::size_t bytes_ = 0;
  int error_ = 0;
};

}  // namespace ddp::launcher
