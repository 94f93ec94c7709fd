// SPDX-License-Identifier: MIT
//
// A training with dropout that is interrupted ends with the bits of an unbroken one, if its
// checkpoint has the step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "ddp/nn/modules/dropout.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/named_buffers.h"
#include "support/files.h"
#include "support/trainee.h"

using namespace ddp;
using nn::Variable;

namespace {

class Net final : public nn::Module {
 public:
  explicit Net(const nn::Scope& scope)
      : hidden_(scope.child("hidden"), 144, 32),
        dropout_(scope.child("dropout"), 0.5),
        out_(scope.child("out"), 32, 10) {
    register_module(hidden_);
    register_module(dropout_);
    register_module(out_);
  }

  Variable forward(nn::Tape& tape, const Variable& x) override {
    return out_.forward(tape, dropout_.forward(tape, relu(tape, hidden_.forward(tape, x))));
  }

 private:
  nn::Linear hidden_;
  nn::Dropout dropout_;
  nn::Linear out_;
};

// What a checkpoint tells beside the tensors.
struct Progress {
  DataPosition position;
  std::uint64_t step = 0;
};

// Goes on from the newest checkpoint, if there is one, and ends with one after `steps` in all. An
// epoch has five.
void train(const std::filesystem::path& directory, std::uint64_t steps) {
  const ImageDataset train_set = test::make_set("train", 37);
  const auto group = init_process_group();
  nn::Context context(group->device());
  Net module({context, DType::kFloat32, /*seed=*/0});
  nn::DistributedModule model(module, context, group, {.nominal_samples = 4});
  nn::Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  const ExactSampler sampler({.dataset_size = train_set.size(),
                              .world_size = group->world_size(),
                              .rank = group->rank(),
                              .global_batch_size = 8});
  DataLoader loader(train_set, {.device = group->device()});
  nn::Tape tape(context);

  std::vector<NamedBuffer> tensors = nn::named_buffers(model.state_dict());
  std::ranges::move(nn::named_buffers(optimizer.state(), "optimizer."),
                    std::back_inserter(tensors));
  CheckpointDirectory checkpoints({.path = directory});
  Progress progress;
  on_rank0(*group, [&] {
    const auto newest = checkpoints.load_newest();
    if (!newest) return;
    restore_tensors(newest->path, newest->content, tensors, {.stream = context.stream()});
    progress.position.epoch = newest->number<std::int64_t>("epoch");
    progress.position.consumed = newest->number<std::int64_t>("consumed_samples");
    progress.step = newest->number<std::uint64_t>("step");
  });
  broadcast_on_host(*group, {&progress, sizeof(progress), DType::kUInt8}, 0);
  broadcast_tensors(*group, tensors, /*root=*/0, context.stream());

  loader.start(sampler.plan(progress.position));
  for (; progress.step < steps; ++progress.step) {
    auto batch = loader.next(context.stream());
    if (!batch) {
      loader.start(sampler.plan(loader.position()));
      batch = loader.next(context.stream());
    }
    tape.set_random_key({.seed = 0,
                         .step = progress.step,
                         .first_row = static_cast<std::uint64_t>(group->rank()),
                         .row_stride = static_cast<std::uint64_t>(group->world_size())});
    const nn::Tensor images = nn::Tensor::view(batch->inputs, {batch->count, 144});
    const Variable loss =
        nn::softmax_cross_entropy(tape, model.forward(tape, images), test::labels_of(*batch));
    model.backward(tape, loss, *batch);
    optimizer.step();
  }
  if (group->rank() != 0) return;
  const DataPosition position = loader.position();
  CheckpointWriter(checkpoints)
      .save({.name = {.epochs = position.epoch, .step = progress.step},
             .metadata = {{"epoch", metadata_text(position.epoch)},
                          {"consumed_samples", metadata_text(position.consumed)},
                          {"step", metadata_text(progress.step)}}},
            tensors, context.stream());
}

void train_on_two_ranks(const std::filesystem::path& directory, std::uint64_t steps) {
  test::on_two_ranks([&] { train(directory, steps); });
}

}  // namespace

TEST_CASE("a training with dropout resumes to the bits of an unbroken one", "[recipe][resume]") {
  const test::TemporaryDirectory place;
  const auto final_of = [&](const std::string& directory) {
    return test::bytes_of(place / (directory + "/model_epoch_2_step_13.safetensors"));
  };
  train_on_two_ranks(place / "unbroken", 13);
  train_on_two_ranks(place / "broken", 4);
  train_on_two_ranks(place / "broken", 11);
  train_on_two_ranks(place / "broken", 13);
  REQUIRE_FALSE(final_of("unbroken").empty());
  CHECK((final_of("broken") == final_of("unbroken")));
}
