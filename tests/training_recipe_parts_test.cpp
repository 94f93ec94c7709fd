// SPDX-License-Identifier: MIT
//
// The parts of docs/training.md around the loop; training_recipe_test.cpp has the loop, and
// examples/spirals.cpp a module and a dataset. docs_test.cpp compares the document with all three.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "ddp/data/cifar10.h"
#include "ddp/data/image_mask_folder.h"
#include "ddp/data/subset.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/nn/models/resnet18.h"
#include "ddp/nn/named_buffers.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/lr_schedule.h"
#include "ddp/nn/optim/reduce_lr_on_plateau.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/small_sets.h"
#include "support/trainee.h"

using namespace ddp;
using nn::Tensor;
using test::expect;

TEST_CASE("recipe: optimizers and learning rates", "[recipe]") {
  test::on_two_ranks([] {
    test::Trainee trainee;
    auto& [train_set, group, context, module, model, sgd, tape, sampler, loader, _] = trainee;

    const std::int64_t global_batch = 4 * group->world_size();
    const nn::DecaySplit split = nn::split_by_decay(model.parameters());
    const AdamStep decayed{.learning_rate = 1e-3, .weight_decay = 0.05};
    nn::Adam optimizer(context, {{split.decayed, decayed}, {split.not_decayed, {}}});
    const double base = nn::scaled_learning_rate(1e-3, global_batch, /*reference_batch=*/256);
    const nn::LinearWarmup warmup{.steps = 500, .start_factor = 0.1};
    const nn::LrSchedule schedule{.kind = nn::LrScheduleKind::kCosine, .base = base, .epochs = 90};

    const int epoch = 0;
    const std::int64_t step = 250;
    trainee.backward();

    optimizer.set_learning_rate(nn::learning_rate(schedule, epoch) *
                                nn::warmup_factor(warmup, step));
    const Tensor norm = model.clip_grad_norm(1.0);
    optimizer.step();

    expect(std::abs(optimizer.learning_rate() - 1e-3 * 8 / 256 * 0.55) < 1e-12, "the rate");

    nn::ReduceLrOnPlateau plateau({.base = 0.1, .patience = 5});
    for (int i = 0; i < 7; ++i) {
      const double validation_loss = 1;

      plateau.step(validation_loss);
      optimizer.set_learning_rate(plateau.learning_rate());

      expect(std::abs(optimizer.learning_rate() - (i < 6 ? 0.1 : 0.01)) < 1e-12, "the rate");
    }
    expect(split.decayed.size() == 4 && split.not_decayed.size() == 7, "weights and the others");
    expect(item(norm.buffer()) > 0, "a norm");
  });
}

TEST_CASE("recipe: datasets and transforms", "[recipe]") {
  const test::TemporaryDirectory directory;
  test::write_cifar10(directory.path());
  test::ChildProcess program(
      {DDP_MAKE_CRACK_SET_PATH, "--out", directory / "cracks", "--count", "3", "--size", "64"});
  REQUIRE(program.wait() == 0);

  const ImageTransforms augment{
      .crop = Crop{.size = {32, 32}, .padding = 4}, .flip_probability = 0.5, .seed = 0};
  const ImageDataset cifar10 = load_cifar10(DataSplit::kTrain, directory.path(), augment);
  const std::vector<Subset> parts = split(cifar10, {0.9, 0.1}, /*seed=*/0);
  const ImageMaskFolder cracks(directory / "cracks", {.transforms = augment});

  CHECK(parts[0].size() == 22);
  CHECK(parts[1].size() == 2);
  CHECK(cracks.input_shape()[1] == 32);
}

TEST_CASE("recipe: ranks without a launcher", "[recipe]") {
  const auto train = [](int rank, ProcessGroup& group) {
    expect(group.rank() == rank && group.world_size() == 2, "two ranks");
  };
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);

  spawn(
      [&](int rank) {
        const auto group = init_process_group();
        train(rank, *group);
      },
      2);
}

TEST_CASE("recipe: weights from PyTorch", "[recipe]") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory / "resnet18.safetensors";
  nn::Context context;
  const nn::ResNet18 other({context, DType::kFloat32, 3}, 3, 10);
  std::vector<NamedBuffer> wrapped = nn::named_buffers(other.state_dict(), "module.");
  save_safetensors(file, wrapped);

  nn::ResNet18 module({context, DType::kFloat32, /*seed=*/0}, /*channels=*/3, /*classes=*/10);
  restore_tensors(file, load_safetensors(file), nn::named_buffers(module.state_dict()));

  const auto values = [&](const nn::Module& of) {
    return context.to_host<float>(of.parameters().front()->value());
  };
  CHECK(values(module) == values(other));
}
