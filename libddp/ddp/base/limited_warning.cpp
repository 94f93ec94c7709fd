// SPDX-License-Identifier: MIT
#include "ddp/base/limited_warning.h"

#include <exception>
#include <utility>

#include "ddp/base/log.h"

namespace ddp {

LimitedWarning::~LimitedWarning() {
  if (left_out_ == 0) return;
  try {
    write(last_left_out_, left_out_ - 1);
  } catch (const std::exception&) {  // out of memory: a warning is not worth more
  }
}

void LimitedWarning::log(std::string message) {
  if (!next_.passed()) {
    ++left_out_;
    last_left_out_ = std::move(message);
    return;
  }
  next_ = Deadline::after(period_);
  write(message, std::exchange(left_out_, 0));
}

void LimitedWarning::write(const std::string& message, std::uint64_t left_out) {
  if (left_out == 0) return logging::warning(message);
  logging::warning(message + " (and " + std::to_string(left_out) +
                   " more such warnings since the last one that is shown)");
}

}  // namespace ddp
