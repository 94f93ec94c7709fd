// SPDX-License-Identifier: MIT
//
// The main job gives the same model on several ranks as on one rank with the whole batch, up to
// rounding in float32: on CPUs, and on a GPU that the ranks share.
#include <catch2/catch.hpp>

#include "support/relative_difference.h"
#include "support/train_runs.h"

using namespace ddp;
using test::Arguments;
using test::largest_relative_difference;
using test::train;
using test::operator+;

// After a number of steps, rounding in float32 flips a ReLU or a max-pool (docs/training.md). The
// number depends on the order in which a library for matrix products sums, which it chooses for the
// processor: with OpenBLAS it was more than 100 steps of mlp on one processor and between 80 and
// 100 on another, and with our own loops between 50 and 100. A GPU's library may choose another
// order for each batch size, and one flip changes the result by about 1e-3.
TEST_CASE("in float32 the results of ranks agree to rounding", "[parity]") {
  const test::TrainingSet set;
  const double tolerance = test::kRanksShareGpu ? 1e-2 : 1e-5;
  for (const Arguments& run : {Arguments{"--model", "mlp", "--max-steps", test::steps(20, 5)},
                               Arguments{"--model", "lenet5", "--max-steps", test::steps(10, 3)}}) {
    const Arguments flags = set.flags() + Arguments{"--global-batch-size", "120"} + run;
    const Safetensors alone = train(1, flags, "float32");
    for (const int ranks : test::several_ranks()) {
      INFO(flags.back() << " steps on " << ranks << " ranks");
      CHECK(largest_relative_difference<float>(alone, train(ranks, flags, "float32")) < tolerance);
    }
  }
}

TEST_CASE("--tf32 rounds on a GPU, and changes nothing on the CPU", "[parity]") {
  const test::TrainingSet set;
  const Arguments flags =
      set.flags() +
      Arguments{"--model", "lenet5", "--max-steps", "2", "--global-batch-size", "120"};
  const double difference = largest_relative_difference<float>(
      train(1, flags, "float32"), train(1, flags + Arguments{"--tf32"}, "float32"));
  CHECK((difference > 0) == test::kRanksShareGpu);
  CHECK(difference < 1e-2);
}

TEST_CASE("accumulated batches equal one large batch", "[parity]") {
  const test::TrainingSet set;
  const Arguments flags = set.flags() + Arguments{"--max-steps", test::steps(20, 5)};
  const Safetensors large = train(1, flags + Arguments{"--global-batch-size", "120"});
  for (const int ranks : {1, 2}) {
    INFO(ranks << " ranks");
    const Safetensors small =
        train(ranks, flags + Arguments{"--global-batch-size", "120", "--accumulate", "4"});
    CHECK(largest_relative_difference(large, small) < 1e-12);
  }
}

TEST_CASE("ddp-prove finds the same model with any number of ranks", "[parity]") {
  const test::TrainingSet set;
  const Arguments sharing = {"--tolerance", "0.01", "1,2", "--oversubscribe"};
  const Arguments prove = Arguments{DDP_PROVE_PATH} +
                          (test::kRanksShareGpu ? sharing : Arguments{"1,2,3"}) +
                          Arguments{DDP_TRAIN_PATH, "--device", DDP_JOB_DEVICE} + set.flags();
  test::ChildProcess right(prove + Arguments{"--model", "lenet5", "--global-batch-size", "64"});
  CHECK(right.wait(Timeout(100000)) == 0);
  CHECK_THAT(right.out(), Catch::Contains("the same model with any of these numbers of ranks"));
  test::ChildProcess wrong(prove + Arguments{"--model", "lenet5", "--batch-size", "64"});
  CHECK(wrong.wait(Timeout(100000)) == 1);
  CHECK_THAT(wrong.err(), Catch::Contains("samples: 64 with 1 rank, but 128 with 2 ranks"));
}
