// SPDX-License-Identifier: MIT
//
// Ranks on GPUs train to the same model as one rank on the whole batch. With 103 samples in batches
// of 8, the ranks have different numbers of samples. Under ddp-launch they share a GPU.
#include <catch2/catch.hpp>

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
  for (const char* name : {"mlp", "lenet5"}) {
    check_equals_one_rank<double>({.model = name}, {.model = name}, 1e-12);
  }
}

TEST_CASE("uneven batches give the same model with synchronised batch norms", "[gpu][exactness]") {
  const ExactEpoch epoch{.model = "convnet", .samples = 27};
  check_equals_one_rank<double>(epoch, epoch, 1e-12);
}

TEST_CASE("uneven batches in several passes give the same model, even if some are empty",
          "[gpu][exactness]") {
  for (const char* name : {"mlp", "lenet5"}) {
    check_equals_one_rank<double>({.model = name}, {.model = name, .passes = 3}, 1e-12);
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
