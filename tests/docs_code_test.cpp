// SPDX-License-Identifier: MIT
//
// The C++ of README.md, docs/engine.md and docs/checkpoints.md that stands in no example, each
// block as it is there, which docs_test.cpp sees to. What a block assumes is defined in front of
// it; what it must do is checked behind it.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "ddp/samplers/exact_sampler.h"
#include "support/files.h"
#include "support/groups.h"

using ddp::test::expect;

namespace {

using Group = std::shared_ptr<ddp::ProcessGroup>;

// The ranks of a job of two, as threads.
void on_two_ranks(const std::function<void(const Group&)>& fn) {
  ddp::test::run_groups(ddp::Backend::kShm, 2, [&](ddp::ProcessGroup& group) {
    fn(Group(&group, [](ddp::ProcessGroup*) {}));
  });
}

}  // namespace

TEST_CASE("README.md: your own trainer", "[docs]") {
  on_two_ranks([](const Group& group) {
    std::vector<float> weights(7840), biases(10);
    const ddp::Buffer weight = ddp::buffer_of(weights), bias = ddp::buffer_of(biases);
    const ddp::Stream stream;
    const double n = group->rank() == 0 ? 64 : 0;
    const int steps = 2;
    const auto write_gradient = [](std::size_t i, double factor, const ddp::Buffer& gradient) {
      ddp::fill(gradient, factor * static_cast<double>(i + 1));
    };

    ddp::DistributedDataParallel ddp(group, {{"weight", {10, 784}, weight}, {"bias", {10}, bias}},
                                     {.nominal_samples = 64});
    for (int step = 0; step < steps; ++step) {
      const double factor = ddp.begin_step({.samples = n});  // n: what this rank has, 0 is allowed
      for (const std::size_t i : {1, 0}) {                   // in the order of your backward pass
        write_gradient(i, factor, ddp.gradient(i));          // of factor * mean loss
        ddp.mark_ready(i, stream);                           // its bucket is reduced from now on
      }
      ddp.wait(stream);  // gradients are the global mean
      // your optimizer, on `stream`
    }

    expect(ddp.statistics().steps == 2, "two steps");
    expect(ddp.gradient(0).as<float>()[7839] == 1, "rank 0's gradient of the weight");
    expect(ddp.gradient(1).as<float>()[0] == 2, "rank 0's gradient of the bias");
  });
}

TEST_CASE("docs/engine.md: the life of a step", "[docs]") {
  on_two_ranks([](const Group& group) {
    std::vector<double> values(3);
    ddp::DistributedDataParallel ddp(group, {{"weight", {3}, ddp::buffer_of(values)}});
    const ddp::Stream stream;
    const double n = 1;
    const auto backward = [&](double factor) {
      ddp::fill(ddp.gradient(0), factor * group->rank());
      ddp.mark_ready(0, stream);
    };
    struct {
      int steps = 0;
      void step() { ++steps; }
    } optimizer;

    const double factor = ddp.begin_step({.samples = n});  // n / n_ref
    backward(factor);  // of factor * mean loss; for each gradient: ddp.mark_ready(i, stream)
    ddp.wait(stream);
    if (ddp.should_step()) optimizer.step();

    expect(optimizer.steps == 1, "a step of the optimizer");
    expect(ddp.gradient(0).as<double>()[2] == 0.5, "the mean of 0 and 1");
  });
}

TEST_CASE("docs/checkpoints.md: in your own trainer", "[docs]") {
  const ddp::test::TemporaryDirectory temporary;
  const std::string path = temporary / "run1";
  const ddp::Stream stream;
  std::vector<double> values(3);
  const std::vector<ddp::NamedBuffer> tensors = {{"weight", {3}, ddp::buffer_of(values)}};
  const auto train_epoch = [&](const ddp::EpochPlan&) { values[0] += 1; };
  for (const std::int64_t epochs : {2, 5}) {
    ddp::ExactSampler sampler({.dataset_size = 8});
    values[0] = 0;

    ddp::CheckpointDirectory directory({.path = path, .keep = 3});
    ddp::CheckpointWriter writer(directory);
    std::int64_t epoch = 0;
    if (const auto loaded = directory.load_newest()) {
      // `tensors` are names, shapes and buffers.
      ddp::restore_tensors(loaded->path, loaded->content, tensors, stream);
      epoch = std::stoll(loaded->content.metadata.at("epoch"));
      sampler.seek({.epoch = epoch, .consumed = 0});
    }
    for (; epoch < epochs; ++epoch) {
      train_epoch(sampler.next_epoch());
      writer.save({.name = {.epochs = epoch + 1, .step = {}},
                   .metadata = {{"epoch", std::to_string(epoch + 1)}}},
                  tensors, stream);
    }
    writer.finish();

    CHECK(values[0] == static_cast<double>(epochs));
  }
}
