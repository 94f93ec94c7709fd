// SPDX-License-Identifier: MIT
#include "step/options.h"

#include <cxxopts.hpp>
#include <stdexcept>
#include <utility>

#include "support/device.h"
#include "support/program.h"

namespace ddp::bench {
namespace {

DType dtype_named(const std::string& name) {
  if (name == "float32") return DType::kFloat32;
  if (name == "float64") return DType::kFloat64;
  throw std::invalid_argument("--dtype " + name + ": only float32 and float64 can be trained");
}

std::optional<DType> amp_named(const std::string& name) {
  if (name == "none") return std::nullopt;
  if (name == "bf16") return DType::kBFloat16;
  throw std::invalid_argument("--amp " + name + ": there are none and bf16");
}

std::vector<Backend> backends_named(const std::vector<std::string>& names) {
  std::vector<Backend> backends;
  for (const std::string& name : names) backends.push_back(parse_backend(name));
  return backends;
}

}  // namespace

std::optional<StepBenchOptions> parse_step_bench_options(int argc, char** argv) {
  cxxopts::Options parser(
      "bench_step",
      "Milliseconds of a training step. Alone or, under ddp-launch, with several "
      "ranks.");
  auto add = parser.add_options();
  add("device", "cpu, or cuda, which prints a line of JSON a figure",
      cxxopts::value<std::string>()->default_value("cpu"));
  add("models", "models of the factory",
      cxxopts::value<std::vector<std::string>>()->default_value("mlp,lenet5"));
  add("backends", "several are compared, each with the first",
      cxxopts::value<std::vector<std::string>>()->default_value("auto"));
  add("min-buckets", "BucketOptions::min_buckets",
      cxxopts::value<std::vector<std::size_t>>()->default_value("4"));
  add("rounds", "interleaved repeats", cxxopts::value<int>()->default_value("300"));
  add("steps", "steps timed together", cxxopts::value<int>()->default_value("1"));
  add("batch-size", "samples a step", cxxopts::value<std::size_t>()->default_value("64"));
  add("image-size", "height and width of images; 0: the model's own",
      cxxopts::value<std::size_t>()->default_value("0"));
  add("amp", "mixed precision: none or bf16", cxxopts::value<std::string>()->default_value("none"));
  add("dtype", "float32 or float64", cxxopts::value<std::string>()->default_value("float32"));
  const auto given = parse_command_line(std::move(parser), argc, argv);
  if (!given) return std::nullopt;
  const cxxopts::ParseResult& parsed = *given;
  return StepBenchOptions{
      .on_gpus = device_named(parsed["device"].as<std::string>()).is_cuda(),
      .models = parsed["models"].as<std::vector<std::string>>(),
      .backends = backends_named(parsed["backends"].as<std::vector<std::string>>()),
      .min_buckets = parsed["min-buckets"].as<std::vector<std::size_t>>(),
      .rounds = parsed["rounds"].as<int>(),
      .steps = parsed["steps"].as<int>(),
      .batch = parsed["batch-size"].as<std::size_t>(),
      .image_size = parsed["image-size"].as<std::size_t>(),
      .dtype = dtype_named(parsed["dtype"].as<std::string>()),
      .amp = amp_named(parsed["amp"].as<std::string>())};
}

}  // namespace ddp::bench
