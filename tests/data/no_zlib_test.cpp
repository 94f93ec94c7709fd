// SPDX-License-Identifier: MIT
//
// For builds without zlib.
#include <catch2/catch.hpp>
#include <string>

#include "ddp/data/input_file.h"
#include "support/files.h"
#include "support/run_ranks.h"

TEST_CASE("a build without zlib refuses gzipped files and says what to install", "[data]") {
  using Catch::Matchers::Contains;
  CHECK_FALSE(ddp::gzip_is_compiled_in());
  const ddp::test::TemporaryDirectory directory;
  ddp::test::write_bytes(directory / "a.gz", "\x1f\x8b\x08");
  const std::string error =
      ddp::test::error_of([&] { (void)ddp::open_input_file(directory / "a.gz"); });
  CHECK_THAT(error, Contains((directory / "a.gz").string()) && Contains("gunzip it") &&
                        Contains("apt-get install zlib1g-dev"));
}
