// SPDX-License-Identifier: MIT
//
// Two ranks with half of each batch train as real PyTorch does in one process with all of it.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "ddp/nn/parallel/sync_batch_norm.h"
#include "support/groups.h"
#include "support/reference_model.h"

using namespace ddp;
using test::ReferenceModel;

namespace {

constexpr int kRanks = 2;
constexpr std::size_t kHalf = ReferenceModel::kRows / kRanks;

// The losses of the whole batches, before each step.
std::vector<double> losses_on_two_ranks(const ReferenceModel& subject) {
  std::vector<double> losses;
  test::run_groups(Backend::kShm, kRanks, [&](ProcessGroup& group) {
    nn::Context context(group.device());
    const auto module = subject.make(context);
    (void)nn::convert_sync_batchnorm(*module, group);
    nn::DistributedModule model(*module, context, group.shared_from_this(),
                                {.nominal_samples = kHalf});
    nn::Sgd sgd(context, model.parameters(),
                {.learning_rate = subject.learning_rate, .momentum = 0.9});
    const auto rank = static_cast<std::size_t>(group.rank());
    for (std::size_t step = 0; step < subject.steps(); ++step) {
      nn::Tape tape(context);
      const nn::Variable loss =
          subject.loss(tape, model, step, {.first = rank * kHalf, .count = kHalf});
      std::vector<double> sum = {test::to_doubles(context, loss.value()).front()};
      group.all_reduce(buffer_of(sum)).wait();
      model.backward(tape, loss, kHalf);
      sgd.step();
      if (rank == 0) losses.push_back(sum[0] / kRanks);
    }
  });
  return losses;
}

}  // namespace

TEST_CASE("the first ten losses of the models on two ranks equal PyTorch's", "[exactness][torch]") {
  const test::Reference reference =
      test::read_reference(DDP_REFERENCE_DIR "/models_reference.txt", 3);
  for (const ReferenceModel& subject : test::reference_models()) {
    const std::vector<double> losses = losses_on_two_ranks(subject);
    REQUIRE(losses.size() == subject.steps());
    for (std::size_t step = 0; step < losses.size(); ++step) {
      const std::string key = subject.key(std::to_string(step));
      CAPTURE(key);
      CHECK(losses[step] == Approx(reference.at(key).front()).epsilon(0).margin(subject.tolerance));
    }
  }
}
