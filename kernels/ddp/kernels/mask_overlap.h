// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp::cpu {

// How well a two-class segmentation matches its target, which has the logits' dtype. An element is
// predicted if its logit is positive, and in the target if the target is at least 0.5. counts
// (int64, 2 elements) = {elements in the intersection, elements in the union}; their quotient is
// the Jaccard index (IoU).
void mask_overlap(const Buffer& logits, const Buffer& target, const Buffer& counts);

}  // namespace ddp::cpu

namespace ddp::cu {

void mask_overlap(const Buffer& logits, const Buffer& target, const Buffer& counts, Stream stream);

}  // namespace ddp::cu
