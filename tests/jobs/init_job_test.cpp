// SPDX-License-Identifier: MIT
//
// Jobs that begin with the weights of a file (--init).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/allocation.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/io/safetensors.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/model_jobs.h"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ddp::load_safetensors;
using ddp::test::bytes_of;
using ddp::test::ChildProcess;
using namespace ddp::test::model_jobs;

namespace {

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
