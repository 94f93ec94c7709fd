// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/groups.h"

namespace ddp::test {

// A model of three parameters, whose values belong to the test.
struct Model {
  explicit Model(int rank, DType dtype = DType::kFloat64) {
    for (const std::size_t count : {std::size_t{300}, std::size_t{7}, std::size_t{2}}) {
      values.emplace_back(count, static_cast<double>(rank));
    }
    parameters = {{"fc1.weight", {30, 10}, buffer_of(values[0])},
                  {"fc1.bias", {7}, buffer_of(values[1])},
                  {"fc2.weight", {1, 2}, buffer_of(values[2])}};
    for (Parameter& parameter : parameters) parameter.value.dtype = dtype;
  }

  std::vector<std::vector<double>> values;
  std::vector<Parameter> parameters;
};

inline void write_gradient(DistributedDataParallel& ddp, std::size_t i, double value) {
  const std::span<double> gradient = ddp.gradient(i).as<double>();
  std::fill(gradient.begin(), gradient.end(), value);
}

inline void expect_gradients(DistributedDataParallel& ddp, double wanted) {
  for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
    for (const double value : ddp.gradient(i).as<double>()) {
      expect(std::abs(value - wanted) < 1e-12, std::to_string(wanted) + " in gradient " +
                                                   std::to_string(i) + ", not " +
                                                   std::to_string(value));
    }
  }
}

inline void mark_all(DistributedDataParallel& ddp) {
  for (std::size_t i = ddp.parameter_count(); i-- > 0;) ddp.mark_ready(i);
}

}  // namespace ddp::test
