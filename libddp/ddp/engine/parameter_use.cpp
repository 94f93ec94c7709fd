// SPDX-License-Identifier: MIT
#include "ddp/engine/parameter_use.h"

#include <algorithm>

namespace ddp {

ParameterUse::ParameterUse(ProcessGroup& group, std::size_t parameters)
    : group_(group), map_(group, parameters + 1, DType::kUInt8) {}

void ParameterUse::agree(std::span<const std::uint8_t> own, bool unsettled, Stream stream) {
  auto* map = static_cast<std::uint8_t*>(map_.outgoing());
  map[own.size()] = unsettled ? 1 : 0;
  std::copy(own.begin(), own.end(), map);
  map_.upload(stream);
  if (group_.world_size() > 1) {
    group_.all_reduce(map_.buffer(), ReduceOp::kMax, stream).wait(stream);
  }
  map_.download(stream);
}

bool ParameterUse::is_used(std::size_t i) {
  return static_cast<const std::uint8_t*>(map_.arrived())[i] != 0;
}

bool ParameterUse::is_unsettled() { return is_used(map_.buffer().count - 1); }

}  // namespace ddp
