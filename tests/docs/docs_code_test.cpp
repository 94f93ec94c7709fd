// SPDX-License-Identifier: MIT
//
// The C++ of README.md and docs/ that stands in no example, each block as it is there, which
// docs_test.cpp sees to. What a block assumes is defined in front of it; what it must do is checked
// behind it.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/ddp.h"
#include "ddp/io/checkpoint_file.h"
#include "ddp/io/checkpoint_writer.h"
#include "ddp/samplers/exact_sampler.h"
#include "ddp/store/hash_store.h"
#include "support/files.h"
#include "support/groups.h"

using ddp::test::expect;

namespace {

using Group = std::shared_ptr<ddp::ProcessGroup>;

// The ranks of a job of two, as threads.
void on_two_ranks(const std::function<void(const Group&)>& fn) {
  ddp::test::run_groups(ddp::Backend::kShm, 2,
                        [&](ddp::ProcessGroup& group) { fn(group.shared_from_this()); });
}

}  // namespace

TEST_CASE("docs/training.md: accumulation on raw arrays", "[docs]") {
  on_two_ranks([](const Group& group) {
    std::vector<float> weight(3), gradients(3);
    ddp::DistributedDataParallel ddp(
        group, {{"weight", {3}, ddp::buffer_of(weight), ddp::buffer_of(gradients)}},
        {.nominal_samples = 1});
    const int batches = 5, k = 2;
    const double n = 1;
    const auto backward = [&](double factor) {
      for (float& each : gradients) each += static_cast<float>(factor);
      ddp.mark_ready(0);
    };
    std::vector<float> means;
    const auto update_parameters = [&] {
      means.push_back(gradients.front());
      weight.front() += 1;
    };
    for (int i = 0; i < batches; ++i) {
      if (i % k == 0) ddp.accumulate(std::min(k, batches - i));  // passes of this step
      const bool is_first = ddp.is_synchronized();               // ask before begin_step
      const double factor = ddp.begin_step({.samples = n});
      if (is_first) std::fill(gradients.begin(), gradients.end(), 0.0F);
      backward(factor);  // adds to the gradients, and marks them in each pass
      ddp.wait();
      if (ddp.should_step()) update_parameters();
    }
    expect(means == std::vector<float>{1, 1, 1}, "the mean of each step");
  });
}

TEST_CASE("docs/collectives.md: ranks as threads of a test", "[docs]") {
  const std::size_t ranks = 3;
  std::atomic<int> sum = 0;
  const auto test_body = [&](const Group& group) {
    sum += group->rank() + 10 * group->world_size();
    if (group->rank() == 1) throw std::runtime_error("rank 1 fails");
  };
  const auto store = std::make_shared<ddp::HashStore>();  // ddp/store/hash_store.h
  std::vector<std::exception_ptr> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        test_body(ddp::init_process_group({.rank = static_cast<int>(rank),
                                           .world_size = static_cast<int>(ranks),
                                           .store = store,
                                           .ranks_are_threads = true}));
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sum == 93);
  CHECK((!errors[0] && errors[1] && !errors[2]));
}

TEST_CASE("README.md: your own trainer", "[docs]") {
  on_two_ranks([](const Group& group) {
    const ddp::Stream stream;
    const double n = group->rank() == 0 ? 64 : 0;
    const int steps = 2;
    const auto write_gradient = [](std::size_t i, double factor, const ddp::Buffer& gradient) {
      ddp::fill(gradient, factor * static_cast<double>(i + 1));
    };
    int updates = 0;
    const auto update_parameters = [&](ddp::Stream) { ++updates; };

    std::vector<float> weight(10 * 784), bias(10);  // your model's memory, which must stay there
    ddp::DistributedDataParallel ddp(
        group,
        {{"weight", {10, 784}, ddp::buffer_of(weight)}, {"bias", {10}, ddp::buffer_of(bias)}},
        {.nominal_samples = 64});  // a rank's usual batch
    for (int step = 0; step < steps; ++step) {
      const double factor = ddp.begin_step({.samples = n});  // n: what this rank has, 0 is allowed
      for (const std::size_t i : {1UL, 0UL}) {               // in the order of your backward pass
        write_gradient(i, factor, ddp.gradient(i));          // of factor * mean loss; overwrites
        ddp.mark_ready(i, stream);                           // its bucket is reduced from now on
      }
      ddp.wait(stream);                                  // gradients are the global mean
      if (ddp.should_step()) update_parameters(stream);  // your optimizer
    }

    expect(updates == steps, "two updates");
    expect(ddp.statistics().steps == 2, "two steps");
    expect(ddp.gradient(0).as<float>()[7839] == 1, "rank 0's gradient of the weight");
    expect(ddp.gradient(1).as<float>()[0] == 2, "rank 0's gradient of the bias");
  });
}

TEST_CASE("docs/collectives.md: the first lines", "[docs]") {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // one rank, on the CPU

  const auto group = ddp::init_process_group();
  std::vector<float> values(1000, static_cast<float>(group->rank() + 1));
  group->all_reduce(ddp::buffer_of(values)).wait();                           // their sum
  group->all_reduce(ddp::buffer_of(values), ddp::ReduceOp::kAverage).wait();  // their mean

  CHECK(values[999] == 1);
}

TEST_CASE("docs/collectives.md: work and streams, several at once, groups", "[docs]") {
  on_two_ranks([](const Group& group) {
    std::vector<float> values(3, 1), own(2, static_cast<float>(group->rank())), theirs(2);
    const ddp::Buffer gradients = ddp::buffer_of(values);
    const ddp::Stream stream;
    const auto compute_something_else = [] {};

    const ddp::Work sum = group->all_reduce(gradients, ddp::ReduceOp::kSum, stream);
    compute_something_else();
    sum.wait(stream);  // what `stream` holds from here on sees the sum

    expect(values[2] == 2, "the sum");

    const int next = (group->rank() + 1) % group->world_size();
    const int previous = (group->rank() + group->world_size() - 1) % group->world_size();
    auto batch = group->batch();
    (void)group->send(ddp::buffer_of(own), next);
    (void)group->recv(ddp::buffer_of(theirs), previous);
    batch.end().wait();

    expect(theirs[1] == static_cast<float>(previous), "the neighbour's");

    const auto half = group->split(/*color=*/group->rank() % 2, /*key=*/group->rank());
    if (half != nullptr) half->all_reduce(ddp::buffer_of(values)).wait();
    const auto metrics = group->duplicate();  // its operations do not queue behind the other's

    expect(half->world_size() == 1 && values[0] == 2, "a group of one");
    expect(metrics->world_size() == 2, "a group of both");
  });
}

TEST_CASE("docs/collectives.md: text, and timeouts", "[docs]") {
  on_two_ranks([](const Group& group) {
    const std::string text = "rank " + std::to_string(group->rank());

    const std::vector<std::string> texts = ddp::all_gather_text(*group, text);
    const std::string first = ddp::broadcast_text(*group, text, /*root=*/0);

    expect(texts == std::vector<std::string>{"rank 0", "rank 1"}, "everybody's text");
    expect(first == "rank 0", "the root's text");

    {
      const ddp::ScopedTimeout patience(*group, std::chrono::minutes(30));
      group->barrier().wait();  // the first of a job whose rank 0 prepares the data
    }

    std::vector<float> values(1, 1);

    const ddp::ScopedLabel label(*group, "validation loss");
    group->all_reduce(ddp::buffer_of(values)).wait();  // "all_reduce #9 (validation loss)"

    expect(values[0] == 2, "the sum");
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
  on_two_ranks([&](const Group& group) {
    const ddp::Stream stream;
    std::vector<double> values(3);
    const std::vector<ddp::NamedBuffer> tensors = {{"weight", {3}, ddp::buffer_of(values)}};
    const auto train_epoch = [&](const ddp::EpochPlan&) { values[0] += 1; };
    for (const std::int64_t epochs : {2, 5}) {
      ddp::ExactSampler sampler(
          {.dataset_size = 8, .world_size = group->world_size(), .rank = group->rank()});
      ddp::DistributedDataParallel ddp(group, {{"weight", {3}, ddp::buffer_of(values)}});
      values[0] = 0;

      ddp::CheckpointDirectory directory({.path = path, .keep = 3});
      std::optional<ddp::CheckpointWriter> writer;
      std::int64_t epoch = 0;
      ddp::on_rank0(*group, [&] {
        writer.emplace(directory);  // from here on no other process writes there
        const auto loaded = directory.load_newest();
        if (!loaded) return;
        // `tensors` are names, shapes and buffers: of parameters, optimizer state, ...
        ddp::restore_tensors(loaded->path, loaded->content, tensors, {.stream = stream});
        epoch = loaded->number<std::int64_t>("epoch");
      });
      ddp::broadcast_on_host(*group, epoch, /*root=*/0);
      ddp::broadcast_tensors(*group, tensors, /*root=*/0, stream);
      sampler.set_epoch(epoch);
      ddp.continue_after(epoch * sampler.plan({}).steps());

      for (; epoch < epochs; ++epoch) {
        train_epoch(sampler.next_epoch());  // with writer->check() in each step, for a full disk
        ddp.wait_host();
        if (!writer) continue;
        writer->save(
            {.name = {.epochs = epoch + 1}, .metadata = {{"epoch", ddp::metadata_text(epoch + 1)}}},
            tensors, stream);
      }
      if (writer) writer->finish();

      expect(values[0] == static_cast<double>(epochs), "each epoch once, on each rank");
    }
  });
}
