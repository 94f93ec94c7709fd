// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/hang/flight_recorder.h"
#include "ddp/engine/bucket_layout.h"
#include "ddp/engine/ddp_options.h"

namespace ddp {

// The name of a bucket in messages: "bucket 4: layer3.*" if its parameters share a prefix that ends
// with a dot; otherwise the first and the last parameter, as in "bucket 0: fc.bias ..
// conv1.weight".
[[nodiscard]] std::string bucket_label(std::size_t bucket, std::span<const std::string> parameters);

// Registers a label for each bucket with the recorder.
[[nodiscard]] std::vector<FlightRecorder::Label> add_bucket_labels(
    FlightRecorder& recorder, const BucketLayout& layout, std::span<const Parameter> parameters);

}  // namespace ddp
