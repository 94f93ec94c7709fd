// SPDX-License-Identifier: MIT
//
// The C++ of docs/training.md, whose every block stands here as it is there: the last test compares
// them. Two ranks train on noise; what they must find is checked behind each block.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/data/cifar10.h"
#include "ddp/data/data_loader.h"
#include "ddp/data/image_dataset.h"
#include "ddp/data/image_mask_folder.h"
#include "ddp/data/subset.h"
#include "ddp/ddp.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "ddp/io/summary_writer.h"
#include "ddp/nn/amp/grad_scaler.h"
#include "ddp/nn/models/convnet.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/models/resnet18.h"
#include "ddp/nn/modules/dropout.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/lr_schedule.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/nn/parallel/sync_batch_norm.h"
#include "ddp/samplers/exact_sampler.h"
#include "named_buffers.h"
#include "support/child_process.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/small_sets.h"

using namespace ddp;
using nn::Tensor;
using nn::Variable;
using test::expect;

namespace {

// Images of 12 x 12 in ten classes.
ImageDataset make_set(const std::string& name, std::size_t images) {
  const std::string pixels = test::noise(name, images * 144);
  const std::string labels = test::noise(name + " labels", images, 10);
  return ImageDataset({.shape = {1, 12, 12},
                       .pixels = {pixels.begin(), pixels.end()},
                       .labels = {labels.begin(), labels.end()},
                       .normalization = {{.mean = 0.5, .stddev = 0.25}}});
}

Tensor images_of(const Batch& batch) {
  return Tensor::view(batch.inputs, {static_cast<std::size_t>(batch.count), 1, 12, 12});
}

Tensor labels_of(const Batch& batch) { return Tensor::view(batch.labels, {batch.labels.count}); }

double evaluate(ProcessGroup& group, nn::Context& context, nn::DistributedModule& model,
                nn::Module& module, const Dataset& test_set) {
  model.engine().broadcast_buffers(context.stream());
  module.train(false);
  const ExactSampler sampler({.dataset_size = test_set.size(),
                              .world_size = group.world_size(),
                              .rank = group.rank(),
                              .global_batch_size = 256,
                              .shuffle = false});
  DataLoader loader(test_set, {.device = context.device()});
  loader.start(sampler.plan({}));
  nn::Tape tape(context, nn::Recording::kOff);
  double correct = 0;
  while (const auto batch = loader.next(context.stream())) {
    const Variable output = module.forward(tape, images_of(*batch));
    const Tensor count = nn::count_correct(context, output.value(), labels_of(*batch));
    correct += item(count.buffer(), context.stream());
  }
  all_reduce_on_host(group, {&correct, 1});
  module.train();
  return correct / static_cast<double>(test_set.size());
}

// fn on ranks that are processes, on the CPU. What it throws is thrown here. In this process
// nothing is computed, since what starts threads (a convolution does) cannot be forked any more.
void on_ranks(int ranks, const std::function<void()>& fn) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  spawn(
      [&](int) {
        ::signal(SIGTERM, SIG_DFL);  // Catch2 would tell it as a failed test
        fn();
      },
      ranks);
}

void on_two_ranks(const std::function<void()>& fn) { on_ranks(2, fn); }

// What the parts of the recipe below begin with.
struct Trainee {
  explicit Trainee(const DdpOptions& options = {.nominal_samples = 4},
                   std::optional<DType> amp = std::nullopt)
      : model(module, context, group, options), tape(context, nn::Recording::kOn, amp) {
    loader.start(sampler.next_epoch());
  }

  // Of the next batch.
  void backward() {
    batch = loader.next(context.stream());
    const Variable output = model.forward(tape, images_of(*batch));
    const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));
    model.backward(tape, loss, static_cast<double>(batch->count));
  }
  // Whether all ranks have the same parameters.
  [[nodiscard]] bool is_in_step() const {
    std::vector<double> sum(1);
    for (const nn::Parameter* parameter : module.parameters()) {
      for (const float value : parameter->value().buffer().as<float>()) sum[0] += value;
    }
    std::vector<double> sums(2);
    all_gather_on_host(*group, buffer_of(sum), buffer_of(sums));
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

}  // namespace

TEST_CASE("recipe: distributed data parallel", "[recipe]") {
  const ImageDataset train_set = make_set("train", 40);
  const ImageDataset test_set = make_set("test", 13);
  on_two_ranks([&] {
    constexpr int kEpochs = 2;
    constexpr std::int64_t kBatch = 8;  // of a rank

    const auto group = init_process_group();
    nn::Context context(group->device());
    nn::ConvNet module({context, DType::kFloat32, /*seed=*/0}, /*channels=*/1, /*classes=*/10);
    nn::DistributedModule model(module, context, group, {.nominal_samples = kBatch});
    nn::Sgd optimizer(context, module.parameters(), {.learning_rate = 0.1, .momentum = 0.9});

    ExactSampler sampler({.dataset_size = train_set.size(),
                          .world_size = group->world_size(),
                          .rank = group->rank(),
                          .global_batch_size = kBatch * group->world_size(),
                          .seed = 0});
    DataLoader loader(train_set, {.device = group->device(), .num_workers = 2});

    nn::Tape tape(context);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      loader.start(sampler.next_epoch());
      while (const auto batch = loader.next(context.stream())) {
        const Variable output = model.forward(tape, images_of(*batch));
        const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));
        model.backward(tape, loss, static_cast<double>(batch->count));
        model.step(optimizer);
      }
    }

    expect(model.engine().statistics().steps == 6, "three steps an epoch");
    const double accuracy = evaluate(*group, context, model, module, test_set);
    expect(std::abs(accuracy * 13 - std::round(accuracy * 13)) < 1e-9, "thirteenths");
  });
}

TEST_CASE("recipe: nn.DataParallel", "[recipe]") {
  on_ranks(1, [] {
    const std::vector<Device> devices(2, kCpuDevice);
    nn::Context host;
    const ImageDataset set = make_set("train", 5);
    std::vector<float> pixels(5 * 144);
    std::vector<std::int64_t> classes(5);
    set.gather(std::vector<std::int64_t>{0, 1, 2, 3, 4}, buffer_of(pixels), buffer_of(classes));
    const Tensor images = host.from_host<float>(pixels, {5, 1, 12, 12});
    const Tensor labels = host.from_host<std::int64_t>(classes, {5});

    nn::Context context(devices.front());
    const nn::ModuleFactory make = [](const nn::Scope& scope) {
      return std::make_unique<nn::ConvNet>(scope, 1, 10);
    };
    nn::DataParallel model(context, {context, DType::kFloat32, /*seed=*/0}, make,
                           {.device_ids = devices});
    nn::Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1});
    nn::Tape tape(context);
    const auto train_batch = [&] {
      const Variable output = model.forward(tape, images);
      const Variable loss = nn::softmax_cross_entropy(tape, output, labels);
      tape.backward(loss);
      optimizer.step(nullptr);
      return item(loss.buffer(), context.stream());
    };

    const double first = train_batch();
    expect(train_batch() < first, "a smaller loss");
    expect(model.module().parameters().front()->name() == "conv1.weight", "no prefix");

    const auto criterion = [](nn::Tape& on, const Variable& output, const Tensor& targets) {
      return nn::softmax_cross_entropy(on, output, targets);
    };
    const Variable loss = model.loss(tape, images, labels, criterion);
    tape.backward(loss);
    optimizer.step(nullptr);

    expect(item(loss.buffer()) < first, "a smaller loss");
  });
}

TEST_CASE("recipe: gradient accumulation", "[recipe]") {
  on_two_ranks([] {
    Trainee trainee;
    auto& [train_set, group, context, module, model, optimizer, tape, sampler, loader, _] = trainee;

    constexpr std::int64_t kAccumulate = 2;
    while (const auto batch = loader.next(context.stream())) {
      if (batch->step % kAccumulate == 0) {
        const std::int64_t left = loader.plan().steps() - batch->step;
        model.engine().accumulate(static_cast<int>(std::min(kAccumulate, left)));
      }
      const Variable output = model.forward(tape, images_of(*batch));
      const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));
      model.backward(tape, loss, static_cast<double>(batch->count));
      if (model.engine().is_synchronized()) model.step(optimizer);
    }

    expect(model.engine().statistics().passes == 3, "three batches");
    expect(model.engine().statistics().steps == 2, "and two steps, the last of one batch");
    loader.start(sampler.next_epoch());
    const auto backward = [&] { trainee.backward(); };

    {
      const auto no_sync = model.engine().no_sync();
      backward();  // of the first batch: nothing is sent
    }
    backward();  // of the second one: the sum of both is reduced
    model.step(optimizer);

    expect(model.engine().statistics().steps == 3, "one step of two passes");
    expect(trainee.is_in_step(), "equal parameters");
  });
}

TEST_CASE("recipe: mixed precision", "[recipe]") {
  on_two_ranks([] {
    const ImageDataset train_set = make_set("train", 24);
    const auto group = init_process_group();
    nn::Context context(group->device());
    nn::ConvNet module({context, DType::kFloat32, 0}, 1, 10);
    nn::Sgd optimizer(context, module.parameters(), {.learning_rate = 0.1});
    ExactSampler sampler({.dataset_size = 24,
                          .world_size = group->world_size(),
                          .rank = group->rank(),
                          .global_batch_size = 8});
    DataLoader loader(train_set, {});
    loader.start(sampler.next_epoch());

    nn::DistributedModule model(module, context, group,
                                {.nominal_samples = 4, .non_finite = NonFinite::kSkip});
    nn::GradScaler scaler;
    model.scale_losses(scaler);
    nn::Tape tape(context, nn::Recording::kOn, DType::kFloat16);
    while (const auto batch = loader.next(context.stream())) {
      const Variable output = model.forward(tape, images_of(*batch));
      const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));
      model.backward(tape, loss, static_cast<double>(batch->count));
      const Tensor norm = model.clip_grad_norm(1.0);
      model.step(optimizer);
    }

    expect(scaler.scale() > 0 && scaler.scale() <= 65536, "a scale");
    expect(module.parameters().front()->value().dtype() == DType::kFloat32, "master weights");
  });
}

TEST_CASE("recipe: synchronised batch norm, and dropout", "[recipe]") {
  on_two_ranks([] {
    Trainee trainee;
    auto& [train_set, group, context, module, model, optimizer, tape, sampler, loader, _] = trainee;

    nn::convert_sync_batchnorm(module, *group);

    expect(nn::convert_sync_batchnorm(module, *group) == 3, "three batch norms");
    trainee.backward();
    model.step(optimizer);
    std::vector<float> means(64);  // both ranks'
    const auto mean =
        std::ranges::find(module.buffers(), "bn1.running_mean", &nn::NamedTensor::name);
    all_gather_on_host(*group, mean->value.buffer(), buffer_of(means));
    expect(std::equal(means.begin(), means.begin() + 32, means.begin() + 32), "equal statistics");
    expect(trainee.is_in_step(), "equal parameters");

    nn::Dropout dropout({context, DType::kFloat32, 0}, 0.5);
    const std::uint64_t step = 7;
    const Tensor x = Tensor::zeros({4, 10}, DType::kFloat32);

    tape.set_random_key({.seed = 0,
                         .step = step,
                         .first_row = static_cast<std::uint64_t>(group->rank()),
                         .row_stride = static_cast<std::uint64_t>(group->world_size())});
    const Variable y = dropout.forward(tape, x);

    expect(y.shape() == x.shape(), "a value for each");
  });
}

TEST_CASE("recipe: checkpoints and resume", "[recipe]") {
  const auto train_on_two_ranks = [](const std::filesystem::path& directory, int epochs) {
    on_two_ranks([&] {
      Trainee trainee;
      auto& [train_set, group, context, module, model, optimizer, tape, sampler, loader, _] =
          trainee;
      const auto train_epoch = [&] {
        loader.start(sampler.next_epoch());
        for (int step = 0; step < 3; ++step) {
          trainee.backward();
          model.step(optimizer);
        }
      };

      std::vector<NamedBuffer> tensors = train::named_buffers(module.state_dict());
      std::ranges::move(train::named_buffers(optimizer.state(), "optimizer."),
                        std::back_inserter(tensors));
      CheckpointDirectory checkpoints({.path = directory, .keep = 3});

      int first_epoch = 0;
      on_rank0(*group, [&] {
        const auto newest = checkpoints.load_newest();
        if (!newest) return;
        restore_tensors(newest->path, newest->content, tensors, context.stream());
        first_epoch = std::stoi(newest->content.metadata.at("epoch"));
      });
      broadcast_on_host(*group, {&first_epoch, 1, DType::kInt32}, /*root=*/0);
      for (const NamedBuffer& tensor : tensors) broadcast_on_host(*group, tensor.buffer, 0);
      sampler.set_epoch(first_epoch);

      std::optional<CheckpointWriter> writer;  // one process writes
      if (group->rank() == 0) writer.emplace(checkpoints);
      double best = 0;
      for (int epoch = first_epoch; epoch < epochs; ++epoch) {
        train_epoch();
        const double accuracy = evaluate(*group, context, model, module, train_set);
        const CheckpointInfo info{.name = {.epochs = epoch + 1, .step = {}},
                                  .metadata = {{"epoch", std::to_string(epoch + 1)}},
                                  .is_best = accuracy > best};
        best = std::max(best, accuracy);
        if (writer) writer->save(info, tensors, context.stream());
      }
      if (writer) writer->finish();

      expect(trainee.is_in_step(), "equal parameters");
    });
  };
  const test::TemporaryDirectory directory;
  train_on_two_ranks(directory / "broken", 2);
  train_on_two_ranks(directory / "broken", 3);
  train_on_two_ranks(directory / "unbroken", 3);
  const std::string last = test::bytes_of(directory / "broken/model_epoch_3.safetensors");
  CHECK_FALSE(last.empty());
  CHECK((last == test::bytes_of(directory / "unbroken/model_epoch_3.safetensors")));
  CHECK(std::filesystem::exists(directory / "broken/model_best.safetensors"));
}

TEST_CASE("recipe: loss and accuracy over ranks, for TensorBoard", "[recipe]") {
  const test::TemporaryDirectory directory;
  on_two_ranks([&] {
    Trainee trainee;
    auto& [train_set, group, context, module, model, optimizer, tape, sampler, loader, _] = trainee;

    std::optional<SummaryWriter> writer;
    if (group->rank() == 0) writer.emplace(directory / "runs");
    std::int64_t step = 0;
    while (const auto batch = loader.next(context.stream())) {
      const Variable output = model.forward(tape, images_of(*batch));
      const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));
      const Tensor correct = nn::count_correct(context, output.value(), labels_of(*batch));
      const auto n = static_cast<double>(batch->count);
      const nn::StepMetric metrics[] = {{loss.value(), n}, {correct, 1}};
      model.backward(tape, loss, n, metrics);
      model.step(optimizer);
      if (++step % 3 != 0) continue;
      const StepSummary totals = model.engine().take_totals();  // of three steps and all ranks
      if (!writer) continue;
      writer->add_scalar("Loss/train", totals.metrics[0].mean(), step);
      writer->add_scalar("Accuracy/train", totals.metrics[1].sum / totals.samples, step);
    }

    expect(step == 3, "one line");
  });
  CHECK(test::entries_of(directory / "runs") == 1);
}

TEST_CASE("recipe: optimizers and learning rates", "[recipe]") {
  on_two_ranks([] {
    Trainee trainee;
    auto& [train_set, group, context, module, model, sgd, tape, sampler, loader, _] = trainee;

    const std::int64_t global_batch = 4 * group->world_size();
    const nn::DecaySplit split = nn::split_by_decay(module.parameters());
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
    model.step(optimizer);

    expect(std::abs(optimizer.learning_rate() - 1e-3 * 8 / 256 * 0.55) < 1e-12, "the rate");
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
  std::vector<NamedBuffer> wrapped = train::named_buffers(other.state_dict(), "module.");
  save_safetensors(file, wrapped);

  nn::ResNet18 module({context, DType::kFloat32, /*seed=*/0}, /*channels=*/3, /*classes=*/10);
  restore_tensors(file, load_safetensors(file), train::named_buffers(module.state_dict()));

  const auto values = [&](const nn::Module& of) {
    return context.to_host<float>(of.parameters().front()->value());
  };
  CHECK(values(module) == values(other));
}

namespace {

std::vector<std::string> lines_without_indents(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    lines.push_back(begin == std::string::npos ? "" : line.substr(begin));
  }
  return lines;
}

}  // namespace

TEST_CASE("the C++ of docs/training.md stands in this file", "[recipe][docs]") {
  const std::vector<std::string> source = lines_without_indents(__FILE__);
  const std::vector<std::string> text = lines_without_indents(DDP_TRAINING_GUIDE);
  int blocks = 0;
  for (auto at = text.begin(); (at = std::find(at, text.end(), "```cpp")) != text.end(); ++blocks) {
    const auto begin = at + 1;
    at = std::find(begin, text.end(), "```");
    INFO("block at line " << begin - text.begin());
    CHECK(std::search(source.begin(), source.end(), begin, at) != source.end());
  }
  CHECK(blocks >= 12);
}
