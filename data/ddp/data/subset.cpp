// SPDX-License-Identifier: MIT
#include "ddp/data/subset.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/data/require.h"
#include "ddp/samplers/randperm.h"

namespace ddp {
namespace {

constexpr double kRounding = 1e-9;  // for a sum of fractions; PyTorch's tolerance

void check_fractions(const std::vector<double>& fractions, double sum) {
  for (const double fraction : fractions) {
    require(fraction >= 0 && fraction <= 1,
            fmt::format("[split] the fraction {} is not in [0, 1]", fraction));
  }
  require(sum <= 1 + kRounding, fmt::format("[split] the fractions {} are {} together, above 1",
                                            fmt::join(fractions, " + "), sum));
}

// The number of samples in all subsets together; rounding must not make it smaller than the
// dataset.
std::int64_t dealt_out(std::int64_t size, double sum) {
  if (sum >= 1 - kRounding) return size;
  return static_cast<std::int64_t>(std::floor(static_cast<double>(size) * sum * (1 + 1e-12)));
}

}  // namespace

Subset::Subset(const Dataset& dataset, std::vector<std::int64_t> indices)
    : dataset_(&dataset), indices_(std::move(indices)) {
  check_indices("[subset]", indices_, dataset.size());
}

std::int64_t Subset::size() const { return static_cast<std::int64_t>(indices_.size()); }

std::span<const std::int64_t> Subset::input_shape() const { return dataset_->input_shape(); }

std::span<const std::int64_t> Subset::label_shape() const { return dataset_->label_shape(); }

DType Subset::label_dtype(DType input_dtype) const { return dataset_->label_dtype(input_dtype); }

void Subset::read(std::int64_t index, std::int64_t epoch, const Buffer& input,
                  const Buffer& label) const {
  const std::int64_t whole_index = indices_[static_cast<std::size_t>(index)];
  try {
    dataset_->read(whole_index, epoch, input, label);
  } catch (...) {
    std::throw_with_nested(Error(
        fmt::format("[subset] it is sample {} of {} of the whole", whole_index, dataset_->size())));
  }
}

std::vector<std::int64_t> split_sizes(std::int64_t size, const std::vector<double>& fractions) {
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  check_fractions(fractions, sum);
  std::vector<std::int64_t> sizes;
  std::int64_t left = size;
  for (const double fraction : fractions) {
    const auto wanted = static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fraction));
    sizes.push_back(std::min(wanted, left));  // a sum slightly above 1 must not exceed the dataset
    left -= sizes.back();
  }
  std::int64_t extra = dealt_out(size, sum) - (size - left);
  for (std::size_t i = 0; extra > 0; ++i, --extra) ++sizes[i % sizes.size()];
  return sizes;
}

std::vector<Subset> split(const Dataset& dataset, const std::vector<double>& fractions,
                          std::uint64_t seed) {
  const std::vector<std::int64_t> sizes = split_sizes(dataset.size(), fractions);
  const std::vector<std::int64_t> order = randperm(dataset.size(), seed);
  std::vector<Subset> subsets;
  auto next = order.begin();
  for (const std::int64_t size : sizes) {
    subsets.emplace_back(dataset, std::vector<std::int64_t>(next, next + size));
    next += size;
  }
  return subsets;
}

}  // namespace ddp
