// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/finite_parameters.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddp/base/log.h"
#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

FiniteParameters::FiniteParameters(ProcessGroup& group, std::span<const Parameter> parameters)
    : parameters_(parameters), finite_(group, parameters.size(), DType::kUInt8) {}

void FiniteParameters::take(std::uint64_t step, Stream stream) {
  taken_in_ = step;
  auto* results = static_cast<std::uint8_t*>(finite_.buffer().data);
  for (const Parameter& parameter : parameters_) is_finite(parameter.value, results++, stream);
  finite_.download(stream);
}

bool FiniteParameters::warn() {
  const auto* finite = static_cast<const std::uint8_t*>(finite_.arrived());
  const auto* first = std::find(finite, finite + parameters_.size(), 0);
  const auto count = std::count(first, finite + parameters_.size(), 0);
  if (count == 0) return false;
  logging::warning(fmt::format(
      "[ddp] parameter '{}'{} is not finite before step {}: the training is lost from there on "
      "(DdpOptions::non_finite stops or skips steps whose gradients are not finite)",
      parameters_[static_cast<std::size_t>(first - finite)].name,
      count > 1 ? fmt::format(" (and {} more)", count - 1) : "", taken_in_));
  return true;
}

}  // namespace ddp
