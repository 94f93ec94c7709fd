// SPDX-License-Identifier: MIT
#include "ddp/data/dataset.h"

#include <fmt/core.h>

#include <stdexcept>

namespace ddp {

std::size_t elements_of(std::span<const std::int64_t> shape) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  return elements;
}

void check_indices(std::string_view origin, std::span<const std::int64_t> indices,
                   std::int64_t size) {
  for (const std::int64_t index : indices) {
    if (index >= 0 && index < size) continue;
    throw std::invalid_argument(fmt::format("{} index {} is not in [0, {})", origin, index, size));
  }
}

}  // namespace ddp
