// SPDX-License-Identifier: MIT
//
// Tests the replacement for the readers of image files in a build without their libraries.
#include <catch2/catch.hpp>

#include "ddp/base/error.h"
#include "ddp/data/image_file.h"
#include "ddp/data/image_mask_folder.h"
#include "support/files.h"
#include "support/run_ranks.h"

TEST_CASE("a build without image support says what to install", "[data][image_file]") {
  using Catch::Matchers::Contains;
  CHECK_FALSE(ddp::image_files_are_compiled_in());
  CHECK_THROWS_AS(ddp::read_image("a.png", 3), ddp::EnvironmentError);
  CHECK_THROWS_AS(ddp::write_png("a.png", {}), ddp::EnvironmentError);
  const ddp::test::TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "images");
  std::filesystem::create_directory(directory / "masks");
  ddp::test::write_bytes(directory / "images/a.png", "");
  ddp::test::write_bytes(directory / "masks/a.png", "");
  const std::string error =
      ddp::test::error_of([&] { const ddp::ImageMaskFolder folder(directory.path()); });
  CHECK_THAT(error, Contains("images/a.png") && Contains("apt-get install libjpeg-dev libpng-dev"));
}
