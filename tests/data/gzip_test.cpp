// SPDX-License-Identifier: MIT
//
// For builds with zlib.
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "ddp/data/fashion_mnist.h"
#include "ddp/data/idx.h"
#include "ddp/data/text_dataset.h"
#include "support/files.h"
#include "support/idx_bytes.h"
#include "support/idx_error.h"
#include "support/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::read_idx;
using ddp::test::bytes_of;
using ddp::test::error_of;
using ddp::test::idx;
using ddp::test::idx_error;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

void write_gzipped(const fs::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

}  // namespace

TEST_CASE("a gzipped text is read if there is no plain one", "[data][text]") {
  const TemporaryDirectory directory;
  write_gzipped(directory / "a.gz", "packed");
  CHECK(ddp::read_text(directory / "a") == std::vector<std::uint8_t>{'p', 'a', 'c', 'k', 'e', 'd'});
  CHECK(ddp::read_text(directory / "a.gz").size() == 6);
  write_bytes(directory / "a", "plain");
  CHECK(ddp::read_text(directory / "a").size() == 5);
}

TEST_CASE("a gzipped IDX file is read as a plain one", "[data][idx]") {
  const TemporaryDirectory directory;
  write_gzipped(directory / "gzipped.gz", idx({2, 3}, "abcdef"));
  const ddp::IdxArray array = read_idx(directory / "gzipped.gz", 2);
  CHECK(array.shape == std::vector<std::int64_t>{2, 3});
  CHECK(array.values == std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
}

TEST_CASE("each file of Fashion-MNIST may be gzipped", "[data][fashion_mnist]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "train-images-idx3-ubyte", idx({2, 1, 2}, std::string(4, '\0')));
  write_gzipped(directory / "train-labels-idx1-ubyte.gz", idx({2}, "\x03\x09"));
  CHECK(ddp::load_fashion_mnist(ddp::DataSplit::kTrain, directory.path()).size() == 2);
}

TEST_CASE("a gzipped header with a wrong size does not allocate memory for it", "[data][idx]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file";
  write_gzipped(path, idx({0xffffffffU, 0xffffffffU, 0xffffffffU}, "abc"));
  CHECK_THAT(idx_error(path, 3), Contains("more than it can hold"));
  write_gzipped(path, idx({0xffffffffU}, "abc"));
  CHECK_THAT(idx_error(path), Contains("more than it can hold"));
}

TEST_CASE("damage inside a gzip stream is found", "[data][idx]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file.gz";
  write_gzipped(path, idx({1000}, std::string(1000, 'x')));
  const std::string good = bytes_of(path);

  std::string bad = good;
  bad[bad.size() - 8] = static_cast<char>(bad[bad.size() - 8] ^ 1);  // the checksum
  write_bytes(path, bad);
  CHECK_THAT(idx_error(path), Contains("is damaged: incorrect data check"));
  for (const std::size_t size : {good.size() - 1, good.size() - 8, good.size() / 2}) {
    write_bytes(path, good.substr(0, size));
    CHECK_THAT(idx_error(path), Contains("is truncated"));
  }
}

TEST_CASE("a gzipped file of several members is read to its end, or it is an error",
          "[data][text]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file.gz";
  const auto packed = [&](const std::string& bytes) {
    write_gzipped(directory / "member", bytes);
    return bytes_of(directory / "member");
  };
  const std::string first = packed(std::string(300000, 'a')), second = packed("the end");
  for (const std::size_t zeros : {0, 1, 512}) {
    write_bytes(path, first + second + std::string(zeros, '\0'));
    CHECK(ddp::read_text(path).size() == 300007);
  }
  for (const std::size_t damaged : {0, 1, 2, 12}) {
    std::string bad = second;
    bad[damaged] = static_cast<char>(bad[damaged] ^ 0x10);
    write_bytes(path, first + bad);
    CHECK_THAT(error_of([&] { (void)ddp::read_text(path); }), Contains("file.gz: is damaged: "));
  }
  write_bytes(path, first + second.substr(0, 5));
  CHECK_THAT(error_of([&] { (void)ddp::read_text(path); }), Contains("is truncated"));
}
