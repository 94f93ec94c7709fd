// SPDX-License-Identifier: MIT
#pragma once

#include "ddp/base/buffer.h"
#include "ddp/base/stream.h"

namespace ddp::cpu {

// How well a segmentation into two classes covers its target, of the logits' type: an element is
// predicted where its logit is positive, and there where the target is at least 0.5. counts (2 of
// int64) = {elements of the intersection, of the union}; their quotient is the Jaccard index, IoU.
void mask_overlap(const Buffer& logits, const Buffer& target, const Buffer& counts);

}  // namespace ddp::cpu

namespace ddp::cu {

void mask_overlap(const Buffer& logits, const Buffer& target, const Buffer& counts, Stream stream);

}  // namespace ddp::cu
