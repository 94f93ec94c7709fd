// SPDX-License-Identifier: MIT
#include "option_checks.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "ddp/io/checkpoint_directory.h"
#include "ddp/nn/models/factory.h"

namespace train {
namespace {

constexpr std::int64_t kMaxBatch = std::numeric_limits<std::int32_t>::max();  // the samplers'

void check(const DatasetChoice& dataset, const std::string& model) {
  const bool is_segmented = dataset.kind == DatasetKind::kImageMasks;
  const bool is_text = dataset.kind == DatasetKind::kText;
  require(is_segmented == (model == "unet") && is_text == ddp::nn::is_language_model(model),
          "--model " + model + " cannot be trained on --dataset " +
              std::string(to_string(dataset.kind)) + ": unet needs image-masks, gpt needs text");
  require(dataset.kind == DatasetKind::kFashionMnist || !dataset.directory.empty(),
          "--dataset " + std::string(to_string(dataset.kind)) + " needs --data-dir");
  require(dataset.kind != DatasetKind::kFashionMnist || !dataset.is_augmented,
          "--augment works only for --dataset cifar10, image-masks and text");
  require(dataset.context >= 1 && dataset.context <= 1 << 20,
          "--context must be between 1 and 2^20");
}

void check_duration(const Options& options) {
  require(options.epochs >= 1, "--epochs must be at least 1");
  require(options.max_steps >= 0, "--max-steps must not be negative");
  require(!options.batch_size || !options.global_batch_size,
          "--batch-size and --global-batch-size exclude each other");
  const auto is_batch = [](std::int64_t size) { return size >= 1 && size <= kMaxBatch; };
  require(is_batch(options.batch_size.value_or(1)), "--batch-size must be between 1 and 2^31 - 1");
  require(is_batch(options.global_batch_size.value_or(1)),
          "--global-batch-size must be between 1 and 2^31 - 1");
  require(options.accumulate >= 1 && options.accumulate <= 1 << 16,
          "--accumulate must be between 1 and 2^16");
  require(options.global_batch_size.value_or(0) % options.accumulate == 0,
          fmt::format("--global-batch-size {} cannot be cut into --accumulate {} equal passes",
                      options.global_batch_size.value_or(0), options.accumulate));
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

void check_schedule(const Options& options) {
  require(options.plateau_patience.value_or(0) >= 0, "--plateau-patience must not be negative");
  require(options.warmup_epochs >= 0 && options.warmup_epochs <= options.epochs,
          "--warmup must be between 0 and --epochs");
  require(options.warmup_steps >= 0, "--warmup-steps must not be negative");
  require(options.warmup_epochs == 0 || options.warmup_steps == 0,
          "--warmup and --warmup-steps exclude each other");
}

void check_precision(const Options& options) {
  require(!options.amp || options.dtype == ddp::DType::kFloat32,
          "--amp computes in 16 bits what would be float32: it cannot go with --dtype float64");
  require(options.float32_precision == ddp::Float32Precision::kIeee ||
              options.dtype == ddp::DType::kFloat32,
          "--tf32 rounds float32: it cannot go with --dtype float64");
  const bool is_scaled = options.amp == ddp::DType::kFloat16;
  require(!is_scaled || options.non_finite_gradients() == ddp::NonFinite::kSkip,
          "--amp fp16 finds its loss scale by skipping steps: it needs --non-finite skip");
}

// The file itself, whatever symbolic links lead to it; links to a device may be two files, as are
// those to /dev/null.
std::filesystem::path resolved(const std::filesystem::path& file) {
  std::error_code ignored;
  if (is_other(file, ignored)) return file.lexically_normal();
  const std::filesystem::path path = weakly_canonical(absolute(file, ignored), ignored);
  return path.empty() ? file.lexically_normal() : path;
}

struct OutputFile {
  std::string flag;
  std::filesystem::path given;
  std::filesystem::path path = {};  // resolved
};

std::vector<OutputFile> output_files(const Options& options) {
  std::vector<OutputFile> files = {{"--metrics", options.metrics},
                                   {"--save", options.save},
                                   {"--trace", options.traces.trace},
                                   {"--step-svg", options.traces.step_svg}};
  std::erase_if(files, [](const OutputFile& file) { return file.given.empty(); });
  for (OutputFile& file : files) file.path = resolved(file.given);
  return files;
}

// The directory need not exist yet, and its name may end in a slash.
void check_not_kept(const OutputFile& file, const std::filesystem::path& checkpoints) {
  if (checkpoints.empty()) return;
  const std::filesystem::path path = resolved(checkpoints);
  const auto directory = path.has_filename() ? path : path.parent_path();
  require(file.path.parent_path() != directory ||
              !ddp::is_name_in_checkpoint_directory(file.path.filename().string()),
          file.flag + ' ' + file.given.string() +
              " is a file that --checkpoint-dir keeps there itself");
}

void check_not_read(const OutputFile& file, const char* flag, const std::filesystem::path& input) {
  require(input.empty() || file.path != resolved(input),
          file.flag + " would overwrite the file of " + flag);
}

void check_output_files(const Options& options) {
  const std::vector<OutputFile> files = output_files(options);
  for (auto file = files.begin(); file != files.end(); ++file) {
    for (auto other = files.begin(); other != file; ++other) {
      require(other->path != file->path, other->flag + " and " + file->flag + " must be two files");
    }
    check_not_kept(*file, options.checkpoints.directory);
    if (file->flag == "--save") continue;  // it is written at the end, as a whole
    check_not_read(*file, "--init", options.init);
    if (options.checkpoints.resumes_file()) {
      check_not_read(*file, "--resume", options.checkpoints.resume);
    }
  }
}

}  // namespace

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

void check(const Options& options) {
  ddp::nn::check_model_name(options.model);
  check(options.dataset, options.model);
  require(!options.is_init_partial || !options.init.empty(), "--init-partial needs --init");
  require(options.init.empty() || !options.checkpoints.resumes_file(),
          "--init is for a new training, and --resume " + options.checkpoints.resume +
              " goes on with another");
  check_duration(options);
  check(options.optimizer);
  check_schedule(options);
  check_precision(options);
  require(options.max_grad_norm >= 0, "--clip-grad-norm must be positive, or 0");
  require(options.label_smoothing >= 0 && options.label_smoothing <= 1,
          "--label-smoothing must be between 0 and 1");
  require(options.label_smoothing == 0 || options.model != "unet",
          "--label-smoothing is for classes: --model unet has none");
  require(options.num_workers >= 0 && options.num_workers <= 256,
          "--num-workers must be between 0 and 256");
  require(options.bucket_cap_mb > 0 && options.bucket_cap_mb <= 1 << 20,
          "--bucket-cap-mb must be positive and at most 2^20");
  check_output_files(options);
  require(options.log_every >= 0, "--log-every must not be negative");
  require(options.checkpoints.every >= 0, "--checkpoint-every must not be negative");
  require(options.checkpoints.keep >= 0, "--keep must not be negative");
}

void check_for_ranks(const Options& options, int world_size) {
  const std::int64_t pass_batch = options.pass_batch(world_size);
  require(pass_batch <= kMaxBatch,
          fmt::format("--batch-size {} on {} ranks makes batches of {}, above 2^31 - 1",
                      pass_batch / world_size, world_size, pass_batch));
}

}  // namespace train
