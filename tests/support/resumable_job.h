// SPDX-License-Identifier: MIT
//
// Runs of the train example that write checkpoints and resume from them.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "support/train_runs.h"

namespace ddp::test {

// 600 steps per epoch.
inline const Arguments kResumable = {
    "--global-batch-size", kIsEmulated ? "20" : "100", "--num-workers", "2", "--log-every", "20"};

// A directory for the checkpoints and other files of the jobs.
class ResumableJob {
 public:
  explicit ResumableJob(int ranks) : ranks_(ranks) {}

  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    return directory_ / name;
  }

  [[nodiscard]] Arguments command(const Arguments& flags, const Arguments& launcher = {}) const {
    return train_command(
        ranks_,
        kResumable + Arguments{"--checkpoint-dir", file("c"), "--save", file("model")} + flags,
        launcher);
  }

  // Returns the output of rank 0.
  std::string run(const Arguments& flags) {
    ChildProcess job(command(flags));
    const int code = job.wait(Timeout(60000));
    INFO(job.err());
    REQUIRE(code == 0);
    errors_ = job.err();
    return job.out();
  }
  std::string run(int ranks, const Arguments& flags) {
    ranks_ = ranks;
    return run(flags);
  }
  void check_refused(const Arguments& flags, const std::string& message) {
    ChildProcess job(command(flags));
    CHECK(job.wait(Timeout(25000)) != 0);
    CHECK_THAT(job.err(), Catch::Contains(message));
  }

  [[nodiscard]] std::string parameters() const { return bytes_of(file("model")); }
  [[nodiscard]] std::string latest() const { return bytes_of(file("c/latest")); }
  [[nodiscard]] const std::string& errors() const { return errors_; }

 private:
  TemporaryDirectory directory_;
  int ranks_;
  std::string errors_;
};

inline std::string parameters_of_unbroken_run(int ranks, const Arguments& flags) {
  ResumableJob job(ranks);
  (void)job.run(flags);
  return job.parameters();
}

}  // namespace ddp::test
