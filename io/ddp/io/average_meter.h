// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>

namespace ddp {

// The last value and the mean since reset(), like the AverageMeter of PyTorch's ImageNet example
// with its val, sum, count and avg. To average over ranks, reduce sum and count.
class AverageMeter {
 public:
  explicit AverageMeter(std::string name) : name_(std::move(name)) {}

  void reset();

  // `value` is the mean over n items, such as the samples of a batch; n may be 0.
  void update(double value, double n = 1);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] double count() const { return count_; }
  [[nodiscard]] double average() const;  // 0 if nothing has been counted

 private:
  std::string name_;
  double value_ = 0;
  double sum_ = 0;
  double count_ = 0;
};

// "Loss 0.1234 (0.5678)": the last value and the mean, with `digits` decimals.
[[nodiscard]] std::string to_string(const AverageMeter& meter, int digits = 4);

}  // namespace ddp
