// SPDX-License-Identifier: MIT
//
// A dataset that no number of ranks divides evenly gives the same model on any number of ranks.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support/exact_training.h"
#include "support/groups.h"

using namespace ddp;
using test::ExactEpoch;
using test::largest_relative_difference;
using test::Tensors;

namespace {

template <class T>
Tensors train(Backend backend, int world_size, const ExactEpoch& epoch) {
  Tensors parameters;
  test::run_groups(backend, world_size, [&](ProcessGroup& group) {
    const Tensors own = test::train_exactly<T>(group, epoch);
    if (group.rank() == 0) parameters = own;
  });
  return parameters;
}

}  // namespace

TEST_CASE("a model with a NaN differs from every other one", "[exactness]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensors sound = {{1, 2}, {0}}, broken = {{1, nan}, {0}};
  CHECK(largest_relative_difference(sound, sound) == 0);
  CHECK(std::isnan(largest_relative_difference(sound, broken)));
  CHECK(std::isnan(largest_relative_difference(broken, sound)));
  CHECK(std::isnan(largest_relative_difference(broken, broken)));
}

TEST_CASE("103 samples in batches of 8 give the same model on 1 to 4 ranks", "[exactness]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  for (const char* name : {"mlp", "lenet5"}) {
    if (backend != Backend::kShm && name == std::string("lenet5")) continue;  // it takes seconds
    const Tensors alone = train<double>(backend, 1, {.model = name});
    for (const int world_size : {2, 3, 4}) {
      INFO(name << " on " << world_size << " ranks over " << to_string(backend));
      const Tensors parts = train<double>(backend, world_size, {.model = name});
      CHECK(largest_relative_difference(alone, parts) <= 1e-12);
    }
  }
}

TEST_CASE("models with synchronised batch norms are the same on 1 to 4 ranks", "[exactness]") {
  const Backend backend = GENERATE(from_range(test::backends()));
  const Tensors alone = train<double>(backend, 1, {.model = "convnet", .samples = 27});
  for (const int world_size : {2, 3, 4}) {
    INFO(world_size << " ranks over " << to_string(backend));
    const Tensors parts = train<double>(backend, world_size, {.model = "convnet", .samples = 27});
    CHECK(largest_relative_difference(alone, parts) <= 1e-12);
  }
}

TEST_CASE("a step of several passes equals a step of one", "[exactness]") {
  for (const char* name : {"mlp", "lenet5"}) {
    const Tensors whole = train<double>(Backend::kShm, 1, {.model = name});
    for (const int world_size : {1, 2, 3, 4}) {
      INFO(name << " on " << world_size << " ranks");
      const Tensors parts = train<double>(Backend::kShm, world_size, {.model = name, .passes = 3});
      CHECK(largest_relative_difference(whole, parts) <= 1e-12);
    }
  }
}

TEST_CASE("in float32 the models of 1 to 4 ranks are equal to rounding", "[exactness]") {
  // Few enough steps that rounding does not yet flip a ReLU or a max-pool (docs/training.md).
  for (const ExactEpoch& epoch :
       {ExactEpoch{.model = "mlp", .samples = 799}, ExactEpoch{.model = "lenet5", .samples = 79}}) {
    const Tensors alone = train<float>(Backend::kShm, 1, epoch);
    for (const int world_size : {2, 3, 4}) {
      INFO(epoch.model << " on " << world_size << " ranks");
      const Tensors parts = train<float>(Backend::kShm, world_size, epoch);
      CHECK(largest_relative_difference(alone, parts) <= 1e-5);
    }
  }
}
