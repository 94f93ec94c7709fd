// SPDX-License-Identifier: MIT
//
// The part of TensorBoard's event files that scalars need:
//
//   file     := record(version) record(scalar)*
//   record   := length crc(length) payload crc(payload)     TensorFlow's TFRecord
//   length   := uint64                                      little-endian, as all numbers here
//   crc(x)   := uint32: c = CRC-32C of x; (c >> 15 | c << 17) + 0xa282ead8
//
// A payload is an Event of tensorflow/core/util/event.proto in protobuf's encoding:
//
//   version  := double wall_time = 1; string file_version = 3 ("brain.Event:2")
//   scalar   := double wall_time = 1; int64 step = 2; Summary summary = 5
//   Summary  := Value value = 1
//   Value    := string tag = 1; float simple_value = 2
//
// (https://protobuf.dev/programming-guides/encoding; wall times are seconds since 1970).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddp {

struct Scalar {
  std::string_view tag;
  double value = 0;
  std::int64_t step = 0;
  double wall_time = 0;
};

[[nodiscard]] std::string version_record(double wall_time);
[[nodiscard]] std::string scalar_record(const Scalar& scalar);

}  // namespace ddp
