// SPDX-License-Identifier: MIT
//
// Jobs that are stopped and resumed, with our launcher, real data and real processes.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_list.h"
#include "support/ranks_of.h"
#include "support/relative_difference.h"
#include "support/resumable_job.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::load_checkpoint;
using ddp::load_safetensors;
using ddp::test::Arguments;
using ddp::test::bytes_of;
using ddp::test::ChildProcess;
using ddp::test::kResumable;
using ddp::test::parameters_of_unbroken_run;
using ddp::test::ResumableJob;
using ddp::test::train_command;
using ddp::test::write_bytes;
using ddp::test::operator+;

TEST_CASE("a job resumes after whole epochs, too, and the best checkpoint is kept", "[resume]") {
  const Arguments schedule = {"--lr-schedule",       "cosine", "--warmup", "1", "--epochs", "3",
                              "--global-batch-size", "3000"};
  ResumableJob training(2);
  (void)training.run(schedule + Arguments{"--max-steps", "40", "--keep", "1"});
  CHECK(training.latest() == "model_epoch_2.safetensors\n");
  CHECK_FALSE(std::filesystem::exists(training.file("c/model_epoch_1.safetensors")));
  CHECK_THAT(training.run(schedule),
             Contains("model_epoch_2.safetensors at step 40, after epoch 2"));
  CHECK(training.latest() == "model_epoch_3.safetensors\nmodel_epoch_2.safetensors\n");
  const std::string parameters = parameters_of_unbroken_run(2, schedule);
  CHECK(training.parameters() == parameters);

  const auto metadata = load_checkpoint(training.file("c/model_best.safetensors")).metadata;
  CHECK(metadata.at("test_score") == metadata.at("best_score"));
  CHECK(std::stod(metadata.at("best_score")) > 0.5);

  CHECK_THAT(training.run(schedule),
             Contains("model_epoch_3.safetensors at step 60, after epoch 3") &&
                 Contains("nothing is left to train: test accuracy "));
  CHECK(training.parameters() == parameters);
}

namespace {

// Turns the checkpoint into one of a job that was asked to stop at the end of an epoch, before it
// evaluated and updated its schedule.
void take_back_evaluation(const std::filesystem::path& checkpoint,
                          const std::filesystem::path& one_before) {
  const ddp::Safetensors before = load_checkpoint(one_before);
  ddp::Safetensors loaded = load_checkpoint(checkpoint);
  for (ddp::NamedBuffer& tensor : loaded.tensors) {
    if (!tensor.name.starts_with("schedule.")) continue;
    tensor = *std::ranges::find(before.tensors, tensor.name, &ddp::NamedBuffer::name);
  }
  loaded.metadata.erase("test_loss");
  loaded.metadata.erase("test_score");
  ddp::save_checkpoint(checkpoint, loaded.tensors, loaded.metadata);
}

// A long training that nobody launches.
Arguments unlaunched_train(const std::string& checkpoint_dir) {
  return Arguments{DDP_TRAIN_PATH, "--device", DDP_JOB_DEVICE} + kResumable +
         Arguments{"--epochs", "1000", "--checkpoint-dir", checkpoint_dir};
}

}  // namespace

TEST_CASE("a plateau schedule resumes with its state", "[resume]") {
  const ddp::test::TemporaryDirectory set;
  ddp::test::write_fashion_mnist(set.path(), {.train = 600, .test = 100});
  // The rate is so small that the loss does not change, so it is lowered after the second and the
  // third epoch.
  const Arguments flags = {
      "--lr-schedule", "plateau",  "--plateau-patience",  "0", "--lr", "1e-6", "--epochs", "4",
      "--data-dir",    set.path(), "--global-batch-size", "30"};
  const auto lowered = [](const char* rate) {
    return Contains("no longer falls: learning rate " + std::string(rate) + " from here on");
  };
  ResumableJob unbroken(2);
  CHECK_THAT(unbroken.run(flags), lowered("1e-07") && lowered("1e-08"));
  ResumableJob training(2);
  CHECK_THAT(training.run(flags + Arguments{"--max-steps", "50"}), lowered("1e-07"));
  CHECK_THAT(training.run(flags), lowered("1e-08") && !lowered("1e-07"));
  CHECK(training.parameters() == unbroken.parameters());
  Arguments other_rate = flags;
  std::ranges::replace(other_rate, "1e-6", "0.5");
  CHECK_THAT(training.run(other_rate),
             Contains("; --lr 0.5 is not used: --lr-schedule plateau goes on\n"));
  training.check_refused(
      {"--data-dir", set.path()},
      "it was trained with --lr-schedule plateau, and --lr-schedule constant is");

  ResumableJob stopped(2);
  (void)stopped.run(flags + Arguments{"--max-steps", "40"});
  take_back_evaluation(stopped.file("c/model_epoch_2.safetensors"),
                       stopped.file("c/model_epoch_1.safetensors"));
  CHECK_THAT(stopped.run(flags), lowered("1e-07") && lowered("1e-08"));
  CHECK(stopped.parameters() == unbroken.parameters());
}

TEST_CASE("an epoch whose job stopped before its evaluation is evaluated by the next one",
          "[resume][stop]") {
  const ddp::test::TemporaryDirectory set;
  ddp::test::write_fashion_mnist(set.path(), {.train = 600, .test = 100});
  const Arguments flags = {"--epochs", "2", "--data-dir", set.path(), "--global-batch-size", "30"};
  ResumableJob stopped(2);
  (void)stopped.run(flags);
  const auto last = stopped.file("c/model_epoch_2.safetensors");
  const auto evaluated = load_checkpoint(last).metadata;
  take_back_evaluation(last, last);
  std::filesystem::remove(stopped.file("c/model_best.safetensors"));
  const std::string text = stopped.run(flags);
  CHECK_THAT(text, Contains("\nepoch 2/2: test accuracy ") &&
                       Contains("\nnothing is left to train: test accuracy "));
  CHECK(load_checkpoint(last).metadata == evaluated);
  CHECK(stopped.latest() == "model_epoch_2.safetensors\nmodel_epoch_1.safetensors\n");
}

TEST_CASE("a job with another number of ranks resumes with the rest of the epoch", "[resume]") {
  const Arguments flags = {"--max-steps", "40", "--dtype", "float64"};
  ResumableJob alone(1);
  (void)alone.run(flags);
  ResumableJob training(2);
  (void)training.run({"--max-steps", "15", "--dtype", "float64"});
  CHECK_THAT(training.run(3, flags), Contains("; ranks was 2 and is 3"));
  CHECK(ddp::test::largest_relative_difference(load_safetensors(alone.file("model")),
                                               load_safetensors(training.file("model"))) < 1e-12);
}

TEST_CASE("a job that gets further in each attempt is restarted as often as --max_restarts says",
          "[resume][restart]") {
  ResumableJob training(2);
  // Rank 1 fails in each attempt after five steps of its own.
  const std::string attempt =
      "\"$0\" \"$@\" --max-steps $((5 * (TORCHELASTIC_RESTART_COUNT + 1))) && exit $((3 * RANK))";
  ChildProcess job(training.command({}, {"--max_restarts", "3", "sh", "-c", attempt}));
  CHECK(job.wait(100s) == 3);
  for (const char* step : {"5", "10", "15"}) {
    CHECK_THAT(job.out(), Contains(" at step " + std::string(step) + ", in epoch 1\n"));
  }
  CHECK(training.latest().starts_with("model_epoch_0_step_20.safetensors\n"));
  CHECK_THAT(job.err(), Contains("restart 3 of 3") &&
                            Contains("not started again: --max_restarts 3 is used up"));
}

TEST_CASE("a job that is asked to stop saves a checkpoint", "[resume][stop]") {
  for (const int signal_number : {SIGTERM, SIGUSR1}) {
    ResumableJob training(2);
    ChildProcess job(training.command({"--epochs", "1000"}));
    job.wait_for_output("step 100/");
    REQUIRE(kill(ddp::test::first_rank_of(job), signal_number) == 0);
    CHECK(job.wait(25s) == 128 + SIGTERM);
    CHECK_THAT(job.out(), Contains("asked to stop: the last step is ") &&
                              Contains("saved " + training.file("c/model_epoch_").string()) &&
                              !Contains("test accuracy"));
    const std::string name = training.latest().substr(0, training.latest().find('\n'));
    CHECK(load_checkpoint(training.file("c/" + name)).metadata.count("step") == 1);
  }
}

TEST_CASE("a job that is asked to stop during an evaluation leaves it and saves the epoch",
          "[resume][stop]") {
  const ddp::test::TemporaryDirectory set;
  const std::uint32_t test = ddp::test::kIsEmulated ? 6000 : 120000;  // many seconds
  ddp::test::write_fashion_mnist(set.path(), {.train = 200, .test = test});
  ResumableJob training(2);
  ChildProcess job(training.command({"--model", "convnet", "--data-dir", set.path(), "--epochs",
                                     "2", "--global-batch-size", "100"}));
  job.wait_for_output("step 2/2");
  REQUIRE(kill(ddp::test::first_rank_of(job), SIGTERM) == 0);
  CHECK(job.wait(50s) == 128 + SIGTERM);
  const std::string file = training.file("c/model_epoch_1.safetensors");
  CHECK_THAT(job.out(), Contains("asked to stop: the last step is 2\nsaved " + file + "\n") &&
                            !Contains("test accuracy"));
  CHECK(training.latest() == "model_epoch_1.safetensors\n");
  const auto metadata = load_checkpoint(file).metadata;
  CHECK(metadata.at("epoch") == "1");
  CHECK(metadata.at("consumed_samples") == "0");
  CHECK(metadata.count("test_score") == 0);
}

TEST_CASE("without a launcher, a signal stops and saves, too, and the exit code says so",
          "[resume][stop]") {
  const auto [signal_number, code] =
      GENERATE(std::pair(SIGINT, 130), std::pair(SIGTERM, 143), std::pair(SIGUSR1, 143));
  const ddp::test::TemporaryDirectory directory;
  ChildProcess job(unlaunched_train(directory / "c"));
  job.wait_for_output("step 100/");
  job.send_signal(signal_number);
  CHECK(job.wait(25s) == code);
  CHECK_THAT(job.out(), Contains("\nsaved " + (directory / "c/model_epoch_").string()));
}

// The `tee` of `train | tee log` gets Ctrl-C, too. While it is stopped, the job sees neither end.
TEST_CASE("a job that should stop saves even if nobody reads its output any more",
          "[resume][stop]") {
  const ddp::test::TemporaryDirectory directory;
  ChildProcess job(unlaunched_train(directory / "c"));
  job.wait_for_output("step 100/");
  job.send_signal(SIGSTOP);
  job.send_signal(SIGTERM);
  job.close_output();
  job.send_signal(SIGCONT);
  CHECK(job.wait(25s) == 128 + SIGTERM);
  CHECK(std::filesystem::exists(directory / "c/latest"));
}

// torchrun, mpirun and srun take another code for a failure.
TEST_CASE("a worker that was asked to stop ends with 0", "[resume][stop]") {
  ChildProcess job(
      train_command(1, {"--epochs", "1000"}, {"sh", "-c", "\"$0\" \"$@\"; echo code $?"}));
  job.wait_for_output("step 100/");
  const pid_t shell = ddp::test::first_rank_of(job);
  const int signal_number = GENERATE(SIGINT, SIGTERM);
  REQUIRE(kill(ddp::test::first_child_of(shell), signal_number) == 0);
  CHECK(job.wait(25s) == 128 + SIGTERM);
  CHECK_THAT(job.out(), Contains("\ncode 0\n"));
}

TEST_CASE("a damaged newest checkpoint is skipped with a warning", "[resume][damage]") {
  ResumableJob training(2);
  (void)training.run({"--max-steps", "20", "--checkpoint-every", "10"});
  const auto newest = training.file("c/model_epoch_0_step_20.safetensors");
  std::string bytes = bytes_of(newest);
  bytes[bytes.size() - 1] = static_cast<char>(bytes.back() ^ 1);
  write_bytes(newest, bytes);
  CHECK_THAT(training.run({"--max-steps", "20"}),
             Contains("resumed from " + training.file("c/model_epoch_0_step_10").string()));
  CHECK_THAT(training.errors(), Contains("warning: [rank 0]") && Contains(newest.string()) &&
                                    Contains("it is damaged, first in tensor \"") &&
                                    Contains("\"; this checkpoint is skipped"));
  CHECK(training.parameters() == parameters_of_unbroken_run(2, {"--max-steps", "20"}));
}

// Each rank has a directory of its own, as on nodes without a shared disk.
TEST_CASE("rank 0's newest checkpoint counts, whatever the other ranks have", "[resume][rank0]") {
  ResumableJob training(2);
  (void)training.run({"--max-steps", "10", "--checkpoint-every", "10"});
  std::filesystem::rename(training.file("c"), training.file("c0"));
  (void)training.run({"--max-steps", "20", "--checkpoint-every", "10"});
  std::filesystem::rename(training.file("c"), training.file("c1"));
  const Arguments own_directory = {
      "sh", "-c",
      "exec \"$0\" \"$@\" --checkpoint-dir \"" + training.file("c").string() + "$RANK\""};
  const Arguments flags = {"--max-steps", "30"};
  const std::string newer = bytes_of(training.file("c1/latest"));
  CHECK(newer.starts_with("model_epoch_0_step_20.safetensors\n"));
  ChildProcess resumed(training.command(flags, own_directory));
  REQUIRE(resumed.wait(60s) == 0);
  CHECK_THAT(resumed.out(),
             Contains("\nresumed from " + training.file("c0").string() +
                      "/model_epoch_0_step_10.safetensors at step 10, in epoch 1\n"));
  CHECK(training.parameters() == parameters_of_unbroken_run(2, flags));
  CHECK(bytes_of(training.file("c1/latest")) == newer);  // only rank 0 writes

  // What rank 1 could load does not help.
  for (const auto& entry : std::filesystem::directory_iterator(training.file("c0"))) {
    if (entry.path().extension() == ".safetensors") write_bytes(entry.path(), "damaged");
  }
  ChildProcess refused(training.command(flags, own_directory));
  CHECK(refused.wait(25s) == 1);
  const std::string reason =
      "[checkpoint] none of 2 checkpoints in " + training.file("c0").string() + " can be loaded";
  CHECK_THAT(refused.err(), Contains("\ntrain: " + reason) &&
                                Contains("\nrank 1| train: [on_rank0] rank 0 failed: " + reason));
}

TEST_CASE("a named checkpoint becomes the newest", "[resume]") {
  ResumableJob training(1);
  (void)training.run({"--max-steps", "30", "--checkpoint-every", "10"});
  const std::string named = training.file("c/model_epoch_0_step_10.safetensors");
  (void)training.run({"--max-steps", "12", "--resume", named});
  CHECK(training.latest() ==
        "model_epoch_0_step_12.safetensors\nmodel_epoch_0_step_10.safetensors\n");
  CHECK(training.parameters() == parameters_of_unbroken_run(1, {"--max-steps", "12"}));

  ResumableJob other(1);
  CHECK_THAT(other.run({"--max-steps", "12", "--resume", named}),
             Contains("resumed from " + named));
  CHECK(other.latest() == training.latest());
  training.check_refused({"--resume", other.file("c/model_epoch_0_step_10.safetensors")},
                         "already has checkpoints of another job");
}

TEST_CASE("a best checkpoint that is left alone is not overwritten by a new training", "[resume]") {
  const ddp::test::TemporaryDirectory set;
  ddp::test::write_fashion_mnist(set.path(), {.train = 600, .test = 100});
  const Arguments flags = {"--data-dir", set.path(), "--global-batch-size", "30"};
  ResumableJob training(1);
  (void)training.run(flags + Arguments{"--epochs", "1"});
  for (const char* name : {"c/latest", "c/model_epoch_1.safetensors"}) {
    std::filesystem::remove(training.file(name));
  }
  const std::string best = training.file("c/model_best.safetensors");
  const std::string bytes = bytes_of(best);
  for (const char* resume : {"none", "auto"}) {
    training.check_refused(flags + Arguments{"--resume", resume},
                           "--resume " + std::string(resume) + ": " + training.file("c").string() +
                               " has model_best.safetensors, which a new training would overwrite, "
                               "and no other checkpoint; --resume " +
                               best + " goes on from it, or move it away");
  }
  ResumableJob other(1);
  (void)other.run(flags + Arguments{"--epochs", "1"});
  training.check_refused(flags + Arguments{"--resume", other.file("c/model_epoch_1.safetensors")},
                         "already has checkpoints of another job");
  CHECK(bytes_of(best) == bytes);

  // The rate is so high that nothing better comes.
  const Arguments worse = {"--epochs", "2", "--lr", "1e4", "--non-finite", "ignore"};
  CHECK_THAT(training.run(flags + worse + Arguments{"--resume", best}),
             Contains("resumed from " + best + " at step 20, after epoch 1"));
  CHECK(training.latest() == "model_epoch_2.safetensors\nmodel_epoch_1.safetensors\n");
  CHECK(bytes_of(best) == bytes);
}

TEST_CASE("a job that resumes says that it does not use --init", "[resume]") {
  ResumableJob training(1);
  CHECK_THAT(training.run({"--max-steps", "5"}), !Contains("--init"));
  const std::string weights = training.file("model");
  CHECK_THAT(training.run({"--max-steps", "6", "--init", weights}),
             Contains("resumed from ") && Contains("; --init " + weights + " is not used\n"));
}

TEST_CASE("a checkpoint of another job is refused by file and reason", "[resume]") {
  ResumableJob training(1);
  (void)training.run({"--max-steps", "5"});
  const std::string file = training.file("c/model_epoch_0_step_5.safetensors");
  training.check_refused({"--seed", "1"}, file + ": seed is 0 in the file and 1 here");
  training.check_refused({"--model", "lenet5"}, file + ": model is mlp in the file");
  training.check_refused({"--dtype", "float64"},
                         file + ": tensor \"fc1.weight\" is float32[256, 784] in the file");
  training.check_refused({"--momentum", "0"},
                         ".momentum_buffer\" is in the file, but nothing in this program");
  training.check_refused({"--resume", "none"},
                         "already has checkpoints, the newest of them model_");
  training.check_refused({"--resume", training.file("model")}, "it has no checksum");
  training.check_refused({"--resume", "/nonexistent"}, "cannot load /nonexistent");
  CHECK(training.latest() == "model_epoch_0_step_5.safetensors\n");
}

TEST_CASE("another precision or optimizer is refused by the flags", "[resume]") {
  ResumableJob training(1);
  (void)training.run({"--max-steps", "5", "--amp", "fp16"});
  const std::string origin =
      "cannot resume from " + training.file("c/model_epoch_0_step_5.safetensors").string() + ": ";
  training.check_refused({},
                         origin + "it was trained with --amp fp16, and --amp none is asked for: ");
  training.check_refused({"--amp", "bf16"}, " --amp bf16 is asked for: ");
  training.check_refused({"--amp", "fp16", "--momentum", "0"},
                         origin + "it was trained with --momentum 0.9, and --momentum 0 is");
  training.check_refused({"--optimizer", "adamw"},
                         origin +
                             "it was trained with --amp fp16 --optimizer sgd, and --amp none "
                             "--optimizer adamw is asked for: ");
  training.check_refused({"--amp", "none", "--dtype", "float64"},
                         origin +
                             "it was trained with --amp fp16 --dtype float32, and --amp none "
                             "--dtype float64 is asked for: ");
}

TEST_CASE("a checkpoint that cannot be written ends the job within steps, not at the next one",
          "[resume][disk]") {
  ResumableJob training(1);
  std::string command = "trap '' XFSZ; ulimit -f 600; exec";  // 300 KiB, like a full disk
  for (const std::string& word : training.command({"--checkpoint-every", "200"})) {
    command += " '" + word + "'";
  }
  ChildProcess job({"/bin/sh", "-c", command});
  CHECK(job.wait(25s) == 1);
  CHECK_THAT(job.err(),
             Contains("model_epoch_0_step_200.safetensors") && Contains("File too large"));
  CHECK_THAT(job.out(), Contains("step 200/600") && !Contains("step 600/600"));
}

TEST_CASE("flags that need --checkpoint-dir are refused without it", "[resume]") {
  for (const char* flag : {"--checkpoint-every=3", "--keep=1", "--resume=auto"}) {
    ChildProcess job({DDP_TRAIN_PATH, "--device", "cpu", flag});
    CHECK(job.wait() == 2);
    CHECK_THAT(job.err(), Contains(" needs --checkpoint-dir"));
  }
}
