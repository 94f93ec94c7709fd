// SPDX-License-Identifier: MIT
//
// For tests of what the engine does if something is wrong with a rank's gradients, data or options.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ddp/engine/distributed_data_parallel.h"
#include "support/child_process.h"
#include "support/engine.h"
#include "support/groups.h"
#include "support/stderr_capture.h"

namespace ddp::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// How many of the captured lines contain this.
inline std::size_t count_lines(const StderrCapture& captured, const std::string& part) {
  const auto lines = lines_of(captured.text());
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [&](const std::string& line) { return contains(line, part); }));
}

// Runs fn(group) on every rank, with each backend. Returns the error of each rank with each
// backend, or "" if there is none.
inline std::vector<std::string> errors_of_ranks(int world_size,
                                                const std::function<void(ProcessGroup&)>& fn) {
  std::vector<std::string> errors;
  for (const Backend backend : backends()) {
    std::vector<std::string> own(static_cast<std::size_t>(world_size));
    run_groups(backend, world_size, [&](ProcessGroup& group) {
      own[static_cast<std::size_t>(group.rank())] = error_of([&] { fn(group); });
    });
    errors.insert(errors.end(), own.begin(), own.end());
  }
  return errors;
}

// A model and its engine on one rank of a group that outlives them.
struct EngineTrainee {
  EngineTrainee(ProcessGroup& group, DdpOptions options)
      : model(0), ddp(group.shared_from_this(), model.parameters, std::move(options)) {}

  // One step in which all gradients are `value`.
  void step(double value, const StepOptions& options = {}) {
    const double factor = ddp.begin_step(options);
    for (std::size_t i = 0; i < ddp.parameter_count(); ++i) {
      write_gradient(ddp, i, factor * value);
    }
    mark_all(ddp);
    ddp.wait();
  }

  Model model;
  DistributedDataParallel ddp;
};

}  // namespace ddp::test
