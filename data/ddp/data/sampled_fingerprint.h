// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "ddp/data/dataset.h"

namespace ddp {

// A hash of the dataset's size and of `samples` of its samples (all if there are fewer), inputs and
// labels, as epoch 0 shows them. They are spread evenly from the first to the last; a difference in
// others alone is not seen. It costs reading them: a thousand take milliseconds if the data are in
// memory, but some tens are enough where each is a file to decode.
//
// Ranks compare it before they train on copies of the data of their own
// (check_equal_on_all_ranks), since with other copies a training goes wrong without an error. They
// need equal transforms and seeds, which are part of what a sample looks like.
//
// Throws what gather() throws, and std::invalid_argument if `samples` is below 1.
[[nodiscard]] std::uint64_t sampled_fingerprint(const Dataset& dataset, DType input_dtype,
                                                std::int64_t samples);

}  // namespace ddp
