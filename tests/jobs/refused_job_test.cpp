// SPDX-License-Identifier: MIT
//
// What the main job refuses, and in which words.
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "support/ranks_of.h"
#include "support/train_runs.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::Arguments;
using test::ChildProcess;
using test::TemporaryDirectory;
using test::train_command;
using test::operator+;

namespace {

void check_refused(const Arguments& command, const std::string& expected) {
  const auto begin = Clock::now();
  ChildProcess job(command);
  CHECK(job.wait(5s) != 0);
  CHECK(Clock::now() - begin < 5s);
  CHECK_THAT(job.err(), Catch::Contains(expected));
}

}  // namespace

TEST_CASE("ranks with different data or flags are an error at the start", "[main]") {
  const TemporaryDirectory directory;
  for (const std::uint32_t rank : {0, 1}) {
    const auto place = directory / std::to_string(rank);
    std::filesystem::create_directory(place);
    test::write_fashion_mnist(place, {.train = 24 - rank});
  }
  const auto command = [&](const std::string& flags) {
    const std::string shell = "cd " + directory.path().string() + " && exec '" + DDP_TRAIN_PATH +
                              "' --device " + DDP_JOB_DEVICE + " " + flags;
    return Arguments{DDP_LAUNCH_PATH, "--nproc_per_node=2", "sh", "-c", shell};
  };
  check_refused(command("--data-dir $RANK"),
                "[train] jobs differ in dataset_size: rank 0 has 24, rank 1 has 23");
  check_refused(command("--data-dir 0 --lr 0.1$RANK"),
                "[train] jobs differ in lr: rank 0 has 0.1, rank 1 has 0.11");
  // Flags with which ranks make different models, or call different collectives.
  check_refused(command("--data-dir 0 --model $([ $RANK = 0 ] && echo mlp || echo lenet5)"),
                "[train] jobs differ in model: rank 0 has mlp, rank 1 has lenet5");
  check_refused(command("--data-dir 0 --model resnet18 $([ $RANK = 0 ] && echo --sync-bn)"),
                "[train] jobs differ in sync_bn: rank 0 has true, rank 1 has false");
  check_refused(command("--data-dir 0 --max-steps 1$RANK"),
                "[train] jobs differ in max_steps: rank 0 has 10, rank 1 has 11");
  check_refused(command("--data-dir 0 $([ $RANK = 0 ] && echo --checkpoint-dir c)"),
                "[train] jobs differ in checkpoint_dir_or_resume: rank 0 has true, rank 1 has "
                "false");
  check_refused(command("--data-dir 0 $([ $RANK = 0 ] && echo --step-svg step.svg)"),
                "[train] jobs differ in trace_or_step_svg: rank 0 has true, rank 1 has false");
}

TEST_CASE("bad input is refused in one line", "[main]") {
  // Refused before the data is read.
  check_refused(train_command(1, {"--model", "transformer9", "--data-dir", "/nonexistent"}),
                "there is no model \"transformer9\", only: mlp, lenet5, convnet, resnet18, unet, "
                "gpt-nano, gpt-micro, gpt-mini, gpt2");
  check_refused(train_command(1, {"--metrics=", "--sync-bn=maybe"}),
                "--sync-bn=maybe: the value of a switch can only be true or false");
  check_refused(train_command(2, {"--global-batch-size", "10", "--accumulate", "3"}),
                "--global-batch-size 10 cannot be cut into --accumulate 3 equal passes");
  check_refused(train_command(1, {"--amp", "fp16", "--non-finite", "stop"}),
                "--amp fp16 finds its loss scale by skipping steps: it needs --non-finite skip");
  check_refused(train_command(1, {"--tf32", "--dtype", "float64"}),
                "--tf32 rounds float32: it cannot go with --dtype float64");
  check_refused(train_command(1, {"--trace", "t", "--step-svg", "t"}),
                "--trace and --step-svg must be two files");
  check_refused(train_command(1, {"--metrics", "t", "--trace", "./t"}),
                "--metrics and --trace must be two files");
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "kept");
  std::filesystem::create_directory_symlink(directory / "kept", directory / "link");
  check_refused(
      train_command(1, {"--metrics", directory / "kept/t", "--save", directory / "link/t"}),
      "--metrics and --save must be two files");
  check_refused(train_command(1, {"--init", directory / "w", "--metrics", directory / "kept/../w"}),
                "--metrics would overwrite the file of --init");
  check_refused(train_command(1, {"--checkpoint-dir", directory / "link", "--save",
                                  directory / "kept/latest"}),
                "kept/latest is a file that --checkpoint-dir keeps there itself");
  for (const char* name : {"new", "new/", "new/.", "new/sub/.."}) {
    check_refused(train_command(1, {"--checkpoint-dir", directory / name, "--save",
                                    directory / "new/latest"}),
                  "new/latest is a file that --checkpoint-dir keeps there itself");
  }
  std::filesystem::create_symlink(directory / "kept", directory / "kept/file");
  check_refused(train_command(1, {"--checkpoint-dir", directory / "kept", "--save",
                                  directory / "kept/latest"}),
                "kept/latest is a file that --checkpoint-dir keeps there itself");
  check_refused(train_command(1, {"--non-finite", "pray"}), "is not one of stop, skip, ignore");
  check_refused(train_command(1, {"--batch-size", "8", "--global-batch-size", "8"}),
                "--batch-size and --global-batch-size exclude each other");
  check_refused(train_command(1, {"--global-batch-size", "2147483648"}),
                "--global-batch-size must be between 1 and 2^31 - 1");
  check_refused(train_command(2, {"--batch-size", "2147483647"}),
                "--batch-size 2147483647 on 2 ranks makes batches of 4294967294, above 2^31 - 1");
  check_refused(train_command(1, {"--no-such-flag"}),
                "unknown flag '--no-such-flag' (--help lists the flags)\n");
  check_refused(train_command(1, {"--epoch=3"}),
                "unknown flag '--epoch=3'; did you mean --epochs?\n");
  check_refused(train_command(1, {"--data-dir", "/nonexistent"}),
                "--dataset fashion-mnist --data-dir /nonexistent: [fashion_mnist] cannot load");
  check_refused(train_command(2, {"--sampler", "torch", "--global-batch-size", "3"}),
                "--sampler torch cannot cut a global batch of 3 over 2 ranks");
  if (!test::kRanksShareGpu) {
    for (const auto& [flag, value, other] :
         {std::array{"--device", "cuda", "cpu"}, std::array{"--backend", "nccl", "auto"}}) {
      const std::string advice = std::string(flag) + " " + value + " needs a GPU; " + flag + " " +
                                 other + " works without: ";
      const ChildProcess::Options no_gpu{.environment = {{"CUDA_VISIBLE_DEVICES", ""}}};
      ChildProcess job({DDP_TRAIN_PATH, flag, value}, no_gpu);
      CHECK(job.wait(25s) == 1);
      CHECK_THAT(job.err(),
                 Catch::StartsWith("train: " + advice) && Catch::Contains("no GPU is visible"));
      ChildProcess launched({DDP_LAUNCH_PATH, DDP_TRAIN_PATH, flag, value}, no_gpu);
      CHECK(launched.wait(25s) == 1);
      CHECK_THAT(launched.err(), Catch::Contains(" s: " + advice));
    }
  }
  // Refused before the training, not after it.
  check_refused(train_command(2, {"--epochs", "1000", "--save", "/nonexistent/model.safetensors"}),
                "--save /nonexistent/model.safetensors: [atomic_file]");
  check_refused(train_command(2, {"--epochs", "1000", "--save", "/dev/full"}),
                "--save /dev/full: [atomic_file] /dev/full: cannot replace: not a regular file");
  check_refused(train_command(2, {"--epochs", "1000", "--log-dir", "/dev/null/runs"}),
                "/dev/null/runs: cannot make the directory");
  check_refused(train_command(1, {"--init-partial"}), "--init-partial needs --init");
  check_refused(train_command(1, {"--init", "w", "--resume", "c"}),
                "--init is for a new training, and --resume c goes on with another");
  check_refused(train_command(1, {"--save", "--epochs", "3"}), "--save needs a value");
  check_refused(train_command(1, {"--checkpoint-dir="}), "--checkpoint-dir needs a value");
  check_refused(train_command(1, {"--momentum", "-1"}),
                "--momentum must be finite and not negative");
  check_refused(train_command(1, {"--momentum", "0", "--nesterov=true"}),
                "--nesterov needs --optimizer sgd with a momentum");
  check_refused(train_command(1, {"--optimizer", "adam", "--momentum", "0.9"}),
                "--momentum is for --optimizer sgd");
  check_refused(train_command(1, {"--sync-bn"}), "--sync-bn: --model mlp has no batch norms");
  check_refused(train_command(1, {"--drop-last", "--batch-size", "100000"}),
                "--drop-last leaves no batch of 100000 of a training set of");
  check_refused(train_command(1, {"--resume", "/"}), "--resume /: is a directory");
  check_refused(train_command(1, {"--log-every", "-1"}), "--log-every must not be negative");
  check_refused(train_command(1, {"--warmup-steps", "-1"}), "--warmup-steps must not be negative");
  check_refused(train_command(1, {"--warmup", "1", "--warmup-steps", "5"}),
                "--warmup and --warmup-steps exclude each other");
  check_refused(train_command(1, {"--lr-schedule", "linear"}),
                "--lr-schedule=linear is not one of constant, step, cosine, plateau");
  check_refused(train_command(1, {"--plateau-patience", "3"}),
                "--plateau-patience is for --lr-schedule plateau");
  check_refused(train_command(1, {"--clip-grad-norm", "nan"}), "--clip-grad-norm must be positive");
  check_refused(train_command(1, {"--lr", "fast"}), "--lr=fast is not a number");
  check_refused(train_command(1, {"--momentum", "nan"}), "--momentum must be finite");
  check_refused(train_command(2, {"--batch-size", "9000000000000000000"}), "--batch-size must be");
}
