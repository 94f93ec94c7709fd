// SPDX-License-Identifier: MIT
//
// Jobs of two ranks that each have their own copy of the data, as nodes do.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>

#include "support/child_process.h"
#include "support/files.h"
#include "support/small_sets.h"

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::test::bytes_of;
using ddp::test::ChildProcess;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

// The folders 0 and 1, one for each rank.
class Copies {
 public:
  // write(folder) fills rank 0's; rank 1 gets a copy.
  explicit Copies(const auto& write) {
    fs::create_directory(of_rank(0));
    write(of_rank(0));
    fs::copy(of_rank(0), of_rank(1), fs::copy_options::recursive);
  }

  [[nodiscard]] fs::path of_rank(int rank) const { return directory_ / std::to_string(rank); }

  // The exit code of a job of two steps, and what it wrote to standard error.
  [[nodiscard]] std::pair<int, std::string> train(const std::string& flags) const {
    const std::string shell = "exec '" DDP_TRAIN_PATH
                              "' --device cpu --max-steps 2 --global-batch-size 4 --data-dir '" +
                              directory_.path().string() + "'/$RANK " + flags;
    ChildProcess job({DDP_LAUNCH_PATH, "--nproc_per_node=2", "sh", "-c", shell});
    const int code = job.wait(60s);
    return {code, job.err()};
  }
  void check_accepted(const std::string& flags) const {
    const auto [code, errors] = train(flags);
    INFO(errors);
    CHECK(code == 0);
  }
  void check_refused(const std::string& flags, const std::string& samples) const {
    const auto [code, errors] = train(flags);
    CHECK(code != 0);
    CHECK_THAT(errors,
               Contains("[train] data of --dataset ") &&
                   Contains(" differ in the " + samples + " samples: rank 0 has fingerprint ") &&
                   Contains(", rank 1 has fingerprint "));
  }

 private:
  TemporaryDirectory directory_;
};

void write_texts(const fs::path& place) {
  write_bytes(place / "train.txt", ddp::test::noise("train", 400));
  write_bytes(place / "test.txt", ddp::test::noise("test", 100));
}

void write_cracks(const fs::path& place) {
  for (const char* split : {"train", "test"}) {
    ChildProcess job(
        {DDP_MAKE_CRACK_SET_PATH, "--out", place / split, "--count", "5", "--size", "64"});
    REQUIRE(job.wait(60s) == 0);
  }
}

}  // namespace

TEST_CASE("ranks may have copies of the data", "[same_data]") {
  Copies(write_texts).check_accepted("--model gpt-nano --context 16 --augment");
  Copies(write_cracks).check_accepted("--model unet --augment");
}

TEST_CASE("a rank with other labels is an error at the start", "[same_data]") {
  const Copies copies([](const fs::path& place) { ddp::test::write_fashion_mnist(place); });
  copies.check_accepted("--model mlp");
  const fs::path file = copies.of_rank(1) / "train-labels-idx1-ubyte";
  std::string labels = bytes_of(file);
  std::transform(labels.begin() + 8, labels.end(), labels.begin() + 8,
                 [](char label) { return static_cast<char>(9 - label); });
  write_bytes(file, labels);
  copies.check_refused("--model mlp", "training");
}

TEST_CASE("a rank with another text of the same length is an error at the start", "[same_data]") {
  for (const char* name : {"train", "test"}) {
    const Copies copies(write_texts);
    const fs::path file = copies.of_rank(1) / (std::string(name) + ".txt");
    write_bytes(file, ddp::test::noise("other", fs::file_size(file)));
    copies.check_refused("--model gpt-nano --context 16 --augment",
                         std::string(name) == "train" ? "training" : "test");
  }
}

TEST_CASE("a rank with its images in another order is an error at the start", "[same_data]") {
  const Copies copies(write_cracks);
  for (const char* folder : {"images", "masks"}) {
    const fs::path place = copies.of_rank(1) / "train" / folder;
    fs::rename(place / "synthetic_000000.png", place / "z.png");
  }
  copies.check_refused("--model unet", "training");
}
