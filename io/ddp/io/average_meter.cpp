// SPDX-License-Identifier: MIT
#include "ddp/io/average_meter.h"

#include <fmt/core.h>

#include <stdexcept>

namespace ddp {

void AverageMeter::reset() { value_ = sum_ = count_ = 0; }

void AverageMeter::update(double value, double n) {
  if (!(n >= 0)) {
    throw std::invalid_argument(
        fmt::format("[average_meter] {}: update({}, n = {}), n below 0", name_, value, n));
  }
  value_ = value;
  if (n == 0) return;  // 0 * NaN would be NaN
  sum_ += value * n;
  count_ += n;
}

double AverageMeter::average() const { return count_ > 0 ? sum_ / count_ : 0; }

std::string to_string(const AverageMeter& meter, int digits) {
  return fmt::format("{} {:.{}f} ({:.{}f})", meter.name(), meter.value(), digits, meter.average(),
                     digits);
}

}  // namespace ddp
