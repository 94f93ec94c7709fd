// SPDX-License-Identifier: MIT
//
// The parts of docs/training.md, models.md and data.md around the loop; training_recipe_test.cpp
// has the loop, and examples/spirals.cpp a module and a dataset. docs_test.cpp compares the
// documents with all three.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
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
using nn::Variable;
using test::expect;

namespace {

class Autoencoder final : public nn::Module {
 public:
  explicit Autoencoder(const nn::Scope& scope)
      : encode_(scope.child("encode"), 12, 8),
        mean_(scope.child("mean"), 8, 2),
        log_variance_(scope.child("log_variance"), 8, 2),
        decode_(scope.child("decode"), 2, 12) {
    register_module(encode_);
    register_module(mean_);
    register_module(log_variance_);
    register_module(decode_);
  }

  Variable forward(nn::Tape& tape, const Variable& x) override {
    return decode_.forward(tape, mean_.forward(tape, nn::relu(tape, encode_.forward(tape, x))));
  }

  // x: n x 12, from 0 to 1.
  Variable loss(nn::Tape& tape, const Tensor& x) {
    const Variable hidden = nn::relu(tape, encode_.forward(tape, x));
    const Variable mean = mean_.forward(tape, hidden);
    const Variable log_variance = log_variance_.forward(tape, hidden);
    const Variable stddev = nn::exp(tape, nn::mul(tape, log_variance, 0.5));
    const Tensor noise = nn::normal(tape, mean.shape(), x.dtype(), "noise");
    const Variable z = nn::add(tape, mean, nn::mul(tape, stddev, noise));
    const Variable per_value = nn::bce_with_logits(tape, decode_.forward(tape, z), x);
    const Variable squares = nn::add(tape, nn::square(tape, mean), nn::square(tape, stddev));
    const Variable terms = nn::add(tape, nn::sub(tape, squares, log_variance), -1);
    const Variable divergence = nn::mean(tape, nn::row_sums(tape, terms));
    return nn::add(tape, nn::mul(tape, per_value, 12),  // values of a sample
                   nn::mul(tape, divergence, 0.5));
  }

 private:
  nn::Linear encode_;
  nn::Linear mean_;
  nn::Linear log_variance_;
  nn::Linear decode_;
};

// x * min(max(x + 3, 0), 6) / 6, in float32 on the CPU.
Variable hardswish(nn::Tape& tape, const Variable& x) {
  Tensor y = tape.context().empty(x.shape(), DType::kFloat32);
  const std::span<const float> all = x.buffer().as<float>();
  const auto value = [](float each) { return each * std::clamp(each + 3, 0.f, 6.f) / 6; };
  std::ranges::transform(all, y.buffer().as<float>().begin(), value);
  const auto backward = [x = x.value()](const Buffer& grad_y, const GradientTarget& target) {
    const std::span<const float> in = x.buffer().as<float>(), incoming = grad_y.as<float>();
    const std::span<float> grad_x = target.buffer.as<float>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const float slope = in[i] < -3 ? 0 : in[i] > 3 ? 1 : in[i] / 3 + 0.5f;
      const float before = target.mode == WriteMode::kAccumulate ? grad_x[i] : 0;
      grad_x[i] = before + slope * incoming[i];
    }
  };
  return tape.record(std::move(y), nn::Edge{x, backward});
}

}  // namespace

// With 3 samples on two ranks: 2 and 1, or 3 and none.
TEST_CASE("recipe: a loss of one's own", "[recipe]") {
  const std::size_t on_rank0 = GENERATE(2U, 3U);
  test::on_two_ranks([&] {
    const auto group = init_process_group();
    nn::Context context(group->device());
    std::vector<double> pixels(36);
    for (std::size_t i = 0; i < 36; ++i) pixels[i] = random_unit(1, 2, i);
    const auto rows = [&](std::size_t first, std::size_t end) {
      return context.from_host<double>(std::span(pixels).subspan(12 * first, 12 * (end - first)),
                                       {end - first, 12});
    };
    nn::Tape tape(context);
    const auto train = [&](nn::DistributedModule& model, Autoencoder& module, std::size_t first,
                           std::size_t end) {
      nn::Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1});
      for (std::uint64_t step = 0; step < 3; ++step) {
        tape.set_random_key({.seed = 0, .step = step, .first_row = first});
        model.backward(tape, module.loss(tape, rows(first, end)), end - first);
        optimizer.step();
      }
      return context.to_host<double>(module.parameters().front()->value());
    };
    const nn::Scope scope(context, DType::kFloat64, /*seed=*/0);
    Autoencoder module(scope), whole(scope);
    nn::DistributedModule model(module, context, group, {.nominal_samples = 2});
    const std::vector<double> shared =
        group->rank() == 0 ? train(model, module, 0, on_rank0) : train(model, module, on_rank0, 3);
    const auto alone = group->split(group->rank(), 0);
    nn::DistributedModule single(whole, context, alone, {.nominal_samples = 3});
    const std::vector<double> expected = train(single, whole, 0, 3);
    const auto is_close = [](double a, double b) { return std::abs(a - b) < 1e-12; };
    expect(std::ranges::equal(shared, expected, is_close), "what one rank computes");
  });
}

TEST_CASE("recipe: a function with a gradient of its own", "[recipe]") {
  nn::Context context;
  nn::Tape tape(context);
  const std::vector<float> values = {-4, -1.5, 0, 1.5, 4};
  nn::Parameter x("x", context.from_host<float>(values, {5}));
  const Variable twice =
      nn::add(tape, hardswish(tape, tape.watch(x)), hardswish(tape, tape.watch(x)));
  CHECK(context.to_host<float>(twice.value()) == std::vector<float>{-0.0f, -0.75, 0, 2.25, 8});
  tape.backward(nn::sum(tape, twice));
  CHECK(context.to_host<float>(x.grad()) == std::vector<float>{0, 0, 1, 2, 2});
}

TEST_CASE("recipe: optimizers and learning rates", "[recipe]") {
  test::on_two_ranks([] {
    test::Trainee trainee;
    auto& [train_set, group, context, module, model, sgd, tape, sampler, loader, _] = trainee;

    const std::int64_t global_batch = 4 * group->world_size();
    const nn::DecaySplit split = nn::split_by_decay(model.parameters());
    const AdamStep decayed{
        .learning_rate = 1e-3, .weight_decay = 0.05, .decay = WeightDecay::kDecoupled};
    AdamStep not_decayed = decayed;  // a group has options of its own and inherits none
    not_decayed.weight_decay = 0;
    nn::Adam optimizer(context, {{split.decayed, decayed}, {split.not_decayed, not_decayed}});
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

TEST_CASE("recipe: fine-tuning with frozen layers", "[recipe]") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory / "convnet.safetensors";
  test::on_two_ranks([&] {
    const auto group = init_process_group();
    nn::Context context(group->device());
    if (group->rank() == 0) {
      const nn::ConvNet pretrained({context, DType::kFloat32, /*seed=*/1}, 1, /*classes=*/100);
      save_safetensors(file, nn::named_buffers(pretrained.state_dict()));
    }
    group->barrier().wait();
    nn::ConvNet module({context, DType::kFloat32, /*seed=*/0}, 1, 10);

    Safetensors weights = load_weights(file);
    std::erase_if(weights.tensors, [](const auto& each) { return each.name.starts_with("fc."); });
    const UnmatchedNames names = restore_tensors(
        file, weights, nn::named_buffers(module.state_dict()),
        {.skip_unmatched = true, .cast = FloatCast::kExact, .stream = context.stream()});

    using Names = std::vector<std::string>;
    expect(names.missing == Names{"fc.weight", "fc.bias"}, "the head is missing");
    expect(names.unexpected.empty(), "nothing else is in the file");
    for (nn::Parameter* parameter : module.parameters()) {
      parameter->set_requires_grad(parameter->name().starts_with("fc."));
    }
    nn::DistributedModule model(module, context, group, {.nominal_samples = 4});
    nn::Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1, .weight_decay = 0.1});
    for (nn::Module* each : module.modules()) {
      if (dynamic_cast<nn::BatchNorm*>(each) != nullptr) each->eval();
    }

    nn::Tape tape(context);
    const Tensor images = Tensor::zeros({4, 1, 12, 12}, DType::kFloat32);
    const Tensor labels = Tensor::zeros({4}, DType::kInt64);
    model.backward(tape, nn::softmax_cross_entropy(tape, model.forward(tape, images), labels), 4);
    optimizer.step();
    for (const NamedBuffer& tensor : nn::named_buffers(module.state_dict())) {
      const auto is_it = [&](const NamedBuffer& each) { return each.name == tensor.name; };
      const auto loaded = std::ranges::find_if(weights.tensors, is_it);
      if (loaded == weights.tensors.end()) continue;  // of the head
      const Buffer& now = tensor.buffer;
      expect(std::memcmp(loaded->buffer.data, now.data, now.size_bytes()) == 0,
             tensor.name + " is as it was loaded");
    }
    expect(model.engine().parameter_count() == 2, "the head's weight and bias");
  });
}

TEST_CASE("recipe: predictions of a trained model", "[recipe]") {
  const test::TemporaryDirectory directory;
  const std::filesystem::path file = directory / "model_best.safetensors";
  const std::string pixels = test::noise("images", 2 * 144);
  test::on_ranks(1, [&] {
    nn::Context context;
    const nn::ConvNet trained({context, DType::kFloat32, /*seed=*/1}, 1, 10);
    std::vector<NamedBuffer> saved = nn::named_buffers(trained.state_dict());
    float momentum = 0;
    saved.push_back({"optimizer.fc.bias.momentum_buffer", {1}, buffer_of(std::span(&momentum, 1))});
    save_safetensors(file, saved);
    const Tensor images =
        context.from_host<float>(std::vector<float>(pixels.begin(), pixels.end()), {2, 1, 12, 12});

    nn::ConvNet module({context, DType::kFloat32, /*seed=*/0}, /*channels=*/1, /*classes=*/10);
    const UnmatchedNames names = restore_tensors(
        file, load_weights(file), nn::named_buffers(module.state_dict()), {.skip_unmatched = true});
    if (!names.missing.empty()) throw FileError(file.string() + " has no " + names.missing[0]);
    module.eval();
    nn::Tape tape(context, nn::Recording::kOff);
    const Variable scores = module.forward(tape, images);
    const std::vector<float> values = context.to_host<float>(scores.value());  // 10 of each image
    for (std::size_t begin = 0; begin < values.size(); begin += 10) {
      const std::span row = std::span(values).subspan(begin, 10);
      std::printf("class %td\n", std::ranges::max_element(row) - row.begin());
    }

    expect(values.size() == 20, "ten scores for each image");
    expect(names.unexpected.size() == 1, "the optimizer's state");
  });
}

TEST_CASE("recipe: two models that train in turn", "[recipe]") {
  test::on_two_ranks([] {
    const auto group = init_process_group();
    nn::Context context(group->device());
    constexpr int kBatch = 4;
    nn::Linear maker({context, DType::kFloat32, /*seed=*/0}, 3, 2);
    nn::Linear judge({context, DType::kFloat32, /*seed=*/1}, 2, 1);
    const Tensor noise = context.from_host<float>(std::vector<float>(kBatch * 3, 1), {kBatch, 3});
    const Tensor real = context.from_host<float>(std::vector<float>(kBatch * 2, 2), {kBatch, 2});
    const Tensor ones = context.from_host<float>(std::vector<float>(kBatch, 1), {kBatch, 1});
    const Tensor zeros = Tensor::zeros({kBatch, 1}, DType::kFloat32);
    nn::Tape tape(context);
    const auto value_of = [&](const nn::Module& module) {
      return context.to_host<float>(module.parameters()[0]->value());
    };
    const std::vector<float> makers = value_of(maker), judges = value_of(judge);

    nn::DistributedModule generator(maker, context, group, {.nominal_samples = kBatch});
    nn::DistributedModule discriminator(judge, context, group, {.nominal_samples = kBatch});
    nn::Adam g_optimizer(context, generator.parameters(), {.learning_rate = 2e-4});
    nn::Adam d_optimizer(context, discriminator.parameters(), {.learning_rate = 2e-4});

    const Variable fake = generator.forward(tape, noise);
    const Variable of_real = nn::bce_with_logits(tape, discriminator.forward(tape, real), ones);
    const Variable of_fake =
        nn::bce_with_logits(tape, discriminator.forward(tape, fake.value()), zeros);
    discriminator.backward(tape, nn::add(tape, of_real, of_fake), kBatch);
    d_optimizer.step();

    expect(value_of(maker) == makers && value_of(judge) != judges, "the discriminator's turn");
    const std::vector<float> judged = value_of(judge);

    discriminator.set_requires_grad(false);
    const Variable made = discriminator.forward(tape, generator.forward(tape, noise));
    generator.backward(tape, nn::bce_with_logits(tape, made, ones), kBatch);
    discriminator.set_requires_grad(true);
    g_optimizer.step();

    expect(value_of(maker) != makers && value_of(judge) == judged, "the generator's turn");
  });
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
  restore_tensors(file, load_weights(file), nn::named_buffers(module.state_dict()),
                  {.cast = FloatCast::kExact, .stream = context.stream()});

  const auto values = [&](const nn::Module& of) {
    return context.to_host<float>(of.parameters().front()->value());
  };
  CHECK(values(module) == values(other));
}
