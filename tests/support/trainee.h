// SPDX-License-Identifier: MIT
//
// The models, data and ranks of the tests of docs/training.md and its neighbours.
#pragma once

#include <signal.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/data/data_loader.h"
#include "ddp/data/image_dataset.h"
#include "ddp/ddp.h"
#include "ddp/nn/models/convnet.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/small_sets.h"

namespace ddp::test {

using nn::Tensor;
using nn::Variable;

// Images of 12 x 12 in ten classes.
inline ImageDataset make_set(const std::string& name, std::size_t images) {
  const std::string pixels = noise(name, images * 144);
  const std::string labels = noise(name + " labels", images, 10);
  return ImageDataset({.shape = {1, 12, 12},
                       .pixels = {pixels.begin(), pixels.end()},
                       .labels = {labels.begin(), labels.end()},
                       .normalization = {{.mean = 0.5, .stddev = 0.25}}});
}

inline Tensor images_of(const Batch& batch) {
  return Tensor::view(batch.inputs, {batch.count, 1, 12, 12});
}

inline Tensor labels_of(const Batch& batch) {
  return Tensor::view(batch.labels, {batch.labels.count});
}

// Runs fn on ranks that are processes, on the CPU, and rethrows its exception here. This process
// must not compute anything: a computation may start threads (a convolution does), after which the
// process cannot be forked.
inline void on_ranks(int ranks, const std::function<void()>& fn) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  spawn(
      [&](int) {
        ::signal(SIGTERM, SIG_DFL);  // Catch2 would report it as a failed test
        fn();
      },
      ranks);
}

inline void on_two_ranks(const std::function<void()>& fn) { on_ranks(2, fn); }

// The objects that the parts of the recipe below use.
struct Trainee {
  Trainee() : model(module, context, group, {.nominal_samples = 4}), tape(context) {
    loader.start(sampler.next_epoch());
  }

  // Runs backward on the next batch.
  void backward() {
    batch = loader.next(context.stream());
    const Variable output = model.forward(tape, images_of(*batch));
    const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));
    model.backward(tape, loss, *batch);
  }
  // True if all ranks have the same parameters.
  [[nodiscard]] bool is_in_step() const {
    double sum = 0;
    for (const nn::Parameter* parameter : module.parameters()) {
      for (const float value : parameter->value().buffer().as<float>()) sum += value;
    }
    const std::vector<double> sums = all_gather_on_host(*group, std::array{sum});
    return sums[0] == sums[1];
  }

  ImageDataset train_set = make_set("train", 24);
  std::shared_ptr<ProcessGroup> group = init_process_group();
  nn::Context context{group->device()};
  nn::ConvNet module{{context, DType::kFloat32, 0}, 1, 10};
  nn::DistributedModule model;
  nn::Sgd optimizer{context, module.parameters(), {.learning_rate = 0.1, .momentum = 0.9}};
  nn::Tape tape;
  ExactSampler sampler{{.dataset_size = train_set.size(),
                        .world_size = group->world_size(),
                        .rank = group->rank(),
                        .global_batch_size = 8}};
  DataLoader loader{train_set, {.device = group->device()}};
  std::optional<Batch> batch;
};

}  // namespace ddp::test
