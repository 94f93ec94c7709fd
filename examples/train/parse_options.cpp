// SPDX-License-Identifier: MIT
#include "parse_options.h"

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/models/factory.h"
#include "flags.h"
#include "option_checks.h"
#include "tool_flags.h"

namespace train {
namespace {

std::string text(const cxxopts::ParseResult& parsed, const char* flag) {
  return parsed[flag].as<std::string>();
}

// Empty if the flag was not given.
std::string text_or_empty(const cxxopts::ParseResult& parsed, const char* flag) {
  return parsed.count(flag) > 0 ? text(parsed, flag) : "";
}

// Returns what the flag's value stands for among the choices.
template <class T>
T choose(const cxxopts::ParseResult& parsed, const char* flag,
         std::initializer_list<std::pair<const char*, T>> choices) {
  const std::string value = text(parsed, flag);
  std::string known;
  for (const auto& [name, result] : choices) {
    if (value == name) return result;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw std::invalid_argument("--" + std::string(flag) + "=" + value + " is not one of " + known);
}

template <class T>
std::optional<T> number_if_given(const cxxopts::ParseResult& parsed, const char* flag) {
  if (parsed.count(flag) == 0) return std::nullopt;
  return number_flag<T>(parsed, flag);
}

// Rejects "--save --epochs 3", which would train for one epoch and save to a file "--epochs", and
// "--checkpoint-dir=", which comes from an unset variable in a script.
void check_values(const cxxopts::ParseResult& parsed) {
  for (const cxxopts::KeyValue& flag : parsed.arguments()) {
    require(!flag.value().empty() && !flag.value().starts_with("--"),
            "--" + flag.key() + " needs a value");
  }
  const bool has_directory = parsed.count("checkpoint-dir") > 0;
  for (const char* flag : {"checkpoint-every", "keep"}) {
    require(has_directory || parsed.count(flag) == 0,
            "--" + std::string(flag) + " needs --checkpoint-dir");
  }
  const bool is_explicit_auto = parsed.count("resume") > 0 && text(parsed, "resume") == "auto";
  require(has_directory || !is_explicit_auto, "--resume auto needs --checkpoint-dir");
}

// The learning rate keeps its default unless given, since Adam's steps have another size.
OptimizerOptions read_optimizer(const cxxopts::ParseResult& parsed) {
  const auto kind = choose<OptimizerKind>(parsed, "optimizer",
                                          {{"sgd", OptimizerKind::kSgd},
                                           {"adam", OptimizerKind::kAdam},
                                           {"adamw", OptimizerKind::kAdamW}});
  require(kind == OptimizerKind::kSgd || parsed.count("momentum") == 0,
          "--momentum is for --optimizer sgd");
  const double usual_rate = kind == OptimizerKind::kSgd ? 0.05 : 1e-3;
  return {.kind = kind,
          .learning_rate = number_if_given<double>(parsed, "lr").value_or(usual_rate),
          .momentum = number_flag<double>(parsed, "momentum"),
          .nesterov = parsed["nesterov"].as<bool>(),
          .weight_decay = number_flag<double>(parsed, "weight-decay")};
}

DatasetKind usual_dataset(const std::string& model) {
  if (ddp::nn::is_language_model(model)) return DatasetKind::kText;
  return model == "unet" ? DatasetKind::kImageMasks : DatasetKind::kFashionMnist;
}

DatasetChoice read_dataset(const cxxopts::ParseResult& parsed) {
  DatasetChoice choice{.kind = usual_dataset(text(parsed, "model")),
                       .is_augmented = parsed["augment"].as<bool>(),
                       .seed = number_flag<std::uint64_t>(parsed, "seed")};
  if (parsed.count("dataset") > 0) {
    choice.kind = choose<DatasetKind>(parsed, "dataset",
                                      {{"fashion-mnist", DatasetKind::kFashionMnist},
                                       {"cifar10", DatasetKind::kCifar10},
                                       {"image-masks", DatasetKind::kImageMasks},
                                       {"text", DatasetKind::kText}});
  }
  if (const auto context = number_if_given<std::int64_t>(parsed, "context")) {
    require(choice.kind == DatasetKind::kText, "--context is for --dataset text");
    choice.context = *context;
  }
  choice.directory = text_or_empty(parsed, "data-dir");
  return choice;
}

void read_schedule(const cxxopts::ParseResult& parsed, Options& options) {
  options.warmup_epochs = number_flag<int>(parsed, "warmup");
  options.warmup_steps = number_flag<std::int64_t>(parsed, "warmup-steps");
  const auto patience = number_if_given<int>(parsed, "plateau-patience");
  if (text(parsed, "lr-schedule") == kPlateau) {
    options.plateau_patience = patience.value_or(10);
    return;
  }
  require(!patience, "--plateau-patience is for --lr-schedule plateau");
  // kPlateau is among the choices only because the error lists them.
  options.lr_schedule =
      choose<ddp::nn::LrScheduleKind>(parsed, "lr-schedule",
                                      {{"constant", ddp::nn::LrScheduleKind::kConstant},
                                       {"step", ddp::nn::LrScheduleKind::kStep},
                                       {"cosine", ddp::nn::LrScheduleKind::kCosine},
                                       {kPlateau, ddp::nn::LrScheduleKind::kConstant}});
}

void read_data(const cxxopts::ParseResult& parsed, Options& options) {
  options.model = text(parsed, "model");
  options.dataset = read_dataset(parsed);
  options.sampler = choose<SamplerKind>(
      parsed, "sampler", {{"exact", SamplerKind::kExact}, {"torch", SamplerKind::kTorch}});
  options.drop_last = parsed["drop-last"].as<bool>();
  options.num_workers = number_flag<int>(parsed, "num-workers");
  options.seed = number_flag<std::uint64_t>(parsed, "seed");
  options.init = text_or_empty(parsed, "init");
  options.is_init_partial = parsed["init-partial"].as<bool>();
}

void read_duration(const cxxopts::ParseResult& parsed, Options& options) {
  options.epochs = number_flag<int>(parsed, "epochs");
  options.max_steps = number_flag<std::int64_t>(parsed, "max-steps");
  options.batch_size = number_if_given<std::int64_t>(parsed, "batch-size");
  options.global_batch_size = number_if_given<std::int64_t>(parsed, "global-batch-size");
  options.accumulate = number_flag<int>(parsed, "accumulate");
}

void read_optimization(const cxxopts::ParseResult& parsed, Options& options) {
  options.optimizer = read_optimizer(parsed);
  read_schedule(parsed, options);
  options.max_grad_norm = number_flag<double>(parsed, "clip-grad-norm");
  options.label_smoothing = number_flag<double>(parsed, "label-smoothing");
  options.sync_batch_norm = parsed["sync-bn"].as<bool>();
  options.amp = ddp::nn::parse_amp(text(parsed, "amp"));
  options.dtype = choose<ddp::DType>(
      parsed, "dtype", {{"float32", ddp::DType::kFloat32}, {"float64", ddp::DType::kFloat64}});
  if (parsed["tf32"].as<bool>()) options.float32_precision = ddp::Float32Precision::kTf32;
  if (parsed.count("non-finite") == 0) return;
  options.non_finite = choose<ddp::NonFinite>(parsed, "non-finite",
                                              {{"stop", ddp::NonFinite::kStop},
                                               {"skip", ddp::NonFinite::kSkip},
                                               {"ignore", ddp::NonFinite::kIgnore}});
}

void read_device(const cxxopts::ParseResult& parsed, Options& options) {
  options.device = choose<ddp::DeviceChoice>(parsed, "device",
                                             {{"auto", ddp::DeviceChoice::kAuto},
                                              {"cpu", ddp::DeviceChoice::kCpu},
                                              {"cuda", ddp::DeviceChoice::kCuda}});
  options.backend = ddp::parse_backend(text(parsed, "backend"));
  options.bucket_cap_mb = number_flag<double>(parsed, "bucket-cap-mb");
  options.compress = choose<std::optional<ddp::DType>>(
      parsed, "compress",
      {{"none", std::nullopt}, {"bf16", ddp::DType::kBFloat16}, {"fp16", ddp::DType::kFloat16}});
}

void read_output(const cxxopts::ParseResult& parsed, Options& options) {
  options.log_every = number_flag<std::int64_t>(parsed, "log-every");
  options.metrics = text_or_empty(parsed, "metrics");
  options.log_dir = text_or_empty(parsed, "log-dir");
  options.traces = {.trace = text_or_empty(parsed, "trace"),
                    .step_svg = text_or_empty(parsed, "step-svg")};
  options.save = text_or_empty(parsed, "save");
}

CheckpointOptions read_checkpoints(const cxxopts::ParseResult& parsed) {
  return {.directory = text_or_empty(parsed, "checkpoint-dir"),
          .resume = text(parsed, "resume"),
          .every = number_flag<std::int64_t>(parsed, "checkpoint-every"),
          .keep = number_flag<int>(parsed, "keep")};
}

// In the order of make_flags().
Options read(const cxxopts::ParseResult& parsed) {
  Options options;
  read_data(parsed, options);
  read_duration(parsed, options);
  read_optimization(parsed, options);
  read_device(parsed, options);
  read_output(parsed, options);
  options.checkpoints = read_checkpoints(parsed);
  return options;
}

// cxxopts' message about a switch does not name it; about other flags it does.
std::string name_switch(const std::string& complaint, std::span<char*> arguments) {
  for (const std::string_view argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string_view::npos || equals + 1 == argument.size()) continue;
    if (complaint.find(argument.substr(equals + 1)) == std::string::npos) continue;
    return std::string(argument) + ": the value of a switch can only be true or false";
  }
  return complaint;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv) {
  cxxopts::Options parser = make_flags();
  try {
    const cxxopts::ParseResult parsed = parser.parse(argc, argv);
    if (parsed.count("help") > 0) {
      std::fputs(help_text(parser).c_str(), stdout);
      return std::nullopt;
    }
    check_values(parsed);
    require(parsed.unmatched().empty(),
            "unexpected argument '" +
                (parsed.unmatched().empty() ? "" : parsed.unmatched().front()) + "'");
    Options options = read(parsed);
    check(options);
    return options;
  } catch (const cxxopts::exceptions::incorrect_argument_type& error) {
    throw std::invalid_argument(name_switch(error.what(), {argv, static_cast<std::size_t>(argc)}));
  } catch (const cxxopts::exceptions::no_such_option& error) {
    const std::string complaint =
        complain_of_unknown(parser, {argv, static_cast<std::size_t>(argc)});
    throw std::invalid_argument(complaint.empty() ? error.what() : complaint);
  } catch (const cxxopts::exceptions::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace train
