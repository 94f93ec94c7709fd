// SPDX-License-Identifier: MIT
#include "flags.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "ddp/base/edit_distance.h"

namespace train {
namespace {

constexpr const char* kTitle =
    "Trains a model on one or many ranks:\n"
    "  train                                                        one process\n"
    "  ddp-launch --nproc_per_node=2 train --model lenet5           two ranks\n"
    "  ddp-launch --nproc_per_node=2 train --model resnet18 --dataset cifar10 --data-dir DIR\n"
    "  ddp-launch --nproc_per_node=2 train --model unet --data-dir DIR\n"
    "  ddp-launch --nproc_per_node=2 train --model gpt-micro --data-dir DIR --optimizer adamw\n";

constexpr const char* kGroups[] = {"Model and data", "Duration", "Training",
                                   "Device",         "Output",   "Checkpoint"};

std::shared_ptr<cxxopts::Value> text() { return cxxopts::value<std::string>(); }
std::shared_ptr<cxxopts::Value> text(const char* value) { return text()->default_value(value); }

void add_data(cxxopts::OptionAdder add) {
  add("model",
      "mlp, lenet5, convnet, resnet18; unet for image-masks; gpt-nano, gpt-micro, gpt-mini or gpt2 "
      "for text",
      text("mlp"), "NAME");
  add("dataset", "fashion-mnist, cifar10, image-masks or text (default: the first for the model)",
      text(), "NAME");
  add("data-dir",
      "where the dataset's files are; image-masks: train/ and test/ with images/ and masks/ each; "
      "text: train.txt and test.txt",
      text(), "DIR");
  add("context", "with text: bytes in a sample (default 128)", text(), "N");
  add("augment",
      "flip training images at random, crop those of cifar10, cut texts at other places in each "
      "epoch");
  add("sampler", "exact (cuts each global batch over the ranks) or torch (DistributedSampler)",
      text("exact"), "NAME");
  add("drop-last", "leave out an epoch's last batch if it is smaller than the others");
  add("num-workers", "threads per rank that read batches ahead; 0: none", text("1"), "N");
  add("seed", "seed of initial weights, data order and augmentation", text("0"), "N");
  add("init", "begin with the weights in this file, written by --save or by safetensors in Python",
      text(), "FILE.safetensors");
  add("init-partial", "take from the --init file what fits by name and shape, and draw the rest");
}

void add_duration(cxxopts::OptionAdder add) {
  add("epochs", "passes over the training set", text("1"), "N");
  add("max-steps", "stop after this many steps in all; 0: no limit", text("0"), "N");
  add("batch-size", "samples of a rank in each pass (default 64)", text(), "N");
  add("global-batch-size",
      "instead of --batch-size: samples of one optimizer step, over all ranks and passes", text(),
      "N");
  add("accumulate", "passes (forward and backward of one batch) per optimizer step", text("1"),
      "N");
}

void add_optimization(cxxopts::OptionAdder add) {
  add("optimizer", "sgd, adam or adamw", text("sgd"), "NAME");
  add("lr", "learning rate (default: 0.05; 0.001 for adam and adamw)", text(), "F");
  add("lr-schedule",
      "by epoch: constant, step (a tenth every 30 epochs), cosine, or plateau (a tenth when the "
      "test loss no longer falls)",
      text("constant"), "NAME");
  add("plateau-patience",
      "with plateau: epochs in a row that may pass without a smaller test loss (default 10)",
      text(), "N");
  add("warmup", "epochs of warm-up: the rate of epoch e is (e + 1) / N of --lr", text("0"), "N");
  add("warmup-steps", "instead of --warmup: steps of linear warm-up", text("0"), "N");
  add("momentum", "momentum of sgd", text("0.9"), "F");
  add("nesterov", "Nesterov's momentum");
  add("weight-decay", "weight decay", text("0"), "F");
  add("clip-grad-norm", "largest norm of a step's gradients; 0: no limit", text("0"), "F");
  add("label-smoothing", "share of a label's probability that is spread over all classes",
      text("0"), "F");
  add("sync-bn", "batch norms use the statistics of all ranks' batches");
  add("amp", "mixed precision: none, bf16 or fp16 (with dynamic loss scaling)", text("none"),
      "NAME");
  add("dtype", "float32 or float64", text("float32"), "NAME");
  add("tf32", "GPUs may round the operands of float32 products to TF32, which is faster");
  add("non-finite",
      "what to do about infinite and NaN losses and gradients: stop (the run, and name gradient "
      "and rank), skip (the step) or ignore (default: skip with --amp fp16; otherwise such a loss "
      "stops the run, and gradients are not checked)",
      text(), "NAME");
}

void add_device(cxxopts::OptionAdder add) {
  add("device", "auto, cpu or cuda", text("auto"), "NAME");
  add("backend", "auto, nccl, shm, tcp or shm+tcp", text("auto"), "NAME");
  add("bucket-cap-mb", "size of a gradient bucket in MiB", text("25"), "F");
  add("compress", "how gradients travel between ranks: none (as they are), bf16 or fp16",
      text("none"), "NAME");
}

void add_output(cxxopts::OptionAdder add) {
  add("log-every", "steps between progress lines; 0: one at the end of each epoch", text("100"),
      "N");
  add("metrics", "write JSON lines to this file", text(), "FILE");
  add("log-dir", "write scalars for TensorBoard into this directory", text(), "DIR");
  add("trace", "write the time lines of all ranks' last steps (for ui.perfetto.dev)", text(),
      "FILE.json");
  add("step-svg", "draw a typical step of all ranks", text(), "FILE.svg");
  add("save", "at the end, also after a stop, write the model to this file", text(),
      "FILE.safetensors");
  add("h,help", "show this text");
}

void add_checkpoints(cxxopts::OptionAdder add) {
  add("checkpoint-dir",
      "save checkpoints here, one after each epoch and before a stop (SIGTERM, SIGUSR1, Ctrl-C)",
      text(), "DIR");
  add("checkpoint-every", "also save one every so many steps; 0: only after epochs", text("0"),
      "N");
  add("keep", "how many of the newest checkpoints to keep, besides the best; 0: all", text("3"),
      "N");
  add("resume",
      "continue from the newest checkpoint in --checkpoint-dir (auto), from a file, or not at all",
      text("auto"), "auto|FILE|none");
}

}  // namespace

cxxopts::Options make_flags() {
  cxxopts::Options flags("train", kTitle);
  flags.set_width(100);
  add_data(flags.add_options(kGroups[0]));
  add_duration(flags.add_options(kGroups[1]));
  add_optimization(flags.add_options(kGroups[2]));
  add_device(flags.add_options(kGroups[3]));
  add_output(flags.add_options(kGroups[4]));
  add_checkpoints(flags.add_options(kGroups[5]));
  return flags;
}

std::string help_text(const cxxopts::Options& flags) {
  return flags.help({std::begin(kGroups), std::end(kGroups)});
}

std::string complain_of_unknown(const cxxopts::Options& flags, std::span<char* const> arguments) {
  std::vector<std::string> names;
  for (const char* group : kGroups) {
    for (const auto& flag : flags.group_help(group).options) {
      names.insert(names.end(), flag.l.begin(), flag.l.end());
    }
  }
  for (const std::string_view argument : arguments) {
    if (!argument.starts_with("--") || argument == "--") continue;
    const std::string_view name = argument.substr(2, argument.find('=') - 2);
    if (std::ranges::count(names, name) > 0) continue;
    const auto distance = [&](const std::string& known) { return ddp::edit_distance(name, known); };
    const std::string& nearest = *std::ranges::min_element(names, {}, distance);
    const bool is_near = 2 * distance(nearest) <= name.size();
    return "unknown flag '" + std::string(argument) +
           (is_near ? "'; did you mean --" + nearest + "?" : "' (--help lists the flags)");
  }
  return "";
}

}  // namespace train
