// SPDX-License-Identifier: MIT
#include "ddp/kernels/mask_overlap.h"

#include <cstdint>

#include "ddp/base/vectorised.h"
#include "ddp/kernels/detail/mask_overlap_checks.h"

namespace ddp::cpu {

void mask_overlap(const Buffer& logits, const Buffer& target, const Buffer& counts) {
  detail::check_mask_overlap(logits, target, counts);
  detail::dispatch_float("mask_overlap", logits.dtype, [&](auto element) {
    using T = decltype(element);
    const T* x = static_cast<const T*>(logits.data);
    const T* mask = static_cast<const T*>(target.data);
    std::int64_t in_both = 0, in_either = 0;
    vectorised([=, count = logits.count, &in_both, &in_either] {
      for (std::size_t i = 0; i < count; ++i) {
        const int is_predicted = x[i] > T{0} ? 1 : 0;
        const int is_there = mask[i] >= T{0.5} ? 1 : 0;
        in_both += is_predicted & is_there;
        in_either += is_predicted | is_there;
      }
    });
    counts.as<std::int64_t>()[0] = in_both;
    counts.as<std::int64_t>()[1] = in_either;
  });
}

}  // namespace ddp::cpu
