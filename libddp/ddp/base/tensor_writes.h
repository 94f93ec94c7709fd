// SPDX-License-Identifier: MIT
//
// How often this library has overwritten tensors of its caller from outside a computation: by a
// broadcast, or from a checkpoint. Whoever keeps something that was computed from a parameter, such
// as its cast to 16 bits, compares the count. Any thread may call these.
#pragma once

#include <cstdint>

namespace ddp {

void note_tensor_writes() noexcept;
[[nodiscard]] std::uint64_t tensor_writes() noexcept;

}  // namespace ddp
