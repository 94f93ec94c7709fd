// SPDX-License-Identifier: MIT
//
// Reads the generator's files as a dataset.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <utility>
#include <vector>

#include "ddp/data/image_mask_folder.h"
#include "support/child_process.h"
#include "support/files.h"

namespace {

using ddp::test::ChildProcess;
using ddp::test::TemporaryDirectory;

std::string make_set(const TemporaryDirectory& directory, const std::string& seed) {
  ChildProcess program({DDP_MAKE_CRACK_SET_PATH, "--out", directory.path(), "--count", "8",
                        "--size", "48", "--seed", seed});
  CHECK(program.wait() == 0);
  return program.out();
}

struct Set {
  std::vector<double> images;
  std::vector<double> masks;

  friend bool operator==(const Set&, const Set&) = default;
};

Set load(const TemporaryDirectory& directory) {
  const ddp::ImageMaskFolder folder(directory.path(), {.normalization = {{}, {}, {}}});
  REQUIRE(folder.size() == 8);
  Set set{std::vector<double>(8 * 3 * 48 * 48), std::vector<double>(8 * 48 * 48)};
  folder.gather(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, ddp::buffer_of(set.images),
                ddp::buffer_of(set.masks));
  return set;
}

}  // namespace

TEST_CASE("make_crack_set names the flag whose value is no number", "[data][cracks]") {
  const TemporaryDirectory directory;
  ChildProcess program({DDP_MAKE_CRACK_SET_PATH, "--out", directory.path(), "--count", "x"});
  CHECK(program.wait() == 2);
  CHECK(program.err() == "make_crack_set: --count=x is not a whole number in range\n");
}

TEST_CASE("make_crack_set refuses what it does not know", "[data][cracks]") {
  const TemporaryDirectory directory;
  ChildProcess program({DDP_MAKE_CRACK_SET_PATH, "--out", directory / "set", "64"});
  CHECK(program.wait() == 2);
  CHECK_THAT(program.err(), Catch::Contains("unexpected argument \"64\""));
  CHECK_FALSE(std::filesystem::exists(directory / "set"));
}

TEST_CASE("make_crack_set refuses a folder without a name", "[data][cracks]") {
  ChildProcess program({DDP_MAKE_CRACK_SET_PATH, "--out", "", "--count", "1"});
  CHECK(program.wait() == 2);
  CHECK(program.err() == "make_crack_set: --out is empty (--help lists the flags)\n");
}

TEST_CASE("make_crack_set names the file that a limit of the file size does not allow",
          "[data][cracks]") {
  for (const auto& [blocks, file] :
       {std::pair("0", "SYNTHETIC.txt"), std::pair("1", "images/synthetic_000000.png")}) {
    const TemporaryDirectory directory;
    ChildProcess program({"/bin/sh", "-c",
                          "ulimit -f " + std::string(blocks) + " && exec \"$0\" \"$@\"",
                          DDP_MAKE_CRACK_SET_PATH, "--out", directory.path()});
    CHECK(program.wait() == 1);
    CHECK_THAT(program.err(), Catch::Contains((directory / file).string() + ": cannot be written"));
  }
}

TEST_CASE("make_crack_set does not mix two sets", "[data][cracks]") {
  const TemporaryDirectory directory;
  make_set(directory, "1");
  ChildProcess program({DDP_MAKE_CRACK_SET_PATH, "--out", directory.path(), "--count", "4"});
  CHECK(program.wait() == 2);
  CHECK(program.err() == "make_crack_set: " + (directory / "images").string() +
                             " already has files: remove them, or choose another --out\n");
}

TEST_CASE("a crack set is the same for a seed, dark where its masks are, and called synthetic",
          "[data][cracks]") {
  const TemporaryDirectory directories[3];
  CHECK_THAT(make_set(directories[0], "1"), Catch::StartsWith("SYNTHETIC: "));
  make_set(directories[1], "1");
  make_set(directories[2], "2");
  CHECK_THAT(ddp::test::bytes_of(directories[0] / "SYNTHETIC.txt"), Catch::StartsWith("SYNTHETIC"));
  const Set set = load(directories[0]);
  CHECK(set == load(directories[1]));
  CHECK_FALSE(set == load(directories[2]));

  double sums[2] = {};  // sums of red, outside and inside the cracks
  double counts[2] = {};
  constexpr std::size_t kPixels = 48 * 48;
  for (std::size_t i = 0; i < set.masks.size(); ++i) {
    const std::size_t inside = set.masks[i] > 0 ? 1 : 0;
    sums[inside] += set.images[i / kPixels * 3 * kPixels + i % kPixels];
    ++counts[inside];
  }
  CHECK(counts[1] > 0.005 * static_cast<double>(set.masks.size()));
  CHECK(counts[1] < 0.25 * static_cast<double>(set.masks.size()));
  CHECK(sums[1] / counts[1] < 0.6 * sums[0] / counts[0]);
}

TEST_CASE("a crack set without images is refused before anything is written", "[data][cracks]") {
  const TemporaryDirectory directory;
  const std::filesystem::path out = directory / "set";
  ChildProcess program({DDP_MAKE_CRACK_SET_PATH, "--out", out, "--count", "0"});
  CHECK(program.wait() == 2);
  CHECK_THAT(program.err(), Catch::Contains("--count must be at least 1"));
  CHECK_FALSE(std::filesystem::exists(out));
}
