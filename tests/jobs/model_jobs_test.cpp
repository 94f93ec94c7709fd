// SPDX-License-Identifier: MIT
//
// Each model as a job of two ranks, with our launcher, real processes and small sets: it trains,
// evaluates, saves, and resumes exactly.
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/io/checkpoint_file.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/relative_difference.h"
#include "support/small_sets.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddp::load_safetensors;
using ddp::test::bytes_of;
using ddp::test::ChildProcess;
using ddp::test::largest_relative_difference;
using ddp::test::TemporaryDirectory;

namespace {

using Arguments = std::vector<std::string>;

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void run(const Arguments& command) {
  ChildProcess program(command);
  const int code = program.wait(60s);
  INFO(program.err());
  REQUIRE(code == 0);
}

// One small set of each kind, created on first use.
class Sets {
 public:
  [[nodiscard]] Arguments fashion_mnist() const {
    const auto place = directory_ / "fashion-mnist";
    if (std::filesystem::create_directory(place)) ddp::test::write_fashion_mnist(place);
    return {"--data-dir", place};
  }
  [[nodiscard]] Arguments cifar10() const {
    const auto place = directory_ / "cifar10";
    if (std::filesystem::create_directory(place)) ddp::test::write_cifar10(place);
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
      ddp::test::write_bytes(place / "train.txt", pangrams.substr(0, 400));
      ddp::test::write_bytes(place / "test.txt", pangrams.substr(0, 100));
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
    ::run(Arguments{DDP_LAUNCH_PATH, "--nproc_per_node=" + std::to_string(ranks), DDP_TRAIN_PATH,
                    "--device", "cpu", "--log-every", "0", "--save", file("model"), "--metrics",
                    file("metrics")} +
          flags_ + flags);
  }
  void run_with_checkpoints(int ranks, const Arguments& flags) const {
    run(ranks, flags + Arguments{"--checkpoint-dir", file("c")});
  }
  void run_with_checkpoints(const Arguments& flags) const { run_with_checkpoints(2, flags); }

  // The last line of the metrics, which has the evaluation and the parameters' fingerprint.
  [[nodiscard]] std::string final_line() const {
    const std::vector<std::string> lines = ddp::test::lines_of(bytes_of(file("metrics")));
    REQUIRE_FALSE(lines.empty());
    REQUIRE_THAT(lines.back(), StartsWith("{\"event\":\"final\",") && Contains("params_sha256"));
    return lines.back();
  }
  // The checkpoint from which a run would resume.
  [[nodiscard]] std::filesystem::path newest() const {
    return file("c") / ddp::test::lines_of(bytes_of(file("c/latest"))).front();
  }

 private:
  TemporaryDirectory directory_;
  Arguments flags_;
};

// True if the final parameters and batch-norm statistics are equal.
bool have_equal_models(const Job& a, const Job& b) {
  return bytes_of(a.file("model")) == bytes_of(b.file("model"));
}

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

// The text of a number in a line of metrics.
std::string value_of(const std::string& line, const std::string& key) {
  const std::string before = "\"" + key + "\":";
  const std::size_t begin = line.find(before) + before.size();
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

std::string score_of(const std::string& line) {
  const bool is_segmented = line.find("test_iou") != std::string::npos;
  return value_of(line, is_segmented ? "test_iou" : "test_accuracy");
}

double scale_in(const std::filesystem::path& checkpoint) {
  const ddp::Safetensors loaded = ddp::load_checkpoint(checkpoint);
  for (const ddp::NamedBuffer& tensor : loaded.tensors) {
    if (tensor.name == "scaler.scale") return tensor.buffer.as<double>()[0];
  }
  return 0;
}

// Rounds the floating-point tensors of a model's file to `dtype`, and writes them to `to`.
void save_as(ddp::DType dtype, const std::filesystem::path& from, const std::filesystem::path& to) {
  ddp::Safetensors model = load_safetensors(from);
  std::vector<ddp::Allocation> memory;
  for (ddp::NamedBuffer& tensor : model.tensors) {
    const ddp::Buffer source = tensor.buffer;
    if (!is_floating_point(source.dtype)) continue;
    memory.push_back(ddp::allocate_host(source.count * size_of(dtype)));
    tensor.buffer = {memory.back().data(), source.count, dtype, ddp::kCpuDevice};
    ddp::cpu::cast(source, tensor.buffer);
  }
  save_safetensors(to, model.tensors);
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

TEST_CASE("a job can begin with the weights of another job, and refuses those of another model",
          "[models]") {
  const Sets sets;
  const Job first(sets.fashion_mnist() + Arguments{"--model", "lenet5"});
  first.run(1, {"--max-steps", "2"});
  const Job second(sets.fashion_mnist() +
                   Arguments{"--model", "lenet5", "--seed", "1", "--init", first.file("model")});
  second.run(2, {"--lr", "0", "--max-steps", "1"});
  CHECK(have_equal_models(first, second));
  first.run_with_checkpoints({"--max-steps", "2", "--amp", "fp16", "--lr-schedule", "plateau"});
  const Job third(sets.fashion_mnist() + Arguments{"--model", "lenet5", "--init", first.newest()});
  third.run(1, {"--optimizer", "adam", "--lr", "0", "--max-steps", "1"});
  CHECK(have_equal_models(first, third));
  ChildProcess other({DDP_TRAIN_PATH, "--device", "cpu", "--init", first.file("model")});
  CHECK(other.wait() == 1);
  CHECK_THAT(other.err(), Contains(first.file("model").string()) && Contains("fc1.weight"));
}

TEST_CASE("a job can begin with 16-bit weights, but not with those that it would round",
          "[models]") {
  const Sets sets;
  const Arguments flags = sets.fashion_mnist() + Arguments{"--model", "lenet5"};
  const Job source(flags);
  source.run(1, {"--max-steps", "2"});
  const auto file = source.file("weights");
  const Arguments still = {"--seed", "1", "--init", file, "--lr", "0", "--max-steps", "1"};
  for (const ddp::DType dtype :
       {ddp::DType::kFloat16, ddp::DType::kBFloat16, ddp::DType::kFloat32}) {
    save_as(dtype, source.file("model"), file);
    for (const char* own : {"float32", "float64"}) {
      CAPTURE(to_string(dtype), own);
      const Job job(flags + still + Arguments{"--dtype", own});
      job.run(2, {});
      save_as(dtype, job.file("model"), job.file("back"));
      CHECK(bytes_of(job.file("back")) == bytes_of(file));
    }
  }
  save_as(ddp::DType::kFloat64, source.file("model"), file);
  ChildProcess narrower(Arguments{DDP_TRAIN_PATH, "--device", "cpu"} + flags + still);
  CHECK(narrower.wait() == 1);
  CHECK_THAT(narrower.err(),
             Contains(file.string() + ": tensor \"conv1.weight\" is float64[6, 1, 5, 5] in the "
                                      "file and float32[6, 1, 5, 5] in this program, which would "
                                      "round it"));
}

TEST_CASE("a job can begin with those tensors of a file that fit, and names the others",
          "[models]") {
  const Sets sets;
  const Arguments flags = sets.fashion_mnist() + Arguments{"--model", "lenet5", "--max-steps", "1"};
  const Arguments still = {"--seed", "1", "--lr", "0"};
  const Job source(flags), drawn(flags + still);
  source.run(1, {});
  drawn.run(1, {});
  ddp::Safetensors weights = load_safetensors(source.file("model"));
  std::vector<float> head(100 * 84, 1);  // for 100 classes
  const auto resize = [&](ddp::NamedBuffer& tensor, std::vector<std::int64_t> shape, auto count) {
    tensor.shape = std::move(shape);
    tensor.buffer = ddp::buffer_of(std::span(head).first(count));
  };
  for (ddp::NamedBuffer& tensor : weights.tensors) {
    if (tensor.name == "conv2.bias") tensor.name = "extra";
    if (tensor.name == "fc3.weight") resize(tensor, {100, 84}, 100 * 84);
    if (tensor.name == "fc3.bias") resize(tensor, {100}, 100);
  }
  const auto file = source.file("weights");
  save_safetensors(file, weights.tensors);
  const Arguments init = {"--init", file};
  const Arguments part = {"--init-partial"};

  const auto saved = source.file("began");
  ChildProcess job(Arguments{DDP_LAUNCH_PATH, "--nproc_per_node=2", DDP_TRAIN_PATH, "--device",
                             "cpu", "--save", saved} +
                   flags + still + init + part);
  CHECK(job.wait(60s) == 0);
  INFO(job.err());
  const std::string line = "took 7 of the model's 10 tensors from " + file.string() +
                           "; of another shape there: fc3.weight, fc3.bias"
                           "; missing there: conv2.bias; not in the model: extra\n";
  CHECK_THAT(job.out(), Contains(line));
  CHECK(job.out().find(line) == job.out().rfind(line));
  const ddp::Safetensors began = load_safetensors(saved);
  const ddp::Safetensors taken = load_safetensors(source.file("model"));
  const ddp::Safetensors rest = load_safetensors(drawn.file("model"));
  for (std::size_t i = 0; i < began.tensors.size(); ++i) {
    const std::string& name = began.tensors[i].name;
    CAPTURE(name);
    const bool is_drawn = name == "conv2.bias" || name.starts_with("fc3.");
    const ddp::Safetensors& from = is_drawn ? rest : taken;
    REQUIRE(from.tensors[i].name == name);
    const auto values = [i](const ddp::Safetensors& model) {
      const auto span = model.tensors[i].buffer.as<float>();
      return std::vector<float>(span.begin(), span.end());
    };
    CHECK(values(began) == values(from));
  }

  const Arguments alone = Arguments{DDP_TRAIN_PATH, "--device", "cpu"} + flags + init;
  ChildProcess whole(alone);
  CHECK(whole.wait() == 1);
  CHECK_THAT(whole.err(), Contains(file.string() + ": tensor \"conv2.bias\" is missing"));
  std::erase_if(weights.tensors, [](const auto& each) { return !each.name.starts_with("fc3."); });
  save_safetensors(file, weights.tensors);
  ChildProcess nothing(alone + part);
  CHECK(nothing.wait() == 1);
  CHECK_THAT(nothing.err(), Contains(file.string() + ": it has 2 of this program's tensors, such "
                                                     "as \"fc3.weight\", but all of them in "
                                                     "another shape"));
}
