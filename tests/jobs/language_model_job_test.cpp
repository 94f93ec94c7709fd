// SPDX-License-Identifier: MIT
//
// Jobs that train a language model, and what `generate` writes with it.
#include <catch2/catch.hpp>
#include <limits>
#include <span>
#include <string>

#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/io/safetensors.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/model_jobs.h"
#include "support/relative_difference.h"

using namespace std::chrono_literals;
using ddp::load_safetensors;
using ddp::test::ChildProcess;
using ddp::test::largest_relative_difference;
using ddp::test::TemporaryDirectory;
using namespace ddp::test::model_jobs;

TEST_CASE("a language model is the same on 1, 2 and 3 ranks", "[models]") {
  const Sets sets;
  const Arguments flags =
      sets.text() +
      Arguments{"--dtype", "float64", "--global-batch-size", "8", "--max-steps", "3", "--augment"};
  const Job alone(flags);
  alone.run(1, {});
  for (const int ranks : {2, 3}) {
    INFO(ranks << " ranks");
    const Job job(flags);
    job.run(ranks, {});
    CHECK(largest_relative_difference(load_safetensors(job.file("model")),
                                      load_safetensors(alone.file("model"))) < 1e-12);
  }
}

TEST_CASE("a language model that two ranks trained goes on with the text that it was trained on",
          "[models]") {
  const Sets sets;
  const Job job(sets.text());
  job.run(2, {"--optimizer", "adamw", "--lr", "0.003", "--global-batch-size", "8", "--epochs", "60",
              "--augment", "--checkpoint-dir", job.file("c"), "--keep", "1"});
  CHECK(std::stod(score_of(job.final_line())) > 0.8);
  const auto generate = [&](const Arguments& flags, const std::string& weights = "model") {
    return Arguments{DDP_GENERATE_PATH, "--model", "gpt-nano", "--weights", job.file(weights)} +
           flags;
  };
  ChildProcess likeliest(
      generate({"--prompt", "the quick brown ", "--temperature", "0", "--length", "28"}));
  CHECK(likeliest.wait() == 0);
  CHECK(likeliest.out() == "the quick brown fox jumps over the lazy dog.\n");

  ChildProcess first(generate({"--length", "40"})), again(generate({"--length", "40"}));
  CHECK(first.wait() == 0);
  CHECK(again.wait() == 0);
  CHECK(first.out() == again.out());
  CHECK(first.out().size() == 42);
  ChildProcess of_checkpoint(generate({"--length", "40"}, "c/model_epoch_60.safetensors"));
  CHECK(of_checkpoint.wait() == 0);
  CHECK(of_checkpoint.out() == first.out());
  ChildProcess other(generate({"--seed", "1", "--length", "40", "--temperature", "5"}));
  CHECK(other.wait() == 0);
  CHECK(other.out() != first.out());
  ChildProcess wrong(generate({"--temperature", "-1"}));
  CHECK(wrong.wait() == 2);
  CHECK(wrong.err() == "generate: --temperature must not be negative\n");
}

TEST_CASE("generate refuses what it cannot use, and says what that is", "[models]") {
  const TemporaryDirectory directory;
  const std::string file = directory / "weights.safetensors";
  const auto refusal = [&](const Arguments& flags) {
    ChildProcess program(
        Arguments{DDP_GENERATE_PATH, "--model", "gpt-nano", "--weights", file, "--length", "3"} +
        flags);
    CHECK(program.wait() == 2);
    CHECK(program.out() == "");
    return program.err();
  };
  float number = 1;
  const ddp::NamedBuffer scalar{"wpe.weight", {}, ddp::buffer_of(std::span(&number, 1))};
  ddp::save_safetensors(file, std::span(&scalar, 1));
  const std::string no_positions =
      "generate: \"wpe.weight\" is no matrix with rows: are these the weights of a GPT?\n";
  CHECK(refusal({}) == no_positions);
  const ddp::NamedBuffer empty{"wpe.weight", {0, 48}, ddp::buffer_of(std::span(&number, 0))};
  ddp::save_safetensors(file, std::span(&empty, 1));
  CHECK(refusal({}) == no_positions);
  CHECK(refusal({"--model", "lenet5"}) ==
        "generate: --model lenet5 is not a language model: name one of the gpt models\n");
  CHECK(refusal({"--prompt", "In", "the", "beginning"}) ==
        "generate: unexpected argument \"the\" (a value with blanks needs quotes)\n");
  CHECK(refusal({"--seed", "x"}) == "generate: --seed=x is not a whole number in range\n");
}

TEST_CASE("generate says that it cannot write, and that a model is broken", "[models]") {
  const Sets sets;
  const Job job(sets.text());
  job.run(1, {"--max-steps", "1"});
  const Arguments generate = {DDP_GENERATE_PATH, "--model",  "gpt-nano", "--weights",
                              job.file("model"), "--length", "3"};
  ChildProcess full(generate, {.stdout_path = "/dev/full"});
  CHECK(full.wait() == 1);
  CHECK(full.err() == "generate: cannot write to standard output\n");

  ddp::Safetensors weights = load_safetensors(job.file("model"));
  for (const ddp::NamedBuffer& tensor : weights.tensors) {
    ddp::fill(tensor.buffer, std::numeric_limits<double>::quiet_NaN());
  }
  ddp::save_safetensors(job.file("model"), weights.tensors);
  ChildProcess broken(generate);
  CHECK(broken.wait() == 1);
  CHECK(broken.err() == "generate: the model's logits are not finite\n");
}

TEST_CASE("a rank without a test sample says nothing", "[models]") {
  const TemporaryDirectory directory;
  ddp::test::write_bytes(directory / "train.txt", std::string(400, 'a'));
  ddp::test::write_bytes(directory / "test.txt", std::string(20, 'a'));  // one sample
  ChildProcess job(Arguments{DDP_LAUNCH_PATH, "-n", "2", DDP_TRAIN_PATH, "--device", "cpu",
                             "--model", "gpt-nano", "--data-dir", directory.path(), "--context",
                             "16"});
  CHECK(job.wait(60s) == 0);
  CHECK(job.err().empty());
}
