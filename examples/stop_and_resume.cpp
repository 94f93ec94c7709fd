// SPDX-License-Identifier: MIT
//
// A trainer on raw arrays that may be stopped or killed at any time, and then goes on where it was,
// also in the midst of an epoch: softmax regression on Fashion-MNIST, with momentum. It ends after
// five epochs, or earlier if two of them have brought no better test accuracy.
//
//   ddp-launch --nproc_per_node=2 --max-restarts 3 build/bin/stop_and_resume CHECKPOINT_DIR
//
// Ctrl-C, SIGTERM or SIGUSR1 make all ranks save and end after the same step; the same command goes
// on. A killed rank costs the steps since the last checkpoint. In your own project, link ddp::ddp,
// ddp::data, ddp::io and ddp::samplers.
#include <ddp/data/data_loader.h>
#include <ddp/data/fashion_mnist.h>
#include <ddp/ddp.h>
#include <ddp/io/checkpoint_file.h>
#include <ddp/io/checkpoint_writer.h>
#include <ddp/samplers/exact_sampler.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kPixels = 28 * 28, kClasses = 10;
constexpr std::int64_t kGlobalBatch = 128, kStepsToSave = 100;
constexpr std::int64_t kMostEpochs = 5, kPatience = 2;
constexpr float kLearningRate = 0.005F, kMomentum = 0.9F;

enum : std::size_t { kWeight, kBias };

// Parameters and momentum, in our memory; the weight is [classes][pixels].
struct Model {
  std::array<std::vector<float>, 2> values{std::vector<float>(kClasses * kPixels),
                                           std::vector<float>(kClasses)};
  std::array<std::vector<float>, 2> velocities = values;

  std::vector<ddp::Parameter> parameters() {
    return {{"weight", {kClasses, kPixels}, ddp::buffer_of(values[kWeight])},
            {"bias", {kClasses}, ddp::buffer_of(values[kBias])}};
  }
  // What a checkpoint holds.
  std::vector<ddp::NamedBuffer> tensors() {
    return {{"weight", {kClasses, kPixels}, ddp::buffer_of(values[kWeight])},
            {"bias", {kClasses}, ddp::buffer_of(values[kBias])},
            {"weight.velocity", {kClasses, kPixels}, ddp::buffer_of(velocities[kWeight])},
            {"bias.velocity", {kClasses}, ddp::buffer_of(velocities[kBias])}};
  }
};

// How far the training is; saved beside the tensors.
struct Progress {
  ddp::DataPosition data;  // of the next batch
  std::int64_t steps = 0;
  std::int64_t best_correct = 0;    // test images, after the best epoch
  std::int64_t epochs_in_vain = 0;  // since then

  [[nodiscard]] bool is_over() const {
    return data.epoch == kMostEpochs || epochs_in_vain == kPatience;
  }
};

// Rank 0's files. All ranks make one and make the same calls.
class Checkpoints {
 public:
  Checkpoints(ddp::ProcessGroup& group, const char* path) : group_(group) {
    ddp::on_rank0(group, [&] {
      directory_.emplace(ddp::CheckpointDirectoryOptions{.path = path});
      writer_.emplace(*directory_);  // from here on no other job writes there
    });
  }

  // Fills the tensors on all ranks, and returns where their training was: at its start if there is
  // no checkpoint.
  Progress load(const std::vector<ddp::NamedBuffer>& tensors) {
    std::array<std::int64_t, 5> numbers = {};
    ddp::on_rank0(group_, [&] {
      const auto newest = directory_->load_newest();
      if (!newest) return;
      ddp::restore_tensors(newest->path, newest->content, tensors);
      for (std::size_t i = 0; i < kKeys.size(); ++i) {
        numbers[i] = newest->number<std::int64_t>(kKeys[i]);
      }
      std::printf("resuming from %s\n", newest->path.c_str());
    });
    ddp::broadcast_on_host(group_, ddp::buffer_of(numbers), 0);
    ddp::broadcast_tensors(group_, tensors, 0);
    return {{.epoch = numbers[0], .consumed = numbers[1]}, numbers[2], numbers[3], numbers[4]};
  }

  // Returns when the tensors are copied. They are written meanwhile.
  void save(const Progress& progress, const std::vector<ddp::NamedBuffer>& tensors) {
    if (!writer_) return;
    const std::array<std::int64_t, 5> numbers = {progress.data.epoch, progress.data.consumed,
                                                 progress.steps, progress.best_correct,
                                                 progress.epochs_in_vain};
    ddp::CheckpointInfo info{.name = {.epochs = progress.data.epoch}};
    if (progress.data.consumed > 0) info.name.step = progress.steps;
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      info.metadata[kKeys[i]] = ddp::metadata_text(numbers[i]);
    }
    writer_->save(std::move(info), tensors);
  }

  // Throws if a save has failed, as on a full disk.
  void check() {
    if (writer_) writer_->check();
  }
  void finish() {
    if (writer_) writer_->finish();
  }

 private:
  static constexpr std::array<const char*, 5> kKeys = {"epoch", "consumed_samples", "step",
                                                       "best_correct", "epochs_in_vain"};

  ddp::ProcessGroup& group_;
  std::optional<ddp::CheckpointDirectory> directory_;  // only on rank 0, as is the writer
  std::optional<ddp::CheckpointWriter> writer_;
};

struct Score {
  double loss = 0;  // summed over the samples
  std::int64_t correct = 0;
};

// Computes the probabilities of the classes for one image. Returns its loss.
double classify(const Model& model, std::span<const float> image, std::size_t label,
                std::array<float, kClasses>& probabilities) {
  for (std::size_t c = 0; c < kClasses; ++c) {
    probabilities[c] = model.values[kBias][c];
    for (std::size_t i = 0; i < kPixels; ++i) {
      probabilities[c] += model.values[kWeight][c * kPixels + i] * image[i];
    }
  }
  const float largest = *std::ranges::max_element(probabilities);
  float sum = 0;
  for (float& each : probabilities) sum += each = std::exp(each - largest);
  for (float& each : probabilities) each /= sum;
  return -std::log(std::max(probabilities[label], 1e-30F));
}

// Calls visit(image, probabilities, label) for each sample.
template <class Visit>
Score for_each_sample(const Model& model, const ddp::Batch& batch, const Visit& visit) {
  const auto labels = batch.labels.as<std::int64_t>();
  Score score;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const auto image = batch.inputs.as<float>().subspan(n * kPixels, kPixels);
    const auto label = static_cast<std::size_t>(labels[n]);
    std::array<float, kClasses> probabilities;
    score.loss += classify(model, image, label, probabilities);
    score.correct += probabilities[label] == *std::ranges::max_element(probabilities);
    visit(image, probabilities, label);
  }
  return score;
}

// Forward and backward: writes `scale` times the gradient of the summed loss into the buckets.
Score compute_gradients(const Model& model, const ddp::Batch& batch, float scale,
                        ddp::DistributedDataParallel& ddp) {
  const auto weight = ddp.gradient(kWeight).as<float>();
  const auto bias = ddp.gradient(kBias).as<float>();
  std::ranges::fill(weight, 0.0F);
  std::ranges::fill(bias, 0.0F);
  return for_each_sample(model, batch, [&](auto image, const auto& probabilities, auto label) {
    for (std::size_t c = 0; c < kClasses; ++c) {
      const float slope = scale * (probabilities[c] - (c == label ? 1.0F : 0.0F));
      bias[c] += slope;
      for (std::size_t i = 0; i < kPixels; ++i) weight[c * kPixels + i] += slope * image[i];
    }
  });
}

void optimize(Model& model, const ddp::DistributedDataParallel& ddp) {
  for (const std::size_t p : {kWeight, kBias}) {
    const auto gradient = ddp.gradient(p).as<const float>();
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      model.velocities[p][k] = kMomentum * model.velocities[p][k] + gradient[k];
      model.values[p][k] -= kLearningRate * model.velocities[p][k];
    }
  }
}

// One step of all ranks. Returns true if they shall stop after it: if a rank has got a signal.
bool train_step(Model& model, const ddp::Batch& batch, const ddp::SignalGuard& signals,
                ddp::DistributedDataParallel& ddp) {
  ddp::StepOptions step = ddp::step_options(batch);  // samples, epoch, plan and rank
  step.asks_to_stop = signals.stop_requested();
  const double factor = ddp.begin_step(step);
  const auto n = static_cast<double>(batch.count);
  const float scale = n > 0 ? static_cast<float>(factor / n) : 0;
  const Score score = compute_gradients(model, batch, scale, ddp);
  if (n > 0) ddp.record_metric(0, score.loss / n, n);
  ddp.mark_ready(kBias);
  ddp.mark_ready(kWeight);
  ddp.wait();
  if (ddp.should_step()) optimize(model, ddp);
  return ddp.stop_requested();
}

// The number of test images that all ranks together classify correctly, each its part of them.
std::int64_t count_correct(const Model& model, const ddp::Dataset& test_set,
                           ddp::ProcessGroup& group) {
  const ddp::ExactSampler sampler({.dataset_size = test_set.size(),
                                   .world_size = group.world_size(),
                                   .rank = group.rank(),
                                   .global_batch_size = 1000,
                                   .shuffle = false});
  ddp::DataLoader loader(test_set, {});
  loader.start(sampler.plan({}));
  std::array<double, 1> correct = {};
  while (const auto batch = loader.next()) {
    const auto ignore = [](const auto&...) {};
    correct[0] += static_cast<double>(for_each_sample(model, *batch, ignore).correct);
  }
  ddp::all_reduce_on_host(group, correct);
  return static_cast<std::int64_t>(correct[0]);
}

void end_epoch(Progress& progress, std::int64_t correct) {
  progress.epochs_in_vain = correct > progress.best_correct ? 0 : progress.epochs_in_vain + 1;
  progress.best_correct = std::max(progress.best_correct, correct);
}

// Returns the exit code.
int run(const char* path) {
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
  const ddp::SignalGuard signals;
  const auto train_set = ddp::load_fashion_mnist(ddp::DataSplit::kTrain);
  const auto test_set = ddp::load_fashion_mnist(ddp::DataSplit::kTest);
  Model model;
  Checkpoints checkpoints(*group, path);
  Progress progress = checkpoints.load(model.tensors());
  ddp::ExactSampler sampler({.dataset_size = train_set.size(),
                             .world_size = group->world_size(),
                             .rank = group->rank(),
                             .global_batch_size = kGlobalBatch});
  sampler.seek(progress.data);
  ddp::DataLoader loader(train_set, {});
  ddp::DistributedDataParallel ddp(
      group, model.parameters(),
      {.nominal_samples = static_cast<double>(kGlobalBatch) / group->world_size()});
  ddp.continue_after(progress.steps);

  bool is_asked_to_stop = false;
  while (!progress.is_over() && !is_asked_to_stop) {
    loader.start(sampler.next_epoch());
    while (const auto batch = loader.next()) {
      is_asked_to_stop = train_step(model, *batch, signals, ddp);
      ++progress.steps;
      checkpoints.check();
      progress.data = loader.position();
      const bool is_inside = progress.data.consumed > 0;  // the epoch, which ends below
      if (is_inside && (is_asked_to_stop || progress.steps % kStepsToSave == 0)) {
        checkpoints.save(progress, model.tensors());
      }
      if (is_asked_to_stop) break;
    }
    if (progress.data.consumed > 0) continue;
    const std::int64_t correct = count_correct(model, test_set, *group);
    end_epoch(progress, correct);
    checkpoints.save(progress, model.tensors());
    if (group->rank() == 0) {
      std::printf("epoch %lld: loss %.6f, test accuracy %.2f %%\n",
                  static_cast<long long>(progress.data.epoch), ddp.take_totals().metrics[0].mean(),
                  100.0 * static_cast<double>(correct) / static_cast<double>(test_set.size()));
      std::fflush(stdout);
    }
  }
  checkpoints.finish();
  // ddp-launch knows that the job was asked to stop, and anything but 0 would be a failure. Without
  // it, `stop_and_resume DIR && evaluate` shall go no further.
  return is_asked_to_stop && group->world_size() == 1 ? 128 + *signals.stop_signal() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || *argv[1] == '-') {
    std::fprintf(stderr, "usage: stop_and_resume CHECKPOINT_DIR\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    ddp::record_error(error);
    std::fprintf(stderr, "stop_and_resume: %s\n", ddp::describe(error).c_str());
    return 1;
  }
}
