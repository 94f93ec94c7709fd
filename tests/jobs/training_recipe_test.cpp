// SPDX-License-Identifier: MIT
//
// The C++ of docs/training.md, models.md, data.md and checkpoints.md, whose blocks stand here, in
// training_recipe_parts_test.cpp, examples/spirals.cpp or docs_code_test.cpp as they are there
// (docs_test.cpp compares). Two ranks train on noise; what they must find is checked behind each
// block.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "ddp/io/summary_writer.h"
#include "ddp/nn/amp/grad_scaler.h"
#include "ddp/nn/modules/dropout.h"
#include "ddp/nn/named_buffers.h"
#include "ddp/nn/optim/weight_average.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "ddp/nn/parallel/sync_batch_norm.h"
#include "support/files.h"
#include "support/run_ranks.h"
#include "support/trainee.h"

using namespace ddp;
using nn::Tensor;
using nn::Variable;
using test::expect;
using test::images_of;
using test::labels_of;
using test::make_set;
using test::on_ranks;
using test::on_two_ranks;
using test::Trainee;

namespace {

double evaluate(ProcessGroup& group, nn::Context& context, nn::DistributedModule& model,
                const Dataset& test_set) {
  model.broadcast_buffers();
  model.eval();
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
    const Variable output = model.forward(tape, images_of(*batch));
    const Tensor count = nn::count_correct(context, output.value(), labels_of(*batch));
    correct += item(count.buffer(), context.stream());
  }
  all_reduce_on_host(group, {&correct, 1});
  model.train();
  return correct / static_cast<double>(test_set.size());
}

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
    nn::Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1, .momentum = 0.9});

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
        model.backward(tape, loss, *batch);
        optimizer.step();
      }
    }

    expect(model.engine().statistics().steps == 6, "three steps an epoch");
    const double accuracy = evaluate(*group, context, model, test_set);
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
      optimizer.step();
      return item(loss.buffer(), context.stream());
    };

    const double first = train_batch();
    expect(train_batch() < first, "a smaller loss");
    expect(model.module().parameters().front()->name() == "conv1.weight", "no prefix");

    {
      nn::Context output_context(devices.back());
      nn::Tape output_tape(output_context);
      const Variable output = model.forward(output_tape, images);

      expect(output.shape() == nn::Shape{5, 10}, "the outputs of all images");
    }

    const auto criterion = [](nn::Tape& on, const Variable& output, const Tensor& targets) {
      return nn::softmax_cross_entropy(on, output, targets);
    };
    const Variable loss = model.loss(tape, images, labels, criterion);
    tape.backward(loss);
    optimizer.step();

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
        model.accumulate(static_cast<int>(std::min(kAccumulate, left)));
      }
      const Variable output = model.forward(tape, images_of(*batch));
      const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));
      model.backward(tape, loss, *batch);
      if (model.is_synchronized()) optimizer.step();
    }

    expect(model.engine().statistics().passes == 3, "three batches");
    expect(model.engine().statistics().steps == 2, "and two steps, the last of one batch");
    loader.start(sampler.next_epoch());
    const auto backward = [&] { trainee.backward(); };

    {
      const auto no_sync = model.no_sync();
      backward();  // of the first batch: nothing is sent
    }
    backward();  // of the second one: the sum of both is reduced
    optimizer.step();

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
      model.backward(tape, loss, *batch);
      const Tensor norm = model.clip_grad_norm(1.0);
      optimizer.step();
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
    optimizer.step();
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

TEST_CASE("recipe: averaged weights", "[recipe]") {
  const ImageDataset test_set = make_set("test", 13);
  on_two_ranks([&] {
    Trainee trainee;
    auto& [train_set, group, context, module, model, optimizer, tape, sampler, loader, _] = trainee;
    const auto weights = [&] {
      return context.to_host<float>(module.parameters().front()->value());
    };

    nn::WeightAverage average(context, model.parameters(), {.decay = 0.999});

    for (int step = 0; step < 3; ++step) {
      trainee.backward();

      optimizer.step();
      average.update();
    }
    const std::vector<float> own = weights();

    average.swap();  // the model has the averages
    const double accuracy = evaluate(*group, context, model, test_set);
    average.swap();  // and its own weights again

    expect(std::abs(accuracy * 13 - std::round(accuracy * 13)) < 1e-9, "thirteenths");
    expect(weights() == own, "its own weights");
    average.swap();
    expect(weights() != own && trainee.is_in_step(), "averages, equal on all ranks");
  });
}

TEST_CASE("recipe: checkpoints and resume", "[recipe]") {
  const auto train_on_two_ranks = [](const std::filesystem::path& directory, int epochs) {
    on_two_ranks([&] {
      Trainee trainee;
      auto& [train_set, group, context, module, model, optimizer, tape, sampler, loader, _] =
          trainee;
      const ImageDataset test_set = make_set("test", 13);
      const auto train_epoch = [&] {
        loader.start(sampler.next_epoch());
        for (int step = 0; step < 3; ++step) {
          trainee.backward();
          optimizer.step();
        }
      };

      std::vector<NamedBuffer> tensors = nn::named_buffers(model.state_dict());
      std::ranges::move(nn::named_buffers(optimizer.state(), "optimizer."),
                        std::back_inserter(tensors));
      CheckpointDirectory checkpoints({.path = directory, .keep = 3});
      std::optional<CheckpointWriter> writer;

      int first_epoch = 0;
      double best = 0;
      on_rank0(*group, [&] {
        writer.emplace(checkpoints);  // from here on no other process writes there
        const auto newest = checkpoints.load_newest();
        if (!newest) return;
        restore_tensors(newest->path, newest->content, tensors, {.stream = context.stream()});
        first_epoch = newest->number<int>("epoch");
        best = newest->number<double>("best");
      });
      broadcast_on_host(*group, first_epoch, /*root=*/0);
      broadcast_tensors(*group, tensors, /*root=*/0, context.stream());
      sampler.set_epoch(first_epoch);
      model.engine().continue_after(first_epoch * sampler.plan({}).steps());

      for (int epoch = first_epoch; epoch < epochs; ++epoch) {
        train_epoch();
        const double accuracy = evaluate(*group, context, model, test_set);
        const bool is_best = accuracy > best;
        best = std::max(best, accuracy);
        const CheckpointInfo info{
            .name = {.epochs = epoch + 1, .step = {}},
            .metadata = {{"epoch", metadata_text(epoch + 1)}, {"best", metadata_text(best)}},
            .is_best = is_best};
        model.engine().wait_host();
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
  const std::string best = test::bytes_of(directory / "broken/model_best.safetensors");
  CHECK_FALSE(best.empty());
  CHECK((best == test::bytes_of(directory / "unbroken/model_best.safetensors")));
}

TEST_CASE("recipe: a stop, and a resume inside the epoch", "[recipe]") {
  constexpr int kEpochs = 2;
  constexpr std::int64_t kNever = -1;
  const auto train_on_two_ranks = [](const std::filesystem::path& directory,
                                     std::int64_t signal_before) {
    on_two_ranks([&] {
      Trainee trainee;
      auto& [train_set, group, context, module, model, optimizer, tape, sampler, loader, _] =
          trainee;
      std::vector<NamedBuffer> tensors = nn::named_buffers(model.state_dict());
      std::ranges::move(nn::named_buffers(optimizer.state(), "optimizer."),
                        std::back_inserter(tensors));
      CheckpointDirectory checkpoints({.path = directory});
      std::optional<CheckpointWriter> writer;

      SignalGuard signals;
      DataPosition position;  // of the next batch
      std::int64_t steps = 0;
      on_rank0(*group, [&] {
        writer.emplace(checkpoints);
        const auto newest = checkpoints.load_newest();
        if (!newest) return;
        restore_tensors(newest->path, newest->content, tensors, {.stream = context.stream()});
        position.epoch = newest->number<std::int64_t>("epoch");
        position.consumed = newest->number<std::int64_t>("consumed_samples");
        steps = newest->number<std::int64_t>("step");
      });
      for (std::int64_t* number : {&position.epoch, &position.consumed, &steps}) {
        broadcast_on_host(*group, *number, /*root=*/0);
      }
      broadcast_tensors(*group, tensors, /*root=*/0, context.stream());
      sampler.seek(position);
      model.engine().continue_after(steps);

      bool is_asked_to_stop = false;
      while (position.epoch < kEpochs && !is_asked_to_stop) {
        loader.start(sampler.next_epoch());
        while (const auto batch = loader.next(context.stream())) {
          if (steps == signal_before && group->rank() == 1) ::raise(SIGTERM);
          const Variable output = model.forward(tape, images_of(*batch));
          const Variable loss = nn::softmax_cross_entropy(tape, output, labels_of(*batch));

          StepOptions step = step_options(*batch);
          step.asks_to_stop = signals.stop_requested();
          model.backward(tape, loss, step);
          optimizer.step();
          ++steps;
          if (signals.take_report_request()) std::fputs(model.engine().report().c_str(), stdout);
          is_asked_to_stop = model.engine().stop_requested();  // the same on all ranks
          if (is_asked_to_stop) break;
        }

        position = loader.position();
        const bool is_inside = position.consumed > 0;
        const CheckpointInfo info{
            .name = {.epochs = position.epoch,
                     .step = is_inside ? std::optional(steps) : std::nullopt},
            .metadata = {{"epoch", metadata_text(position.epoch)},
                         {"consumed_samples", metadata_text(position.consumed)},
                         {"step", metadata_text(steps)}}};
        model.engine().wait_host();
        if (writer) writer->save(info, tensors, context.stream());
      }
      if (writer) writer->finish();

      const std::int64_t expected = signal_before == kNever ? kEpochs * 3 : signal_before + 1;
      expect(steps == expected, "all steps, or those up to the signal");
    });
  };
  const test::TemporaryDirectory directory;
  train_on_two_ranks(directory / "broken", 1);
  CHECK(std::filesystem::exists(directory / "broken/model_epoch_0_step_2.safetensors"));
  train_on_two_ranks(directory / "broken", 4);
  train_on_two_ranks(directory / "broken", kNever);
  train_on_two_ranks(directory / "unbroken", kNever);
  const std::string last = test::bytes_of(directory / "broken/model_epoch_2.safetensors");
  CHECK_FALSE(last.empty());
  CHECK((last == test::bytes_of(directory / "unbroken/model_epoch_2.safetensors")));
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
      const nn::StepMetric metrics[] = {{loss.value(), batch->count}, {correct, 1}};
      model.backward(tape, loss, *batch, metrics);
      optimizer.step();
      if (++step % 3 != 0) continue;
      const StepSummary totals = model.take_totals();  // of three steps and all ranks
      if (!writer) continue;
      writer->add_scalar("Loss/train", totals.metrics[0].mean(), step);
      writer->add_scalar("Accuracy/train", totals.metrics[1].sum / totals.samples, step);
    }

    expect(step == 3, "one line");
  });
  CHECK(test::entries_of(directory / "runs") == 1);
}
