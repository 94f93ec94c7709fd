// SPDX-License-Identifier: MIT
#include "ddp/engine/parameter_use.h"

#include <algorithm>

namespace ddp {

ParameterUse::ParameterUse(ProcessGroup& group, std::size_t parameters)
    : group_(group), map_(group, parameters + 1, DType::kUInt8) {}

void ParameterUse::launch(std::span<const std::uint8_t> own, bool unsettled, Stream producer) {
  auto* map = static_cast<std::uint8_t*>(map_.outgoing());
  map[own.size()] = unsettled ? 1 : 0;
  std::copy(own.begin(), own.end(), map);
  map_.upload(producer);
  if (group_.world_size() > 1) work_ = group_.all_reduce(map_.buffer(), ReduceOp::kMax, producer);
}

void ParameterUse::wait(Stream consumer) {
  if (group_.world_size() > 1) work_.wait(consumer);
  map_.download(consumer);
}

bool ParameterUse::is_used(std::size_t i) {
  return static_cast<const std::uint8_t*>(map_.arrived())[i] != 0;
}

bool ParameterUse::is_unsettled() { return is_used(map_.buffer().count - 1); }

}  // namespace ddp
