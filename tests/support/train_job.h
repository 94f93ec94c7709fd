// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "support/files.h"

namespace ddp::test {

// A few steps of `train` on the CPU, whose processes a given command starts, and the fingerprint of
// rank 0's final parameters.
class TrainJob {
 public:
  // The whole command: `starter`, then train with its flags.
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> starter) const {
    const char* const words[] = {
        DDP_TRAIN_PATH, "--device",    "cpu", "--model",     "mlp", "--batch-size",
        "16",           "--max-steps", "5",   "--log-every", "0",   "--metrics"};
    starter.insert(starter.end(), std::begin(words), std::end(words));
    starter.push_back(file_);
    return starter;
  }

  // Empty if the job failed.
  [[nodiscard]] std::string params_sha256() const {
    const std::string key = "\"params_sha256\":\"";
    const std::string text = bytes_of(file_);
    const std::size_t at = text.find(key);
    return at == std::string::npos ? "" : text.substr(at + key.size(), 64);
  }

 private:
  TemporaryDirectory directory_;
  std::string file_ = directory_ / "metrics.jsonl";
};

}  // namespace ddp::test
