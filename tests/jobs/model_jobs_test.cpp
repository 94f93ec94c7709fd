// SPDX-License-Identifier: MIT
//
// Each model as a job of two ranks, with our launcher, real processes and small sets: it trains,
// evaluates, saves, and resumes exactly. init_job_test.cpp begins with weights of a file,
// language_model_job_test.cpp has more about texts.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_file.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/model_jobs.h"
#include "support/relative_difference.h"
#include "support/small_sets.h"

using Catch::Matchers::Contains;
using ddp::load_safetensors;
using ddp::test::ChildProcess;
using ddp::test::largest_relative_difference;
using ddp::test::TemporaryDirectory;
using namespace ddp::test::model_jobs;

namespace {

struct Break {
  const char* epochs = "2";
  const char* step = "5";  // inside the last epoch
};

// Checks that a job that is interrupted and resumed ends like an uninterrupted one.
void check_goes_on_exactly(const Arguments& flags, const Break& where = {}) {
  INFO(Catch::StringMaker<Arguments>::convert(flags));
  const Arguments epochs = {"--epochs", where.epochs};
  const Job unbroken(flags + epochs);
  unbroken.run(2, {});
  const Job broken(flags + epochs);
  broken.run_with_checkpoints({"--max-steps", where.step});
  CHECK_THAT(broken.newest().string(), Contains("_step_"));
  CHECK_FALSE(have_equal_models(broken, unbroken));
  broken.run_with_checkpoints({});
  CHECK_THAT(broken.newest().string(), !Contains("_step_"));
  CHECK(broken.final_line() == unbroken.final_line());
  CHECK(have_equal_models(broken, unbroken));
}

double scale_in(const std::filesystem::path& checkpoint) {
  const ddp::Safetensors loaded = ddp::load_checkpoint(checkpoint);
  for (const ddp::NamedBuffer& tensor : loaded.tensors) {
    if (tensor.name == "scaler.scale") return tensor.buffer.as<double>()[0];
  }
  return 0;
}

}  // namespace

TEST_CASE("every model trains on two ranks and resumes exactly", "[models]") {
  const Sets sets;
  const Arguments batch = {"--global-batch-size", "8"};  // three steps an epoch
  for (const char* model : {"mlp", "lenet5", "convnet"}) {
    check_goes_on_exactly(sets.fashion_mnist() + batch + Arguments{"--model", model});
  }
  check_goes_on_exactly(sets.cifar10() + batch + Arguments{"--model", "convnet"});
  // The files of this set are large.
  check_goes_on_exactly(sets.cifar10() + batch + Arguments{"--model", "resnet18"},
                        {.epochs = "1", .step = "2"});
  check_goes_on_exactly(
      sets.cracks() + Arguments{"--model", "unet", "--global-batch-size", "2", "--augment"},
      {.epochs = "1", .step = "1"});
  check_goes_on_exactly(sets.text() + batch + Arguments{"--augment", "--optimizer", "adamw"});
}

TEST_CASE("every way to train resumes exactly", "[models]") {
  const Sets sets;
  const Arguments convnet =
      sets.cifar10() + Arguments{"--model", "convnet", "--global-batch-size", "8"};
  const std::vector<Arguments> ways = {
      {"--augment"},
      {"--sync-bn"},
      {"--optimizer", "adamw", "--weight-decay", "0.01"},
      {"--optimizer", "adam", "--clip-grad-norm", "0.5", "--label-smoothing", "0.1"},
      {"--nesterov", "--lr-schedule", "cosine", "--warmup", "1"},
      {"--amp", "bf16"},
      {"--dtype", "float64", "--sampler", "torch"},
      {"--augment", "--sync-bn", "--optimizer", "adamw", "--amp", "bf16", "--num-workers", "3"}};
  for (const Arguments& way : ways) check_goes_on_exactly(convnet + way);
  // Two steps per epoch; the second one has a single pass.
  check_goes_on_exactly(sets.cifar10() + Arguments{"--model", "convnet", "--global-batch-size",
                                                   "16", "--accumulate", "2", "--augment"},
                        {.step = "3"});
}

TEST_CASE("a job that goes on with 3 and with 4 ranks ends as if one rank had done it all",
          "[models]") {
  const Sets sets;
  const Arguments way = {"--augment", "--sync-bn", "--accumulate", "2", "--clip-grad-norm", "0.5"};
  // Three steps an epoch; each job but the last ends inside an epoch.
  const Arguments size = {"--global-batch-size", "10", "--epochs", "3", "--dtype", "float64"};
  const Arguments flags = sets.cifar10() + Arguments{"--model", "convnet"} + way + size;
  const Job unbroken(flags);
  unbroken.run(1, {});
  const Job broken(flags);
  broken.run_with_checkpoints(2, {"--max-steps", "2"});
  broken.run_with_checkpoints(3, {"--max-steps", "5"});
  broken.run_with_checkpoints(4, {});
  CHECK(largest_relative_difference(load_safetensors(broken.file("model")),
                                    load_safetensors(unbroken.file("model"))) < 1e-12);
}

TEST_CASE("models and data that do not fit are refused by name", "[models]") {
  const Sets sets;
  const auto refusal = [](const Arguments& flags) {
    ChildProcess job(Arguments{DDP_TRAIN_PATH, "--device", "cpu"} + flags);
    CHECK(job.wait() == 2);
    return job.err();
  };
  CHECK_THAT(refusal({"--model", "gpt-nano", "--dataset", "fashion-mnist"}),
             Contains("--model gpt-nano cannot be trained on --dataset fashion-mnist"));
  CHECK_THAT(refusal({"--model", "mlp", "--dataset", "text", "--data-dir", "/"}),
             Contains("--model mlp cannot be trained on --dataset text"));
  CHECK_THAT(refusal({"--model", "gpt-nano"}), Contains("--dataset text needs --data-dir"));
  CHECK_THAT(refusal({"--context", "5"}), Contains("--context is for --dataset text"));
  ChildProcess long_context(Arguments{DDP_TRAIN_PATH, "--device", "cpu"} + sets.text() +
                            Arguments{"--context", "400"});
  CHECK(long_context.wait() == 2);
  CHECK_THAT(long_context.err(),
             Contains("train.txt: [text_dataset] a text of 400 bytes is too short"));
}

TEST_CASE("training and test samples of different sizes are refused with both sizes", "[models]") {
  const TemporaryDirectory directory;
  const std::string place = directory.path();
  ddp::test::write_fashion_mnist(place);
  ddp::test::write_bytes(
      directory / "t10k-images-idx3-ubyte",
      ddp::test::idx({10, 32, 32}, ddp::test::noise("large", std::size_t{10 * 32 * 32})));
  ChildProcess job({DDP_TRAIN_PATH, "--device", "cpu", "--data-dir", place});
  CHECK(job.wait() == 2);
  CHECK(job.err() == "train: --dataset fashion-mnist --data-dir " + place +
                         ": [train] a training sample is [1, 28, 28], but a test sample "
                         "[1, 32, 32]\n");
}

TEST_CASE("a job in float16 resumes with its loss scale", "[models][amp]") {
  const Sets sets;
  // With batches of one sample per rank, the initial scale of 65536 overflows at once.
  const Arguments flags =
      sets.fashion_mnist() +
      Arguments{"--model", "convnet", "--global-batch-size", "2", "--amp", "fp16", "--lr", "0.5"};
  check_goes_on_exactly(flags, {.step = "15"});
  const Job job(flags);
  job.run_with_checkpoints({"--max-steps", "3"});
  CHECK(scale_in(job.newest()) > 0);
  CHECK(scale_in(job.newest()) < 65536);
}

TEST_CASE("1, 2, 3 and 4 ranks evaluate a model to exactly the same result",
          "[models][evaluation]") {
  const Sets sets;
  const Arguments step = {"--global-batch-size", "4", "--max-steps", "1"};
  // Seeds and learning rates for which the scores are well above 0.
  const Arguments cases[] = {
      sets.fashion_mnist() + Arguments{"--model", "lenet5", "--lr", "0.001"},
      sets.cifar10() + Arguments{"--model", "convnet", "--amp", "bf16", "--lr", "0.001"},
      sets.cracks() + Arguments{"--model", "unet", "--seed", "1", "--lr", "0.3"},
      sets.text() + Arguments{"--optimizer", "adamw"}};
  for (const Arguments& flags : cases) {
    INFO(Catch::StringMaker<Arguments>::convert(flags));
    const Job job(flags + step);
    job.run_with_checkpoints({});
    const std::string trained = job.final_line();
    CHECK(std::stod(score_of(trained)) > 0);
    for (const int ranks : {1, 2, 3, 4}) {
      INFO(ranks << " ranks");
      job.run(ranks, {"--resume", job.newest()});
      const std::string evaluated = job.final_line();
      CHECK(score_of(evaluated) == score_of(trained));
      CHECK(value_of(evaluated, "params_sha256") == value_of(trained, "params_sha256"));
      // Each sample has the same loss, to the last bit; their sum, in float64, has not.
      CHECK(std::stod(value_of(evaluated, "test_loss")) ==
            Approx(std::stod(value_of(trained, "test_loss"))).epsilon(1e-14));
    }
  }
}

TEST_CASE("a rank without samples does not hold up a model with synchronised batch norms",
          "[models]") {
  const Sets sets;
  // One of the 24 samples is left for the last step.
  const Job job(sets.cifar10() + Arguments{"--model", "convnet", "--sync-bn"});
  job.run(3, {"--global-batch-size", "23"});
  CHECK_THAT(job.final_line(), Contains("test_accuracy"));
}
