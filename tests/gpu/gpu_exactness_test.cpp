// SPDX-License-Identifier: MIT
//
// Ranks on GPUs train to the same model as one rank on the whole batch. The last batch leaves the
// ranks with different numbers of samples. Under ddp-launch they share a GPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "ddp/nn/amp/grad_scaler.h"
#include "ddp/nn/models/lenet5.h"
#include "gpu/emulated.h"
#include "nccl_ranks.h"
#include "support/exact_training.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::ExactEpoch;
using test::expect;
using test::largest_relative_difference;
using test::run_nccl_ranks;
using test::Tensors;
using test::train_exactly;

namespace {

// Emulated GPUs are slow.
const std::vector<ExactEpoch> kEpochs = {{.model = "mlp"}, {.model = "lenet5", .samples = 55}};

// Trains on every rank alone, and then on all ranks together.
template <class T>
void check_equals_one_rank(const ExactEpoch& whole, const ExactEpoch& parts, double tolerance) {
  run_nccl_ranks(60s, [&](ProcessGroup& group, Stream) {
    const auto alone = init_process_group({.device = DeviceChoice::kCuda,
                                           .rank = 0,
                                           .world_size = 1,
                                           .local_rank = group.device().index});
    const Tensors expected = train_exactly<T>(*alone, whole);
    const double difference = largest_relative_difference(expected, train_exactly<T>(group, parts));
    expect(difference <= tolerance, whole.model + ": a relative difference of " +
                                        std::to_string(difference / tolerance) +
                                        " times what is allowed");
  });
}

}  // namespace

TEST_CASE("uneven batches give the same model as on one GPU", "[gpu][exactness]") {
  for (const ExactEpoch& epoch : kEpochs) check_equals_one_rank<double>(epoch, epoch, 1e-12);
}

TEST_CASE("uneven batches give the same model with synchronised batch norms", "[gpu][exactness]") {
  // The last batch has 3 samples or 1, so that a rank has none.
  const std::int64_t of_whole_batches = test::is_emulated() ? 16 : 24;
  for (const std::int64_t rest : {3, 1}) {
    const ExactEpoch epoch{.model = "convnet", .samples = of_whole_batches + rest};
    check_equals_one_rank<double>(epoch, epoch, 1e-12);
  }
}

TEST_CASE("uneven batches in several passes give the same model, even if some are empty",
          "[gpu][exactness]") {
  for (const ExactEpoch& epoch : kEpochs) {
    ExactEpoch in_passes = epoch;
    in_passes.passes = 3;
    check_equals_one_rank<double>(epoch, in_passes, 1e-12);
  }
}

// Libraries may sum in another order for each batch size, and a ReLU may then flip because of
// rounding; one flip changes the result by about 1e-3.
TEST_CASE("in float32 the model equals that of one GPU up to rounding", "[gpu][exactness]") {
  for (const ExactEpoch& epoch :
       {ExactEpoch{.model = "mlp", .samples = 79}, ExactEpoch{.model = "lenet5", .samples = 39}}) {
    check_equals_one_rank<float>(epoch, epoch, 1e-2);
  }
}

TEST_CASE("an overflow in float16 on one rank skips the step on all", "[gpu][exactness][amp]") {
  constexpr std::size_t kRows = 4;
  run_nccl_ranks(60s, [&](ProcessGroup& group, Stream) {
    nn::Context context(group.device());
    nn::LeNet5 module({context, DType::kFloat32, 1});
    nn::DistributedModule model(module, context, group.shared_from_this(),
                                {.nominal_samples = kRows, .non_finite = NonFinite::kSkip});
    nn::Sgd optimizer(context, module.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
    nn::GradScaler scaler({.initial_scale = 1024});
    model.scale_losses(scaler);
    nn::Tape tape(context, nn::Recording::kOn, DType::kFloat16);
    const nn::Tensor labels =
        context.from_host<std::int64_t>(std::vector<std::int64_t>{0, 1, 2, 3}, {kRows});
    const auto step = [&](float pixel) {
      const nn::Tensor images =
          context.from_host<float>(std::vector<float>(kRows * 784, pixel), {kRows, 784});
      const nn::Variable loss =
          nn::softmax_cross_entropy(tape, model.forward(tape, images), labels);
      model.backward(tape, loss, kRows);
      model.step(optimizer);
      std::vector<float> all;
      for (const nn::Parameter* parameter : module.parameters()) {
        const auto own = context.to_host<float>(parameter->value());
        all.insert(all.end(), own.begin(), own.end());
      }
      return all;
    };
    const bool is_last = group.rank() == group.world_size() - 1;
    const std::vector<float> before = step(0.5F);
    expect(step(is_last ? 1e6F : 0.5F) == before, "parameters are as they were");
    expect(scaler.scale() == 512, "the scale is halved");
    expect(model.engine().statistics().skipped_steps == 1, "one step was skipped");
    const std::vector<float> after = step(0.5F);
    expect(after != before, "the next step is taken");
    expect(std::ranges::all_of(after, [](float v) { return std::isfinite(v); }), "finite ones");
    std::vector<float> first = after;
    broadcast_on_host(group, buffer_of(first), 0);
    expect(first == after, "equal on all ranks, to the last bit");
  });
}
