// SPDX-License-Identifier: MIT
#include "ddp/base/system/regular_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "ddp/base/error.h"
#include "support/files.h"
#include "support/run_ranks.h"

namespace {

using ddp::RegularFile;
using ddp::test::error_of;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

std::string read(RegularFile& file, std::size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace

TEST_CASE("a regular file is read from front to back", "[base][file]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", "abcdefg");
  RegularFile file(directory / "file");
  CHECK(file.size() == 7);
  CHECK(read(file, 3) == "abc");
  CHECK(read(file, 0).empty());
  CHECK(read(file, 100) == "defg");
  CHECK(read(file, 1).empty());
}

TEST_CASE("a file that became shorter is read up to its end", "[base][file]") {
  const TemporaryDirectory directory;
  write_bytes(directory / "file", "abcdefg");
  RegularFile file(directory / "file");
  std::filesystem::resize_file(directory / "file", 2);
  CHECK(file.size() == 7);
  CHECK(read(file, 7) == "ab");
}

TEST_CASE("a file that cannot be read is refused with the reason", "[base][file]") {
  const TemporaryDirectory directory;
  const auto error = [](const std::filesystem::path& path) {
    return error_of([&] { const RegularFile file(path); });
  };
  CHECK(error(directory / "missing") == "cannot be opened: No such file or directory");
  CHECK_THROWS_AS(RegularFile(directory / "missing"), ddp::SystemError);
  CHECK(error(directory.path()) == "is not a regular file: Is a directory");
  CHECK_THROWS_AS(RegularFile(directory.path()), ddp::FileError);
  REQUIRE(mkfifo((directory / "pipe").c_str(), 0600) == 0);  // whose writer never comes
  CHECK(error(directory / "pipe") == "is not a regular file");
  CHECK(error("/dev/null") == "is not a regular file");
  RegularFile memory("/proc/self/mem");  // its first page cannot be read
  char byte = 0;
  CHECK(error_of([&] { (void)memory.read(&byte, 1); }) == "cannot be read: Input/output error");
  CHECK_THROWS_AS(memory.read(&byte, 1), ddp::SystemError);
}
