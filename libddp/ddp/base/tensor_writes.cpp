// SPDX-License-Identifier: MIT
#include "ddp/base/tensor_writes.h"

#include <atomic>

namespace ddp {
namespace {

std::atomic<std::uint64_t> count{0};

}  // namespace

void note_tensor_writes() noexcept { count.fetch_add(1, std::memory_order_relaxed); }

std::uint64_t tensor_writes() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace ddp
