// SPDX-License-Identifier: MIT
#include "options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "ddp/nn/amp/autocast.h"
#include "ddp/nn/models/factory.h"
#include "flags.h"

namespace train {
namespace {

// Returns `value` if it is one of the choices.
template <class T>
T choose(const char* flag, const std::string& value,
         std::initializer_list<std::pair<const char*, T>> choices) {
  std::string known;
  for (const auto& [name, result] : choices) {
    if (value == name) return result;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw std::invalid_argument("--" + std::string(flag) + "=" + value + " is not one of " + known);
}

template <class T>
T number(const cxxopts::ParseResult& parsed, const char* flag) {
  const std::string text = parsed[flag].as<std::string>();
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  throw std::invalid_argument("--" + std::string(flag) + "=" + text + " is not " +
                              (std::is_integral_v<T> ? "a whole number in range" : "a number"));
}

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

void check(const OptimizerOptions& options) {
  require(options.learning_rate >= 0 && std::isfinite(options.learning_rate),
          "--lr must be finite and not negative");
  require(options.momentum >= 0 && std::isfinite(options.momentum),
          "--momentum must be finite and not negative");
  require(!options.nesterov || (options.kind == OptimizerKind::kSgd && options.momentum > 0),
          "--nesterov needs --optimizer sgd with a momentum");
  require(options.weight_decay >= 0 && std::isfinite(options.weight_decay),
          "--weight-decay must be finite and not negative");
}

void check(const DatasetChoice& dataset, const std::string& model) {
  const bool is_segmented = dataset.kind == DatasetKind::kImageMasks;
  require(is_segmented == (model == "unet"),
          "--model " + model + " cannot be trained on --dataset " +
              std::string(to_string(dataset.kind)) + ": unet needs image-masks");
  require(dataset.kind == DatasetKind::kFashionMnist || !dataset.directory.empty(),
          "--dataset " + std::string(to_string(dataset.kind)) + " needs --data-dir");
  require(dataset.kind != DatasetKind::kFashionMnist || !dataset.is_augmented,
          "--augment works only for --dataset cifar10 and image-masks");
}

void check(const Options& options) {
  ddp::nn::check_model_name(options.model);
  require(!options.batch_size || !options.global_batch_size,
          "--batch-size and --global-batch-size exclude each other");
  constexpr std::int64_t kMaxBatch = std::int64_t{1} << 31;
  const auto is_batch = [](std::int64_t size) { return size >= 1 && size <= kMaxBatch; };
  require(is_batch(options.batch_size.value_or(1)), "--batch-size must be between 1 and 2^31");
  require(is_batch(options.global_batch_size.value_or(1)),
          "--global-batch-size must be between 1 and 2^31");
  require(options.epochs >= 1, "--epochs must be at least 1");
  require(options.accumulate >= 1 && options.accumulate <= 1 << 16,
          "--accumulate must be between 1 and 2^16");
  require(options.global_batch_size.value_or(0) % options.accumulate == 0,
          fmt::format("--global-batch-size {} cannot be cut into --accumulate {} equal passes",
                      options.global_batch_size.value_or(0), options.accumulate));
  require(options.max_steps >= 0, "--max-steps must not be negative");
  require(options.log_every >= 0, "--log-every must not be negative");
  check(options.optimizer);
  require(options.max_grad_norm >= 0, "--clip-grad-norm must be positive, or 0");
  require(options.label_smoothing >= 0 && options.label_smoothing <= 1,
          "--label-smoothing must be between 0 and 1");
  require(!options.amp || options.dtype == ddp::DType::kFloat32,
          "--amp computes in 16 bits what would be float32: it cannot go with --dtype float64");
  const bool is_scaled = options.amp == ddp::DType::kFloat16;
  require(!is_scaled || options.non_finite_gradients() == ddp::NonFinite::kSkip,
          "--amp fp16 finds its loss scale by skipping steps: it needs --non-finite skip");
  check(options.dataset, options.model);
  require(options.label_smoothing == 0 || options.model != "unet",
          "--label-smoothing is for classes: --model unet has none");
  require(options.plateau_patience.value_or(0) >= 0, "--plateau-patience must not be negative");
  require(options.warmup_epochs >= 0 && options.warmup_epochs <= options.epochs,
          "--warmup must be between 0 and --epochs");
  require(options.warmup_steps >= 0, "--warmup-steps must not be negative");
  require(options.warmup_epochs == 0 || options.warmup_steps == 0,
          "--warmup and --warmup-steps exclude each other");
  require(options.num_workers >= 0 && options.num_workers <= 256,
          "--num-workers must be between 0 and 256");
  require(options.bucket_cap_mb > 0 && options.bucket_cap_mb <= 1 << 20,
          "--bucket-cap-mb must be positive and at most 2^20");
  require(options.checkpoints.every >= 0, "--checkpoint-every must not be negative");
  require(options.checkpoints.keep >= 0, "--keep must not be negative");
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
  const bool is_explicit_auto =
      parsed.count("resume") > 0 && parsed["resume"].as<std::string>() == "auto";
  require(has_directory || !is_explicit_auto, "--resume auto needs --checkpoint-dir");
}

std::string non_finite_name(const Options& options) {
  switch (options.non_finite_gradients()) {
    case ddp::NonFinite::kStop:
      return "stop";
    case ddp::NonFinite::kSkip:
      return "skip";
    case ddp::NonFinite::kIgnore:
      break;
  }
  return options.stops_at_bad_loss() ? "stop at the loss" : "ignore";
}

// The learning rate keeps its default unless given, since Adam's steps have another size.
OptimizerOptions read_optimizer(const cxxopts::ParseResult& parsed) {
  const auto kind = choose<OptimizerKind>("optimizer", parsed["optimizer"].as<std::string>(),
                                          {{"sgd", OptimizerKind::kSgd},
                                           {"adam", OptimizerKind::kAdam},
                                           {"adamw", OptimizerKind::kAdamW}});
  require(kind == OptimizerKind::kSgd || parsed.count("momentum") == 0,
          "--momentum is for --optimizer sgd");
  const double usual_rate = kind == OptimizerKind::kSgd ? 0.05 : 1e-3;
  return {.kind = kind,
          .learning_rate = parsed.count("lr") > 0 ? number<double>(parsed, "lr") : usual_rate,
          .momentum = number<double>(parsed, "momentum"),
          .nesterov = parsed["nesterov"].as<bool>(),
          .weight_decay = number<double>(parsed, "weight-decay")};
}

DatasetChoice read_dataset(const cxxopts::ParseResult& parsed) {
  const bool is_unet = parsed["model"].as<std::string>() == "unet";
  DatasetChoice choice{.kind = is_unet ? DatasetKind::kImageMasks : DatasetKind::kFashionMnist,
                       .is_augmented = parsed["augment"].as<bool>(),
                       .seed = number<std::uint64_t>(parsed, "seed")};
  if (parsed.count("dataset") > 0) {
    choice.kind = choose<DatasetKind>("dataset", parsed["dataset"].as<std::string>(),
                                      {{"fashion-mnist", DatasetKind::kFashionMnist},
                                       {"cifar10", DatasetKind::kCifar10},
                                       {"image-masks", DatasetKind::kImageMasks}});
  }
  if (parsed.count("data-dir") > 0) choice.directory = parsed["data-dir"].as<std::string>();
  return choice;
}

void read_schedule(const cxxopts::ParseResult& parsed, Options& options) {
  const std::string name = parsed["lr-schedule"].as<std::string>();
  const bool has_patience = parsed.count("plateau-patience") > 0;
  if (name == kPlateau) {
    options.plateau_patience = has_patience ? number<int>(parsed, "plateau-patience") : 10;
    return;
  }
  require(!has_patience, "--plateau-patience is for --lr-schedule plateau");
  options.lr_schedule =
      choose<ddp::nn::LrScheduleKind>("lr-schedule", name,
                                      {{"constant", ddp::nn::LrScheduleKind::kConstant},
                                       {"step", ddp::nn::LrScheduleKind::kStep},
                                       {"cosine", ddp::nn::LrScheduleKind::kCosine},
                                       {kPlateau, ddp::nn::LrScheduleKind::kConstant}});
}

Options read(const cxxopts::ParseResult& parsed) {
  const auto text = [&](const char* flag) { return parsed[flag].as<std::string>(); };
  const auto path = [&](const char* flag) { return parsed.count(flag) > 0 ? text(flag) : ""; };
  Options options;
  options.model = text("model");
  options.dataset = read_dataset(parsed);
  options.optimizer = read_optimizer(parsed);
  options.init = path("init");
  options.max_grad_norm = number<double>(parsed, "clip-grad-norm");
  options.label_smoothing = number<double>(parsed, "label-smoothing");
  options.sync_batch_norm = parsed["sync-bn"].as<bool>();
  options.epochs = number<int>(parsed, "epochs");
  options.max_steps = number<std::int64_t>(parsed, "max-steps");
  if (parsed.count("batch-size") > 0) {
    options.batch_size = number<std::int64_t>(parsed, "batch-size");
  }
  if (parsed.count("global-batch-size") > 0) {
    options.global_batch_size = number<std::int64_t>(parsed, "global-batch-size");
  }
  options.accumulate = number<int>(parsed, "accumulate");
  read_schedule(parsed, options);
  options.warmup_epochs = number<int>(parsed, "warmup");
  options.warmup_steps = number<std::int64_t>(parsed, "warmup-steps");
  options.dtype =
      choose<ddp::DType>("dtype", text("dtype"),
                         {{"float32", ddp::DType::kFloat32}, {"float64", ddp::DType::kFloat64}});
  options.amp = ddp::nn::parse_amp(text("amp"));
  if (parsed.count("non-finite") > 0) {
    options.non_finite = choose<ddp::NonFinite>("non-finite", text("non-finite"),
                                                {{"stop", ddp::NonFinite::kStop},
                                                 {"skip", ddp::NonFinite::kSkip},
                                                 {"ignore", ddp::NonFinite::kIgnore}});
  }
  options.sampler = choose<SamplerKind>(
      "sampler", text("sampler"), {{"exact", SamplerKind::kExact}, {"torch", SamplerKind::kTorch}});
  options.drop_last = parsed["drop-last"].as<bool>();
  options.seed = number<std::uint64_t>(parsed, "seed");
  options.num_workers = number<int>(parsed, "num-workers");
  options.device = choose<ddp::DeviceChoice>("device", text("device"),
                                             {{"auto", ddp::DeviceChoice::kAuto},
                                              {"cpu", ddp::DeviceChoice::kCpu},
                                              {"cuda", ddp::DeviceChoice::kCuda}});
  options.backend = ddp::parse_backend(text("backend"));
  options.bucket_cap_mb = number<double>(parsed, "bucket-cap-mb");
  options.log_every = number<std::int64_t>(parsed, "log-every");
  options.metrics = path("metrics");
  options.log_dir = path("log-dir");
  options.traces = {.trace = path("trace"), .step_svg = path("step-svg")};
  options.save = path("save");
  options.checkpoints = {.directory = path("checkpoint-dir"),
                         .resume = text("resume"),
                         .every = number<std::int64_t>(parsed, "checkpoint-every"),
                         .keep = number<int>(parsed, "keep")};
  return options;
}

// cxxopts' message about a switch does not name it; about other flags it does.
std::string name_switch(const std::string& complaint, std::span<char*> arguments) {
  for (const std::string_view argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string_view::npos) continue;
    if (complaint.find(argument.substr(equals + 1)) == std::string::npos) continue;
    return std::string(argument) + ": the value of a switch can only be true or false";
  }
  return complaint;
}

}  // namespace

std::int64_t Options::pass_batch(int world_size) const {
  return global_batch_size ? *global_batch_size / accumulate : batch_size.value_or(64) * world_size;
}

std::string Options::ranks_and_batch(int world_size) const {
  const std::string ranks = world_size == 1 ? "1 rank" : fmt::format("{} ranks", world_size);
  const std::int64_t samples = pass_batch(world_size);
  std::string text = fmt::format("{}, global batch {}", ranks, global_batch(world_size));
  if (accumulate == 1) return text;
  if (samples % world_size != 0)
    return text + fmt::format(" = {} passes x {}", accumulate, samples);
  return text + fmt::format(" = {} x {} x {} passes", ranks, samples / world_size, accumulate);
}

ddp::NonFinite Options::non_finite_gradients() const {
  const bool is_scaled = amp == ddp::DType::kFloat16;
  return non_finite.value_or(is_scaled ? ddp::NonFinite::kSkip : ddp::NonFinite::kIgnore);
}

bool Options::stops_at_bad_loss() const {
  const bool is_scaled = amp == ddp::DType::kFloat16;
  return non_finite ? non_finite == ddp::NonFinite::kStop : !is_scaled;
}

double Options::learning_rate(double base, int epoch, std::int64_t step) const {
  const ddp::nn::LrSchedule schedule{
      .kind = lr_schedule, .base = base, .epochs = epochs, .warmup_epochs = warmup_epochs};
  const std::int64_t warmup = std::max<std::int64_t>(warmup_steps, 1);
  return ddp::nn::learning_rate(schedule, epoch) *
         ddp::nn::warmup_factor(
             {.steps = warmup - 1, .start_factor = 1 / static_cast<double>(warmup)}, step);
}

JobDescription Options::describe(int world_size, const Task& task) const {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  return {.essentials = {{"model", model},
                         {"dataset", std::string(to_string(dataset.kind))},
                         {"dataset_size", text(task.train_set().size())},
                         {"seed", text(seed)}},
          .settings = {{"ranks", text(world_size)},
                       {"test_set_size", text(task.test_set().size())},
                       {"sampler", sampler == SamplerKind::kExact ? "exact" : "torch"},
                       {"global_batch_size", text(global_batch(world_size))},
                       {"drop_last", text(drop_last)},
                       {"accumulate", text(accumulate)},
                       {"epochs", text(epochs)},
                       {"optimizer", text(to_string(optimizer.kind))},
                       {"lr", text(optimizer.learning_rate)},
                       {"lr_schedule", plateau_patience ? kPlateau : text(to_string(lr_schedule))},
                       {"plateau_patience", plateau_patience ? text(*plateau_patience) : "none"},
                       {"warmup", text(warmup_epochs)},
                       {"warmup_steps", text(warmup_steps)},
                       {"momentum", text(optimizer.momentum)},
                       {"nesterov", text(optimizer.nesterov)},
                       {"weight_decay", text(optimizer.weight_decay)},
                       {"clip_grad_norm", text(max_grad_norm)},
                       {"label_smoothing", text(label_smoothing)},
                       {"sync_bn", text(sync_batch_norm)},
                       {"augment", text(dataset.is_augmented)},
                       {"dtype", text(ddp::to_string(dtype))},
                       {"amp", text(ddp::nn::amp_name(amp))},
                       {"non_finite", non_finite_name(*this)}}};
}

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
  } catch (const cxxopts::exceptions::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace train
