// SPDX-License-Identifier: MIT
//
// Runs of the train example under ddp-launch. Each test of them is built three times: for the CPU
// and, with DDP_JOB_DEVICE "cuda", for ranks that share a GPU, a real one or (DDP_JOB_IS_EMULATED)
// an emulated one.
#pragma once

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/io/safetensors.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/small_sets.h"

namespace ddp::test {

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline const bool kRanksShareGpu = std::string_view(DDP_JOB_DEVICE) == "cuda";

// An emulated GPU is slow, and shows in fewer steps what a real one is to show.
inline constexpr bool kIsEmulated = DDP_JOB_IS_EMULATED;
inline std::string steps(int usual, int emulated) {
  return std::to_string(kIsEmulated ? emulated : usual);
}

// The numbers of ranks that are compared with one rank; fewer where the ranks share a GPU and are
// slow.
inline std::vector<int> several_ranks() {
  return kRanksShareGpu ? std::vector<int>{2} : std::vector<int>{2, 3, 4};
}

// ddp-launch [launcher flags] train --device D [flags]
inline Arguments train_command(int ranks, const Arguments& flags,
                               const Arguments& launcher_flags = {}) {
  const Arguments sharing = kRanksShareGpu ? Arguments{"--oversubscribe"} : Arguments();
  return Arguments{DDP_LAUNCH_PATH, "--nproc_per_node=" + std::to_string(ranks)} + sharing +
         launcher_flags + Arguments{DDP_TRAIN_PATH, "--device", DDP_JOB_DEVICE} + flags;
}

// The data of a job: Fashion-MNIST or, since machines with GPUs may lack it, the same amount of
// noise; for an emulated GPU less, with which resumable_job.h makes equally many steps.
class TrainingSet {
 public:
  TrainingSet() {
    if (!kRanksShareGpu) return;
    write_fashion_mnist(noise_.emplace().path(), kIsEmulated
                                                     ? SetSizes{.train = 12000, .test = 100}
                                                     : SetSizes{.train = 60000, .test = 1000});
  }
  [[nodiscard]] Arguments flags() const {
    return noise_ ? Arguments{"--data-dir", noise_->path()} : Arguments();
  }

 private:
  std::optional<TemporaryDirectory> noise_;
};

// Trains and returns the parameters.
inline Safetensors train(int ranks, const Arguments& flags, const std::string& dtype = "float64") {
  const TemporaryDirectory directory;
  const std::string file = directory / "model.safetensors";
  ChildProcess job(train_command(
      ranks, Arguments{"--dtype", dtype, "--log-every", "0", "--save", file} + flags));
  const int code = job.wait(Timeout(100000));
  INFO(job.err());
  REQUIRE(code == 0);
  return load_safetensors(file);
}

}  // namespace ddp::test
