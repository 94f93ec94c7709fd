// SPDX-License-Identifier: MIT
//
// Continues a text with a trained language model:
//   build/bin/train --model gpt-micro --data-dir DIR --optimizer adamw --save gpt.safetensors
//   build/bin/generate --model gpt-micro --weights gpt.safetensors --prompt "In the beginning"
#include <ddp/base/error.h>
#include <ddp/base/random.h>
#include <ddp/io/checkpoint_file.h>
#include <ddp/io/safetensors.h>
#include <ddp/nn/models/factory.h>
#include <ddp/nn/named_buffers.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cxxopts.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tool.h"
#include "tool_flags.h"
#include "train/model_tensors.h"

using namespace ddp;

namespace {

constexpr std::size_t kBytes = 256;

// The position embedding has a row for each byte that the model was trained to look back at.
std::size_t context_of(const Safetensors& weights) {
  const auto positions = std::ranges::find(weights.tensors, "wpe.weight", &NamedBuffer::name);
  if (positions == weights.tensors.end()) {
    throw std::invalid_argument("the weights have no \"wpe.weight\": are they those of a GPT?");
  }
  if (positions->shape.size() != 2 || positions->shape[0] == 0) {
    throw std::invalid_argument(
        "\"wpe.weight\" is no matrix with rows: are these the weights of a GPT?");
  }
  return static_cast<std::size_t>(positions->shape[0]);
}

class Generator {
 public:
  Generator(const std::string& model, const std::string& file)
      : Generator(model, file, train::load_model_tensors(file)) {}
  Generator(const std::string& model, const std::string& file, const Safetensors& weights)
      : window_(context_of(weights)) {
    module_ = nn::make_language_model(model, {context_, DType::kFloat32, /*seed=*/0},
                                      {.vocabulary = kBytes, .context = window_});
    restore_tensors(file, weights, nn::named_buffers(module_->state_dict()),
                    {.cast = FloatCast::kAny, .stream = context_.stream()});
    module_->eval();
  }

  // The logits of the byte after the text.
  [[nodiscard]] std::vector<float> next(std::span<const std::int64_t> text) {
    const auto seen = text.last(std::min(text.size(), window_));
    const nn::Variable logits = module_->forward(tape_, context_.from_host(seen, {1, seen.size()}));
    const std::vector<float> all = context_.to_host<float>(logits.value());
    const std::vector<float> last(all.end() - kBytes, all.end());
    if (std::ranges::all_of(last, [](float logit) { return std::isfinite(logit); })) return last;
    throw std::runtime_error("the model's logits are not finite");
  }

 private:
  nn::Context context_;
  nn::Tape tape_{context_, nn::Recording::kOff};
  std::size_t window_;
  std::unique_ptr<nn::Module> module_;
};

// Draws from softmax(logits / temperature); `draw` is in [0, 1). Temperature 0 takes the largest.
std::int64_t choose(const std::vector<float>& logits, double temperature, double draw) {
  const auto largest = std::ranges::max_element(logits);
  if (temperature == 0) return largest - logits.begin();
  std::vector<double> sums;  // of the weights up to each byte
  for (const float logit : logits) {
    const double weight = std::exp((logit - *largest) / temperature);
    sums.push_back(weight + (sums.empty() ? 0 : sums.back()));
  }
  return std::ranges::upper_bound(sums, draw * sums.back()) - sums.begin();
}

void generate(const cxxopts::ParseResult& flags) {
  const auto prompt = flags.count("prompt") > 0 ? flags["prompt"].as<std::string>() : "\n";
  const auto length = number_flag<std::uint64_t>(flags, "length");
  const auto seed = number_flag<std::uint64_t>(flags, "seed");
  const auto temperature = number_flag<double>(flags, "temperature");
  const auto model = flags["model"].as<std::string>();
  nn::check_model_name(model);
  if (!nn::is_language_model(model)) {
    throw std::invalid_argument("--model " + model +
                                " is not a language model: name one of the gpt models");
  }
  if (prompt.empty()) throw std::invalid_argument("--prompt must not be empty");
  if (!(temperature >= 0)) throw std::invalid_argument("--temperature must not be negative");
  Generator generator(model, flags["weights"].as<std::string>());
  std::vector<std::int64_t> text;
  for (const char byte : prompt) text.push_back(static_cast<unsigned char>(byte));
  std::fputs(prompt.c_str(), stdout);
  for (std::uint64_t i = 0; i < length; ++i) {
    const double draw = random_unit(seed, stream_of("generate"), i);
    text.push_back(choose(generator.next(text), temperature, draw));
    std::fputc(static_cast<int>(text.back()), stdout);
    check_output();
  }
  std::fputc('\n', stdout);
}

int run(int argc, char** argv) {
  cxxopts::Options flags("generate", "Continues a text with a trained language model");
  auto add = flags.add_options();
  add("model", "as it was for train", cxxopts::value<std::string>(), "NAME");
  add("weights", "what train --save wrote, or a checkpoint of train", cxxopts::value<std::string>(),
      "FILE.safetensors");
  add("prompt", "the beginning (default: a line break)", cxxopts::value<std::string>(), "TEXT");
  add("length", "bytes to add", cxxopts::value<std::string>()->default_value("500"), "N");
  add("temperature", "0: always the likeliest byte; 1: as likely as the model says",
      cxxopts::value<std::string>()->default_value("0.8"), "F");
  add("seed", "of the choices", cxxopts::value<std::string>()->default_value("0"), "N");
  add("h,help", "show this text");
  if (const auto parsed = parse_flags(flags, argc, argv, {"model", "weights"})) generate(*parsed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_tool("generate", [&] { return run(argc, argv); });
}
