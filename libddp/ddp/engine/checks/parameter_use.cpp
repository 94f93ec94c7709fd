// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/parameter_use.h"

#include "ddp/buffer_ops/buffer_ops.h"

namespace ddp {

ParameterUse::ParameterUse(ProcessGroup& group, const Reducer& reducer, bool is_static)
    : reducer_(reducer),
      alone_(group.world_size() == 1),
      is_static_(is_static),
      marks_(group, elements(reducer.gradient_count()), DType::kFloat64) {}

void ParameterUse::write(Stream producer) {
  if (is_learned_) return fill(reducer_.tail(), 0, producer);
  take_own();
  marks_.upload(producer);
  cast(marks_.buffer(), reducer_.tail(), producer);
}

void ParameterUse::read(Stream consumer) {
  if (is_learned_) return;
  if (alone_) {
    take_own();
  } else {
    cast(reducer_.tail(), marks_.buffer(), consumer);
    marks_.download(consumer);
  }
  is_learned_ = is_static_ && !is_some_rank_learning();
}

void ParameterUse::take_own() {
  auto* marks = static_cast<double*>(marks_.outgoing());
  const std::size_t count = reducer_.gradient_count();
  for (std::size_t i = 0; i < count; ++i) marks[i] = reducer_.is_used(i) ? 1 : 0;
  marks[count] = reducer_.is_learning() ? 1 : 0;
}

bool ParameterUse::is_used(std::size_t i) {
  return static_cast<const double*>(marks_.arrived())[i] != 0;
}

bool ParameterUse::is_some_rank_learning() { return is_used(reducer_.gradient_count()); }

}  // namespace ddp
