// SPDX-License-Identifier: MIT
//
// Jobs that are stopped, killed and resumed: our launcher, real data, real processes.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_list.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/ranks_of.h"
#include "support/relative_difference.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::load_checkpoint;
using ddp::load_safetensors;
using ddp::test::bytes_of;
using ddp::test::ChildProcess;
using ddp::test::TemporaryDirectory;
using ddp::test::write_bytes;

namespace {

using Arguments = std::vector<std::string>;

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// 600 steps an epoch.
const Arguments kTrain = {
    DDP_TRAIN_PATH, "--device", "cpu", "--global-batch-size", "100", "--num-workers", "2",
    "--log-every",  "20"};

// A directory with checkpoints and with what the jobs leave.
class Training {
 public:
  explicit Training(int ranks) : ranks_(ranks) {}

  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    return directory_ / name;
  }

  [[nodiscard]] Arguments command(const Arguments& flags, const Arguments& launcher = {}) const {
    return Arguments{DDP_LAUNCH_PATH, "--nproc_per_node=" + std::to_string(ranks_)} + launcher +
           kTrain + Arguments{"--checkpoint-dir", file("c"), "--save", file("model")} + flags;
  }

  // Returns what rank 0 has said.
  std::string run(const Arguments& flags) {
    ChildProcess job(command(flags));
    const int code = job.wait(60s);
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
    CHECK(job.wait(25s) != 0);
    CHECK_THAT(job.err(), Contains(message));
  }

  [[nodiscard]] std::string parameters() const { return bytes_of(file("model")); }
  [[nodiscard]] std::string latest() const { return bytes_of(file("c/latest")); }
  [[nodiscard]] const std::string& errors() const { return errors_; }

 private:
  TemporaryDirectory directory_;
  int ranks_;
  std::string errors_;
};

std::string parameters_of_unbroken_run(int ranks, const Arguments& flags) {
  Training training(ranks);
  (void)training.run(flags);
  return training.parameters();
}

}  // namespace

TEST_CASE("a job that breaks off inside an epoch and goes on ends bit-identical", "[resume]") {
  for (const char* model : {"mlp", "lenet5"}) {
    const auto flags = [&](const char* steps) {
      return Arguments{"--model", model, "--accumulate", "2", "--max-steps", steps};
    };
    Training training(2);
    (void)training.run(flags("7"));
    CHECK(training.latest() == "model_epoch_0_step_7.safetensors\n");
    CHECK_THAT(training.run(flags("20")),
               Contains("\nresumed from " + training.file("c/model_epoch_0_step_7").string() +
                        ".safetensors: epoch 0, step 7\n"));
    CHECK(training.parameters() == parameters_of_unbroken_run(2, flags("20")));
  }
}

TEST_CASE("checkpoints of whole epochs go on as well, and the best is kept", "[resume]") {
  const Arguments schedule = {"--lr-schedule",       "cosine", "--warmup", "1", "--epochs", "3",
                              "--global-batch-size", "3000"};
  Training training(2);
  (void)training.run(schedule + Arguments{"--max-steps", "40", "--keep", "1"});
  CHECK(training.latest() == "model_epoch_2.safetensors\n");
  CHECK_FALSE(std::filesystem::exists(training.file("c/model_epoch_1.safetensors")));
  CHECK_THAT(training.run(schedule), Contains("model_epoch_2.safetensors: epoch 2, step 40"));
  CHECK(training.latest() == "model_epoch_3.safetensors\nmodel_epoch_2.safetensors\n");
  const std::string parameters = parameters_of_unbroken_run(2, schedule);
  CHECK(training.parameters() == parameters);

  const auto metadata = load_checkpoint(training.file("c/model_best.safetensors")).metadata;
  CHECK(metadata.at("test_score") == metadata.at("best_score"));
  CHECK(std::stod(metadata.at("best_score")) > 0.5);

  CHECK_THAT(training.run(schedule), Contains("model_epoch_3.safetensors: epoch 3, step 60"));
  CHECK(training.parameters() == parameters);
}

TEST_CASE("another number of ranks goes on with the rest of the epoch", "[resume]") {
  const Arguments flags = {"--max-steps", "40", "--dtype", "float64"};
  Training alone(1);
  (void)alone.run(flags);
  Training training(2);
  (void)training.run({"--max-steps", "15", "--dtype", "float64"});
  CHECK_THAT(training.run(3, flags), Contains("; ranks was 2 and is 3"));
  CHECK(ddp::test::largest_relative_difference(load_safetensors(alone.file("model")),
                                               load_safetensors(training.file("model"))) < 1e-12);
}

TEST_CASE("a killed rank leads to a restart that ends as if nothing had happened",
          "[resume][kill]") {
  const std::string unbroken = parameters_of_unbroken_run(2, {"--max-steps", "300"});
  for (const char* resume : {"auto", "none"}) {
    Training training(2);
    ChildProcess job(
        training.command({"--max-steps", "300", "--checkpoint-every", "7", "--resume", resume},
                         {"--max_restarts", "3"}));
    job.wait_for_output("step 100/");
    REQUIRE(kill(ddp::test::first_rank_of(job), SIGKILL) == 0);
    REQUIRE(job.wait(60s) == 0);
    CHECK_THAT(job.err(), Contains("restart 1 of 3"));
    CHECK_THAT(job.out(), Contains("resumed from " + training.file("c").string()));
    CHECK(training.parameters() == unbroken);
  }
}

TEST_CASE("who asks a job to stop gets a checkpoint", "[resume][stop]") {
  for (const int signal_number : {SIGTERM, SIGUSR1}) {
    Training training(2);
    ChildProcess job(training.command({"--epochs", "1000"}));
    job.wait_for_output("step 100/");
    REQUIRE(kill(ddp::test::first_rank_of(job), signal_number) == 0);
    CHECK(job.wait(25s) == 0);
    CHECK_THAT(job.out(), Contains("asked to stop: the last step is ") &&
                              Contains("saved " + training.file("c/model_epoch_").string()));
    const std::string name = training.latest().substr(0, training.latest().find('\n'));
    CHECK(load_checkpoint(training.file("c/" + name)).metadata.count("step") == 1);
  }
}

TEST_CASE("a damaged newest checkpoint is passed over with a warning", "[resume][damage]") {
  Training training(2);
  (void)training.run({"--max-steps", "20", "--checkpoint-every", "10"});
  const auto newest = training.file("c/model_epoch_0_step_20.safetensors");
  std::string bytes = bytes_of(newest);
  bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
  write_bytes(newest, bytes);
  CHECK_THAT(training.run({"--max-steps", "20"}),
             Contains("resumed from " + training.file("c/model_epoch_0_step_10").string()));
  CHECK_THAT(training.errors(), Contains("warning: [rank 0]") && Contains(newest.string()) &&
                                    Contains("it is damaged; passed over"));
  CHECK(training.parameters() == parameters_of_unbroken_run(2, {"--max-steps", "20"}));
}

TEST_CASE("a named checkpoint becomes the newest", "[resume]") {
  Training training(1);
  (void)training.run({"--max-steps", "30", "--checkpoint-every", "10"});
  const std::string named = training.file("c/model_epoch_0_step_10.safetensors");
  (void)training.run({"--max-steps", "12", "--resume", named});
  CHECK(training.latest() ==
        "model_epoch_0_step_12.safetensors\nmodel_epoch_0_step_10.safetensors\n");
  CHECK(training.parameters() == parameters_of_unbroken_run(1, {"--max-steps", "12"}));

  Training other(1);
  CHECK_THAT(other.run({"--max-steps", "12", "--resume", named}),
             Contains("resumed from " + named));
  CHECK(other.latest() == training.latest());
  training.check_refused({"--resume", other.file("c/model_epoch_0_step_10.safetensors")},
                         "already has checkpoints of another job");
}

TEST_CASE("a checkpoint of another job is refused by file and reason", "[resume]") {
  Training training(1);
  (void)training.run({"--max-steps", "5"});
  const std::string file = training.file("c/model_epoch_0_step_5.safetensors");
  training.check_refused({"--seed", "1"}, file + ": seed is 0 there and 1 here");
  training.check_refused({"--model", "lenet5"}, file + ": model is mlp there");
  training.check_refused({"--dtype", "float64"},
                         file + ": tensor \"fc1.weight\" is float32[256, 784] there");
  training.check_refused({"--momentum", "0"}, ".momentum_buffer\" is there, but nothing here");
  training.check_refused({"--resume", "none"},
                         "already has checkpoints, the newest of them model_");
  training.check_refused({"--resume", training.file("model")}, "it has no checksum");
  training.check_refused({"--resume", "/nonexistent"}, "cannot load /nonexistent");
  CHECK(training.latest() == "model_epoch_0_step_5.safetensors\n");
}

TEST_CASE("flags that need a directory say so", "[resume]") {
  for (const char* flag : {"--checkpoint-every=3", "--keep=1", "--resume=auto"}) {
    ChildProcess job(kTrain + Arguments{flag});
    CHECK(job.wait() == 2);
    CHECK_THAT(job.err(), Contains(" needs --checkpoint-dir"));
  }
}
