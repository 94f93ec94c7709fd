// SPDX-License-Identifier: MIT
//
// Trains LeNet-5 in one process on several devices.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/nn/models/factory.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/data_parallel.h"
#include "support/differences.h"

namespace ddp::test {

inline nn::ModuleFactory factory(const char* name) {
  return [name](const nn::Scope& scope) { return nn::make_model(name, scope); };
}

struct LabelledImages {
  nn::Tensor images;
  nn::Tensor labels;
};

inline LabelledImages make_batch(nn::Context& context, std::size_t samples) {
  std::vector<double> pixels(samples * 784);
  std::vector<std::int64_t> labels(samples);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = ddp::random_unit(1, 2, i);
  for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<std::int64_t>(i % 10);
  return {context.from_host<double>(pixels, {samples, 784}),
          context.from_host<std::int64_t>(labels, {samples})};
}

inline nn::Variable cross_entropy(nn::Tape& tape, const nn::Variable& logits,
                                  const nn::Tensor& labels) {
  return nn::softmax_cross_entropy(tape, logits, labels);
}

enum class LossOn { kOutputDevice, kEachDevice };

// Where one process trains.
struct DataParallelPlaces {
  std::vector<Device> devices;
  std::size_t home = 0;        // the module's device, among these
  Device output = kCpuDevice;  // of the outputs, and of a loss computed from them
};

// Returns the parameters after some steps.
inline std::vector<double> train_on(const DataParallelPlaces& places, std::size_t samples,
                                    LossOn where) {
  nn::Context context(places.devices.at(places.home));
  nn::Context elsewhere(places.output);
  nn::Context& output = places.output == context.device() ? context : elsewhere;
  nn::DataParallel model(context, {context, DType::kFloat64, 7}, factory("lenet5"),
                         {.device_ids = places.devices});
  nn::Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  const LabelledImages batch = make_batch(context, samples);
  const nn::Tensor labels_at_output = make_batch(output, samples).labels;
  for (int step = 0; step < 5; ++step) {
    nn::Tape tape(output);
    const nn::Variable loss =
        where == LossOn::kEachDevice
            ? model.loss(tape, batch.images, batch.labels, cross_entropy)
            : cross_entropy(tape, model.forward(tape, batch.images), labels_at_output);
    CHECK(loss.value().device() == places.output);
    tape.backward(loss);
    optimizer.step();
  }
  std::vector<double> values;
  for (const nn::Parameter* parameter : model.parameters()) {
    const auto part = context.to_host<double>(parameter->value());
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

}  // namespace ddp::test
