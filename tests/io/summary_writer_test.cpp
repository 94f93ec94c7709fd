// SPDX-License-Identifier: MIT
#include "ddp/io/summary_writer.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/system/host_name.h"
#include "ddp/io/average_meter.h"
#include "ddp/io/crc32c.h"
#include "ddp/io/event_record.h"
#include "support/files.h"
#include "support/hex.h"
#include "support/run_ranks.h"

namespace {

using Catch::Matchers::Contains;
using ddp::AverageMeter;
using ddp::crc32c;
using ddp::SummaryWriter;
using ddp::test::error_of;
using ddp::test::hex;
using ddp::test::TemporaryDirectory;

// Reads the formats by their definitions; throws if the bytes violate them.
class Bytes {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }

  std::string take(std::size_t size) {
    ddp::test::expect(size <= bytes_.size() - at_, "more bytes");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a varint goes on too long");
  }

  // Reads a TFRecord; returns its payload.
  std::string record() {
    const std::string length = take(8);
    check_crc(length);
    const std::string payload =
        take(static_cast<std::size_t>(Bytes(length).number<std::uint64_t>()));
    check_crc(payload);
    return payload;
  }

 private:
  void check_crc(const std::string& bytes) {
    const std::uint32_t unmasked = number<std::uint32_t>() - 0xa282ead8U;
    ddp::test::expect(std::rotl(unmasked, 15) == crc32c(bytes), "the right CRC");
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

// A protobuf message's fields by number, as the bytes of their values.
std::map<std::uint64_t, std::string> fields_of(const std::string& message) {
  Bytes bytes(message);
  std::map<std::uint64_t, std::string> fields;
  while (!bytes.at_end()) {
    const std::uint64_t key = bytes.varint();
    std::string& value = fields[key >> 3];
    ddp::test::expect(value.empty(), "each field once");
    if ((key & 7) == 0) {
      const auto number = std::bit_cast<std::array<char, 8>>(bytes.varint());
      value.assign(number.begin(), number.end());
    } else if ((key & 7) == 2) {
      value = bytes.take(static_cast<std::size_t>(bytes.varint()));
    } else {
      value = bytes.take((key & 7) == 1 ? 8 : 4);
    }
  }
  return fields;
}

struct ReadScalar {
  std::string tag;
  float value;
  std::int64_t step;
  double wall_time;
};

ReadScalar scalar_of(const std::string& payload) {
  const auto event = fields_of(payload);
  const auto value = fields_of(fields_of(event.at(5)).at(1));
  return {value.at(1), Bytes(value.at(2)).number<float>(),
          Bytes(event.at(2)).number<std::int64_t>(), Bytes(event.at(1)).number<double>()};
}

}  // namespace

TEST_CASE("CRC-32C gives the standard's values", "[io][crc32c]") {
  std::string ascending;
  for (char i = 0; i < 32; ++i) ascending += i;
  CHECK(crc32c("") == 0);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc32c(ascending) == 0x46dd794e);
  CHECK(crc32c("123456789") == 0xe3069283);
}

TEST_CASE("events are byte for byte what TensorBoard's own writer makes", "[io][summary]") {
  // tensorboard 2.21: RecordWriter.write(Event(...).SerializeToString())
  CHECK(ddp::version_record(1.5) ==
        hex("1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a32"
            "2a28646c"));
  CHECK(ddp::scalar_record(
            {.tag = "Loss/train", .value = 0.1, .step = 300, .wall_time = 1700000000.25}) ==
        hex("2100000000000000017becf60900001040fc54d94110ac022a130a110a0a4c6f73732f74"
            "7261696e15cdcccc3d5d096496"));
}

TEST_CASE("a file of scalars is read back whole", "[io][summary]") {
  const TemporaryDirectory directory;
  SummaryWriter writer(directory / "runs/1");
  const std::vector<double> values = {0.5, -3, 1e300, std::nan(""), 0};
  const std::vector<std::int64_t> steps = {0, 127, 128, std::int64_t{1} << 62, -1};
  for (std::size_t i = 0; i < values.size(); ++i) {
    writer.add_scalar("tag " + std::string(60 * i, 'x'), values[i], steps[i]);
  }
  Bytes file(ddp::test::bytes_of(writer.path()));
  const auto version = fields_of(file.record());
  CHECK(version.at(3) == "brain.Event:2");
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    const ReadScalar scalar = scalar_of(file.record());
    CHECK(scalar.tag == "tag " + std::string(60 * i, 'x'));
    CHECK(scalar.step == steps[i]);
    CHECK(std::bit_cast<std::uint32_t>(scalar.value) ==
          std::bit_cast<std::uint32_t>(static_cast<float>(values[i])));
    CHECK(scalar.wall_time > 1.7e9);
    CHECK(scalar.wall_time < 1e11);
  }
  CHECK(file.at_end());
}

TEST_CASE("a tag that is not UTF-8 becomes text that is", "[io][summary]") {
  Bytes record(ddp::scalar_record({.tag = "Verlust \xc3\xa4 \xff"}));
  CHECK(scalar_of(record.record()).tag == "Verlust \xc3\xa4 \xef\xbf\xbd");
}

TEST_CASE("event files have unique names that TensorBoard recognises", "[io][summary]") {
  const TemporaryDirectory directory;
  const SummaryWriter first(directory.path());
  const SummaryWriter second(directory.path());
  CHECK(first.path() != second.path());
  CHECK(first.path().parent_path() == directory.path());
  const std::string name = first.path().filename();
  CHECK(name.starts_with("events.out.tfevents."));
  CHECK_THAT(name, Contains("." + ddp::host_name() + "." + std::to_string(getpid()) + "."));
  CHECK(ddp::test::entries_of(directory.path()) == 2);
}

TEST_CASE("a directory that cannot be made is named", "[io][summary]") {
  const TemporaryDirectory directory;
  ddp::test::write_bytes(directory / "file", "");
  CHECK_THROWS_AS(SummaryWriter(directory / "file"), ddp::FileError);
  CHECK_THAT(error_of([&] { const SummaryWriter writer(directory / "file/sub"); }),
             Contains("[summary_writer] ") && Contains("file/sub: cannot make the directory"));
}

TEST_CASE("an AverageMeter has the last value and the weighted mean", "[io][meter]") {
  AverageMeter loss("Loss");
  CHECK(loss.average() == 0);
  loss.update(2.0, 3);
  loss.update(1.0);
  CHECK(loss.name() == "Loss");
  CHECK(loss.value() == 1);
  CHECK(loss.sum() == 7);
  CHECK(loss.count() == 4);
  CHECK(loss.average() == 1.75);
  CHECK(to_string(loss) == "Loss 1.0000 (1.7500)");
  CHECK(to_string(loss, 1) == "Loss 1.0 (1.8)");
  loss.update(std::nan(""), 0);  // the mean over no samples
  CHECK(loss.average() == 1.75);
  loss.reset();
  CHECK(loss.average() == 0);
  CHECK(loss.count() == 0);
  CHECK(error_of([&] { loss.update(0.5, -1); }) ==
        "[average_meter] Loss: update(0.5, n = -1), n below 0");
}
