// SPDX-License-Identifier: MIT
//
// Runs with either implementation of input_file.h.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "ddp/data/idx.h"
#include "support/files.h"
#include "support/idx_bytes.h"
#include "support/idx_error.h"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using ddp::read_idx;
using ddp::test::idx;
using ddp::test::idx_error;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

}  // namespace

TEST_CASE("an IDX file is read", "[data][idx]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "plain", idx({2, 3}, "abcdef"));
  const ddp::IdxArray array = read_idx(directory / "plain", 2);
  CHECK(array.shape == std::vector<std::int64_t>{2, 3});
  CHECK(array.values == std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  write_bytes(directory / "empty", idx({0}, ""));
  CHECK(read_idx(directory / "empty", 1).values.empty());
}

TEST_CASE("a damaged IDX file is an error that says what is wrong", "[data][idx]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file";
  CHECK_THAT(idx_error(path), Contains(path.string() + ": cannot be opened: No such file"));
  CHECK_THAT(idx_error(directory.path()), Contains("Is a directory"));
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);  // whose writer never comes
  CHECK_THAT(idx_error(directory / "pipe"),
             Contains((directory / "pipe").string() + ": is not a regular file"));

  write_bytes(path, "");
  CHECK_THAT(idx_error(path), Contains("ends inside the header"));
  write_bytes(path, idx({3}, "abc").substr(0, 6));
  CHECK_THAT(idx_error(path), Contains("ends inside the header"));
  write_bytes(path, "<html>404 not found</html>");
  CHECK_THAT(idx_error(path), Contains("starts with 0x3c68746d instead of 0x00000801"));
  write_bytes(path, idx({3}, "abc"));
  CHECK_THAT(idx_error(path, 3), Contains("0x00000801 instead of 0x00000803"));
  write_bytes(path, idx({4}, "abc"));
  CHECK_THAT(idx_error(path), Contains("is truncated: 3 of 4 values are there"));
  write_bytes(path, idx({2}, "abc"));
  CHECK_THAT(idx_error(path), Contains("goes on after its 2 values"));
}

TEST_CASE("a header with a wrong size does not allocate memory for it", "[data][idx]") {
  const TemporaryDirectory directory;
  const fs::path path = directory / "file";
  write_bytes(path, idx({0xffffffffU, 0xffffffffU, 0xffffffffU}, "abc"));
  CHECK_THAT(
      idx_error(path, 3),
      Contains("promises 4294967295 x 4294967295 x 4294967295 bytes, more than it can hold"));
  write_bytes(path, idx({0x80000000U, 0x80000000U, 4}, ""));  // 2^64 values
  CHECK_THAT(idx_error(path, 3), Contains("more than it can hold"));
}
