// SPDX-License-Identifier: MIT
#include "ddp/io/event_record.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "ddp/io/crc32c.h"

namespace ddp {
namespace {

enum WireType : unsigned { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
  return bytes;
}

// Seven bits per byte, the lowest first; all bytes but the last have the highest bit set.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(unsigned field, WireType type) { return varint(field << 3 | type); }

std::string double_field(unsigned field, double value) {
  return key(field, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}

std::string float_field(unsigned field, float value) {
  return key(field, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value));
}

std::string int64_field(unsigned field, std::int64_t value) {
  return key(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}

std::string bytes_field(unsigned field, std::string_view bytes) {
  return key(field, kLengthDelimited) + varint(bytes.size()) + std::string(bytes);
}

// A reader refuses a record whose text is not UTF-8. Its wrong bytes become U+FFFD.
std::string utf8(std::string_view text) {
  using Json = nlohmann::json;
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

std::string masked_crc(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + 0xa282ead8U);
}

std::string record(const std::string& payload) {
  const std::string length = little_endian(std::uint64_t{payload.size()});
  return length + masked_crc(length) + payload + masked_crc(payload);
}

}  // namespace

std::string version_record(double wall_time) {
  return record(double_field(1, wall_time) + bytes_field(3, "brain.Event:2"));
}

std::string scalar_record(const Scalar& scalar) {
  const std::string value =
      bytes_field(1, utf8(scalar.tag)) + float_field(2, static_cast<float>(scalar.value));
  const std::string summary = bytes_field(1, value);
  return record(double_field(1, scalar.wall_time) + int64_field(2, scalar.step) +
                bytes_field(5, summary));
}

}  // namespace ddp
