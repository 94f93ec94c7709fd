// SPDX-License-Identifier: MIT
//
// Jobs of `train` with our launcher, on the CPU and with small sets.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/child_process.h"
#include "support/files.h"
#include "support/small_sets.h"

namespace ddp::test::model_jobs {

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline void run(const Arguments& command) {
  ChildProcess program(command);
  const int code = program.wait(std::chrono::seconds(60));
  INFO(program.err());
  REQUIRE(code == 0);
}

// One small set of each kind, created on first use.
class Sets {
 public:
  [[nodiscard]] Arguments fashion_mnist() const {
    const auto place = directory_ / "fashion-mnist";
    if (std::filesystem::create_directory(place)) write_fashion_mnist(place);
    return {"--data-dir", place};
  }
  [[nodiscard]] Arguments cifar10() const {
    const auto place = directory_ / "cifar10";
    if (std::filesystem::create_directory(place)) write_cifar10(place);
    return {"--dataset", "cifar10", "--data-dir", place};
  }
  // 64 x 64; the first images of both splits differ.
  [[nodiscard]] Arguments cracks() const {
    const auto place = directory_ / "cracks";
    if (std::filesystem::create_directory(place)) {
      run({DDP_MAKE_CRACK_SET_PATH, "--out", place / "train", "--count", "4", "--size", "64"});
      run({DDP_MAKE_CRACK_SET_PATH, "--out", place / "test", "--count", "3", "--size", "64",
           "--seed", "1"});
    }
    return {"--data-dir", place};
  }
  // 24 samples of 16 bytes, also if each epoch cuts them elsewhere, and 6 to test.
  [[nodiscard]] Arguments text() const {
    const auto place = directory_ / "text";
    if (std::filesystem::create_directory(place)) {
      std::string pangrams;
      while (pangrams.size() < 400) pangrams += "the quick brown fox jumps over the lazy dog. ";
      write_bytes(place / "train.txt", pangrams.substr(0, 400));
      write_bytes(place / "test.txt", pangrams.substr(0, 100));
    }
    return {"--model", "gpt-nano", "--data-dir", place, "--context", "16"};
  }

 private:
  TemporaryDirectory directory_;
};

// A directory for the checkpoints of a job and the output of its last run.
class Job {
 public:
  explicit Job(Arguments flags) : flags_(std::move(flags)) {}

  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    return directory_ / name;
  }

  void run(int ranks, const Arguments& flags) const {
    std::filesystem::remove(file("metrics"));
    model_jobs::run(Arguments{DDP_LAUNCH_PATH, "--nproc_per_node=" + std::to_string(ranks),
                              DDP_TRAIN_PATH, "--device", "cpu", "--log-every", "0", "--save",
                              file("model"), "--metrics", file("metrics")} +
                    flags_ + flags);
  }
  void run_with_checkpoints(int ranks, const Arguments& flags) const {
    run(ranks, flags + Arguments{"--checkpoint-dir", file("c")});
  }
  void run_with_checkpoints(const Arguments& flags) const { run_with_checkpoints(2, flags); }

  // The last line of the metrics, which has the evaluation and the parameters' fingerprint.
  [[nodiscard]] std::string final_line() const {
    const std::vector<std::string> lines = lines_of(bytes_of(file("metrics")));
    REQUIRE_FALSE(lines.empty());
    REQUIRE_THAT(lines.back(),
                 Catch::StartsWith("{\"event\":\"final\",") && Catch::Contains("params_sha256"));
    return lines.back();
  }
  // The checkpoint from which a run would resume.
  [[nodiscard]] std::filesystem::path newest() const {
    return file("c") / lines_of(bytes_of(file("c/latest"))).front();
  }

 private:
  TemporaryDirectory directory_;
  Arguments flags_;
};

// True if the final parameters and batch-norm statistics are equal.
inline bool have_equal_models(const Job& a, const Job& b) {
  return bytes_of(a.file("model")) == bytes_of(b.file("model"));
}

// The text of a number in a line of metrics.
inline std::string value_of(const std::string& line, const std::string& key) {
  const std::string before = "\"" + key + "\":";
  const std::size_t begin = line.find(before) + before.size();
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

inline std::string score_of(const std::string& line) {
  const bool is_segmented = line.find("test_iou") != std::string::npos;
  return value_of(line, is_segmented ? "test_iou" : "test_accuracy");
}

}  // namespace ddp::test::model_jobs
