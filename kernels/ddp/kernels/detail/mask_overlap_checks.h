// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/kernels/detail/checks.h"

namespace ddp::detail {

inline void check_mask_overlap(const Buffer& logits, const Buffer& target, const Buffer& counts) {
  require_memory("mask_overlap", "logits", logits);
  require("mask_overlap", "target", target, logits);
  require("mask_overlap", "counts", counts, like(logits, 2, DType::kInt64));
}

}  // namespace ddp::detail
