// SPDX-License-Identifier: MIT
//
// The main job end to end, with our launcher, our store, real data, and several numbers of ranks.
// refused_job_test.cpp has the jobs that do not start.
#include <signal.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/ranks_of.h"
#include "support/relative_difference.h"
#include "support/train_runs.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::Arguments;
using test::ChildProcess;
using test::first_rank_of;
using test::largest_relative_difference;
using test::TemporaryDirectory;
using test::train;
using test::train_command;
using test::operator+;

TEST_CASE("1, 2, 3 and 4 ranks with one global batch end with the same parameters", "[main]") {
  // 100 does not divide by 3: the ranks have 34, 33 and 33 samples.
  const Arguments flags = {"--global-batch-size", "100", "--max-steps", "100"};
  const Safetensors alone = train(1, flags);
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    CHECK(largest_relative_difference(alone, train(ranks, flags)) < 1e-12);
  }
}

TEST_CASE("1, 2, 3 and 4 ranks with one global batch end with the same lenet5", "[main]") {
  const Arguments flags = {"--model", "lenet5", "--global-batch-size", "50", "--max-steps", "100"};
  const Safetensors alone = train(1, flags);
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    CHECK(largest_relative_difference(alone, train(ranks, flags)) < 1e-12);
  }
}

TEST_CASE("ranks without samples in a step change nothing", "[main]") {
  // With global batches of 2, ranks 2 and 3 have no samples.
  const Arguments flags = {"--global-batch-size", "2", "--max-steps", "50"};
  CHECK(largest_relative_difference(train(1, flags), train(4, flags)) < 1e-12);
}

TEST_CASE("two runs with the same seed are bit-identical, and another seed differs", "[main]") {
  const Arguments flags = {"--model", "lenet5", "--batch-size", "16", "--max-steps", "30"};
  Arguments other = flags;
  other.insert(other.end(), {"--seed", "1"});
  CHECK(largest_relative_difference(train(2, flags), train(2, flags)) == 0);
  CHECK(largest_relative_difference(train(2, flags), train(2, other)) > 1e-3);
}

TEST_CASE("gradients that travel as 16 bits change a training by their rounding", "[main]") {
  const Arguments flags = {"--batch-size", "16", "--max-steps", "20"};
  const Safetensors exact = train(2, flags);
  for (const char* type : {"bf16", "fp16"}) {
    CAPTURE(type);
    const double difference =
        largest_relative_difference(exact, train(2, flags + Arguments{"--compress", type}));
    CHECK(difference > 1e-6);
    CHECK(difference < 0.3);  // of a bias that began with 0
  }
}

TEST_CASE("the main job learns, and only rank 0 prints", "[main]") {
  const TemporaryDirectory directory;
  const std::string metrics = directory / "metrics.jsonl";
  ChildProcess job(train_command(
      2, {"--model", "mlp", "--epochs", "3", "--batch-size", "64", "--lr", "0.05", "--lr-schedule",
          "cosine", "--metrics", metrics, "--log-dir", directory / "runs"}));
  REQUIRE(job.wait(100s) == 0);
  CHECK(test::entries_of(directory / "runs") == 1);  // an event file
  CHECK(job.err().empty());
  CHECK_THAT(job.out(), Catch::StartsWith("mlp on cpu over shm: 2 ranks, global batch 128"));
  int epochs = 0;
  for (const std::string& line : test::lines_of(job.out())) {
    if (line.find("test accuracy") != std::string::npos) ++epochs;
  }
  CHECK(epochs == 3);  // once per epoch, not per rank
  const std::string report = job.out().substr(job.out().rfind("test loss"));
  CHECK_THAT(report, Catch::Contains(" ms on 2 ranks; ") && Catch::Contains("straggler wait") &&
                         Catch::Contains("bus bandwidth") && Catch::Contains("\nadvice: "));
  nlohmann::json last;
  std::istringstream lines(test::bytes_of(metrics));
  for (std::string line; std::getline(lines, line);) last = nlohmann::json::parse(line);
  CHECK(last["event"] == "final");
  CHECK(last["test_accuracy"].get<double>() >= 0.85);
  CHECK(last["params_sha256"].get<std::string>().size() == 64);
}

// The bound is low enough for processors on which sums round differently; docs/training.md has the
// figure.
TEST_CASE("lenet5 reaches 90 % within ten epochs", "[main][accuracy]") {
  ChildProcess job(
      train_command(2, {"--model", "lenet5", "--epochs", "10", "--batch-size", "64", "--lr", "0.05",
                        "--momentum", "0.9", "--lr-schedule", "cosine", "--log-every", "0"}));
  REQUIRE(job.wait(300s) == 0);
  const std::string key = "epoch 10/10: test accuracy ";
  const std::size_t at = job.out().find(key);
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(job.out().substr(at + key.size())) >= 90);
}

// Perfetto sorts processes by name and ignores their sort_index.
TEST_CASE("the ranks of a trace are in order even when sorted by name", "[main]") {
  constexpr int kRanks = 11;
  const TemporaryDirectory directory;
  const std::string trace = directory / "trace.json";
  ChildProcess job(train_command(kRanks, {"--max-steps", "1", "--trace", trace}));
  REQUIRE(job.wait(100s) == 0);
  std::map<std::string, int> ranks;
  for (const auto& event : nlohmann::json::parse(test::bytes_of(trace))) {
    if (event["name"] == "process_name") ranks[event["args"]["name"]] = event["pid"];
  }
  REQUIRE(ranks.size() == kRanks);
  int expected = 0;
  for (const auto& [name, rank] : ranks) CHECK(rank == expected++);
}

// A container is one. The rank cannot see the sender's pid.
TEST_CASE("a signal from outside the job's PID namespace stops all ranks, too", "[main]") {
  const Arguments in_namespace = {"/usr/bin/unshare", "--pid", "--fork", "--mount-proc"};
  if (ChildProcess(in_namespace + Arguments{"true"}).wait(25s) != 0) {
    std::fprintf(stderr, "SKIPPED: no PID namespace can be made here (not root?)\n");
    return;
  }
  ChildProcess job(in_namespace + train_command(2, {"--epochs", "1000"}));
  job.wait_for_output("step 100/");
  const pid_t launcher = test::first_child_of(job.pid());
  REQUIRE(kill(test::first_child_of(test::first_child_of(launcher)), SIGTERM) == 0);
  CHECK(job.wait(25s) == 128 + SIGTERM);
  CHECK_THAT(job.err(), Catch::EndsWith("ddp-launch: SIGTERM to rank 0 asked the job to stop\n"));
}

TEST_CASE("a rank that is killed ends the job with its signal", "[main]") {
  ChildProcess job(train_command(2, {"--epochs", "1000"}));
  job.wait_for_output("step 100/");
  REQUIRE(kill(first_rank_of(job), SIGKILL) == 0);
  CHECK(job.wait(25s) == 128 + SIGKILL);
  CHECK_THAT(job.err(), Catch::Contains("SIGKILL"));
}

TEST_CASE("a signal to one rank stops all ranks after the same step, and the model is saved",
          "[main]") {
  const TemporaryDirectory directory;
  const std::string file = directory / "model.safetensors";
  ChildProcess job(train_command(2, {"--epochs", "1000", "--save", file}));
  job.wait_for_output("step 100/");
  const auto [name, signal_number] = GENERATE(std::pair<std::string, int>("SIGUSR1", SIGUSR1),
                                              std::pair<std::string, int>("SIGTERM", SIGTERM));
  REQUIRE(kill(first_rank_of(job), signal_number) == 0);
  CHECK(job.wait(25s) == 128 + SIGTERM);
  CHECK_THAT(job.err(),
             Catch::EndsWith("ddp-launch: " + name + " to rank 0 asked the job to stop\n"));
  CHECK_THAT(job.out(),
             Catch::Contains("asked to stop: the last step is ") &&
                 Catch::Contains("\nno checkpoint saved: there is no --checkpoint-dir\n"));
  CHECK(load_safetensors(file).tensors.size() == 6);
}

TEST_CASE("what is printed to a closed stdout does not get into a file of the training", "[main]") {
  const TemporaryDirectory directory;
  const std::string metrics = directory / "metrics.jsonl";
  ChildProcess job({"/bin/sh", "-c", "exec \"$0\" \"$@\" >&-", DDP_TRAIN_PATH, "--device",
                    DDP_JOB_DEVICE, "--max-steps", "3", "--log-every", "1", "--metrics", metrics});
  CHECK(job.wait(60s) == 0);
  const auto lines = test::lines_of(test::bytes_of(metrics));
  CHECK(lines.size() >= 3);
  for (const std::string& line : lines) CHECK_THAT(line, Catch::StartsWith("{"));
}

TEST_CASE("a rank that is asked for a report prints it and continues", "[main]") {
  ChildProcess job(train_command(2, {"--epochs", "1000"}));
  job.wait_for_output("step 100/");
  const pid_t rank = first_rank_of(job);
  REQUIRE(kill(rank, SIGUSR2) == 0);
  job.wait_for_output("straggler wait");
  CHECK_THAT(job.err(), Catch::Contains("exposed communication"));
  REQUIRE(kill(rank, SIGTERM) == 0);
  CHECK(job.wait(25s) == 128 + SIGTERM);
}

TEST_CASE("the report begins a line of its own on a terminal, too", "[main]") {
  ChildProcess job({DDP_TRAIN_PATH, "--device", DDP_JOB_DEVICE, "--epochs", "1000"},
                   {.environment = {{"DDP_LAUNCH_TTY", "/dev/null"}}});
  job.wait_for_output("] 100/");
  job.send_signal(SIGTERM);
  CHECK(job.wait(25s) == 128 + SIGTERM);
  const std::size_t report = job.out().find(" steps of ");
  REQUIRE(report != std::string::npos);
  CHECK(job.out()[job.out().find_last_not_of("0123456789", report - 1)] == '\n');
}

TEST_CASE("a warm-up by steps reaches the rate in its last step", "[main]") {
  const TemporaryDirectory directory;
  const std::string metrics = directory / "metrics.jsonl";
  ChildProcess job(train_command(2, {"--warmup-steps", "4", "--lr", "0.4", "--max-steps", "6",
                                     "--log-every", "1", "--metrics", metrics}));
  REQUIRE(job.wait(100s) == 0);
  std::vector<double> rates;
  for (const std::string& line : test::lines_of(test::bytes_of(metrics))) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "step") rates.push_back(event["learning_rate"]);
  }
  REQUIRE(rates.size() == 6);
  constexpr double kExpected[] = {0.1, 0.2, 0.3, 0.4, 0.4, 0.4};
  for (std::size_t i = 0; i < 6; ++i) CHECK(rates[i] == Approx(kExpected[i]));
}

TEST_CASE("the time left is that up to --max-steps", "[main]") {
  ChildProcess job(train_command(2, {"--epochs", "2", "--max-steps", "6", "--log-every", "4"}));
  REQUIRE(job.wait(100s) == 0);
  CHECK_THAT(job.out(), Catch::Contains("epoch 1/2 step 4/6 ") &&
                            Catch::Contains("epoch 1/2 step 6/6 ") &&
                            Catch::Contains("epoch 1/2, step 6/469: test accuracy"));
}

TEST_CASE("a job that ends before --max-steps says so, and that a schedule by epoch does nothing",
          "[main]") {
  ChildProcess job(
      train_command(1, {"--batch-size", "6000", "--max-steps", "50", "--lr-schedule", "cosine"}));
  REQUIRE(job.wait(100s) == 0);
  CHECK_THAT(job.out(), Catch::Contains("\n--lr-schedule cosine changes the rate by epoch: in a "
                                        "single one (after the warm-up) it stays as it is\n"));
  CHECK_THAT(job.out(), Catch::Contains("\n--epochs 1 ended the training after 10 steps, before "
                                        "--max-steps 50\n"));
}

// The first step with this learning rate gives weights with which the second step overflows.
TEST_CASE("a loss that is not finite ends the job with the epoch and step", "[main]") {
  const TemporaryDirectory directory;
  const Arguments flags = {"--lr",
                           "1e30",
                           "--max-steps",
                           "20",
                           "--checkpoint-dir",
                           directory / "run",
                           "--checkpoint-every",
                           "1"};
  ChildProcess job(train_command(2, flags));
  CHECK(job.wait(100s) == 1);
  CHECK_THAT(job.err(), Catch::Contains("[train] epoch 1/1, step 2/469: the loss is nan: ") &&
                            Catch::Contains("--non-finite stop names the first bad gradient"));
  CHECK_FALSE(std::filesystem::exists(directory / "run/model_epoch_0_step_2.safetensors"));
}

TEST_CASE("a loss that is only looked at in the next step is told of its own step", "[main]") {
  ChildProcess job(train_command(2, {"--lr", "1e30", "--max-steps", "20"}));
  CHECK(job.wait(100s) == 1);
  CHECK_THAT(job.err(), Catch::Contains("[train] epoch 1/1, step 2/469: the loss is nan: ") &&
                            !Catch::Contains("step 3/469"));
}

TEST_CASE("a job that resumes a file and has no directory says that it saves nothing", "[main]") {
  const TemporaryDirectory directory;
  ChildProcess first(train_command(2, {"--max-steps", "3", "--checkpoint-dir", directory / "run"}));
  REQUIRE(first.wait(100s) == 0);
  const std::string file = directory / "run/model_epoch_0_step_3.safetensors";
  ChildProcess job(train_command(2, {"--max-steps", "5", "--resume", file}));
  CHECK(job.wait(100s) == 0);
  CHECK_THAT(job.out(), Catch::Contains("no checkpoint saved: there is no --checkpoint-dir\n") &&
                            !Catch::Contains("\nsaved "));
}

TEST_CASE("with --non-finite stop, a bad gradient ends the job with its name and rank", "[main]") {
  ChildProcess job(train_command(2, {"--lr", "1e30", "--max-steps", "20", "--non-finite", "stop"}));
  CHECK(job.wait(100s) == 1);
  CHECK_THAT(job.err(), Catch::Contains("[train] epoch 1/1, step 2/469: [ddp] step 2: ") &&
                            Catch::Contains("is not finite; it came from rank 0 ('"));
}

TEST_CASE("with --non-finite skip or ignore, a bad loss does not end the job", "[main]") {
  for (const char* policy : {"skip", "ignore"}) {
    INFO(policy);
    ChildProcess job(
        train_command(2, {"--lr", "1e30", "--max-steps", "5", "--non-finite", policy}));
    CHECK(job.wait(100s) == 0);
    const bool is_told = job.out().find("skipped: 4 of 5 steps") != std::string::npos;
    CHECK(is_told == (std::string(policy) == "skip"));
  }
}

TEST_CASE("the first line says what a step consists of", "[main]") {
  const auto first_line = [](int ranks, const Arguments& flags) {
    ChildProcess job(train_command(ranks, Arguments{"--max-steps", "1"} + flags));
    CHECK(job.wait(100s) == 0);
    return test::lines_of(job.out()).front();
  };
  CHECK_THAT(first_line(2, {"--batch-size", "16", "--accumulate", "4"}),
             Catch::Contains(": 2 ranks, global batch 128 = 2 ranks x 16 x 4 passes, 60000 "));
  CHECK_THAT(first_line(2, {"--global-batch-size", "30", "--accumulate", "2"}),
             Catch::Contains(": 2 ranks, global batch 30 = 2 passes x 15, 60000 "));
  CHECK_THAT(first_line(1, {"--batch-size", "16"}), Catch::Contains(": 1 rank, global batch 16, "));
}

TEST_CASE("with several passes in a step, progress counts steps", "[main]") {
  ChildProcess job(train_command(2, {"--global-batch-size", "7000", "--accumulate", "4", "--epochs",
                                     "1", "--log-every", "4"}));
  CHECK(job.wait(100s) == 0);
  CHECK_THAT(job.out(), Catch::Contains("epoch 1/1 step 4/9 ") &&
                            Catch::Contains("epoch 1/1 step 8/9 ") &&
                            Catch::Contains("epoch 1/1 step 9/9 ") && !Catch::Contains("/35"));
}

TEST_CASE("an epoch has as many rounds as its plan has steps, however the data divide", "[main]") {
  // 203 samples: the last batch of 20 has 3 of them, so that of 4 ranks one has none.
  const TemporaryDirectory data;
  test::write_fashion_mnist(data.path(), {.train = 203, .test = 10});
  const auto check = [&](int ranks, const Arguments& flags, int steps_in_epoch) {
    const std::string metrics = data / "metrics.jsonl";
    ChildProcess job(train_command(
        ranks,
        Arguments{"--data-dir", data.path(), "--epochs", "3", "--metrics", metrics} + flags));
    CAPTURE(ranks, flags);
    CHECK(job.wait(100s) == 0);
    const int steps = 3 * steps_in_epoch;
    // What the engine has counted, and what the trainer has.
    CHECK_THAT(job.out(), Catch::Contains(" of " + std::to_string(steps) + " steps: the first"));
    int last_step = 0;
    for (const std::string& line : test::lines_of(test::bytes_of(metrics))) {
      const nlohmann::json event = nlohmann::json::parse(line);
      last_step = std::max(last_step, event.value("step", 0));
    }
    CHECK(last_step == steps);
  };
  for (const int ranks : {2, 3, 4}) check(ranks, {"--global-batch-size", "20"}, 11);
  check(4, {"--global-batch-size", "20", "--drop-last"}, 10);
  check(3, {"--batch-size", "20", "--sampler", "torch"}, 4);        // 68 each
  check(4, {"--global-batch-size", "60", "--accumulate", "3"}, 4);  // 11 passes
}

TEST_CASE("a full disk does not end a training, and is reported at once and at the end", "[main]") {
  const TemporaryDirectory directory;
  const auto full = [&](const char* name) {
    std::filesystem::create_symlink("/dev/full", directory / name);
    return std::string(directory / name);
  };
  const Arguments files = {full("metrics.jsonl"), full("trace.json"), full("step.svg")};
  ChildProcess job(train_command(
      2, {"--max-steps", "5", "--metrics", files[0], "--trace", files[1], "--step-svg", files[2]}));
  CHECK(job.wait(100s) == 0);
  for (const std::string& file : files) {
    CHECK_THAT(job.err(), Catch::Contains(file + ": cannot write, so nothing more is added to it: "
                                                 "No space left on device"));
  }
  CHECK_THAT(job.out(), Catch::EndsWith("incomplete, since they could not be written: " + files[0] +
                                        ", " + files[1] + ", " + files[2] + "\n"));
}

TEST_CASE("help that cannot be written is an error", "[main]") {
  ChildProcess train({DDP_TRAIN_PATH, "--help"}, {.stdout_path = "/dev/full"});
  CHECK(train.wait() == 1);
  CHECK(train.err() == "train: cannot write to standard output\n");
}

// Run by scripts, which pass the files in environment variables.
TEST_CASE("two saved models are equal", "[.][equal-models]") {
  const char* first = std::getenv("DDP_FIRST_MODEL");
  const char* second = std::getenv("DDP_SECOND_MODEL");
  REQUIRE((first != nullptr && second != nullptr));
  CHECK(largest_relative_difference(load_safetensors(first), load_safetensors(second)) < 1e-12);
}
