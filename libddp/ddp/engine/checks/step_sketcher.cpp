// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/step_sketcher.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <utility>

#include "ddp/base/env_reader.h"
#include "ddp/base/error.h"
#include "ddp/base/random.h"
#include "ddp/buffer_ops/host_transfer.h"

namespace ddp {
namespace {

std::atomic<int> engines_so_far = 0;
std::atomic<int> engines_behind = 0;  // that exist and have not made the steps to compare

std::vector<double> to_host(const Buffer& buffer, Stream stream) {
  std::vector<double> result(buffer.count);
  copy_and_wait(buffer, buffer_of(result), stream);
  return result;
}

// The distance from 1 to the next number of this type.
double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x1p-52;
    case DType::kFloat32:
      return 0x1p-23;
    case DType::kFloat16:
      return 0x1p-10;
    default:
      return 0x1p-7;  // bfloat16
  }
}

// `index` is the parameter's.
void nudge(const Buffer& value, std::size_t index) {
  std::vector<double> elements = to_host(value, {});
  const double epsilon = epsilon_of(value.dtype);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] *= random_bits(0, index, i) % 2 == 0 ? 1 + epsilon : 1 - epsilon;
  }
  copy_and_wait(buffer_of(elements), value, {});
}

}  // namespace

std::unique_ptr<StepSketcher> StepSketcher::from_environment(ProcessGroup& group,
                                                             std::span<const Parameter> parameters,
                                                             std::vector<Buffer> gradients,
                                                             bool has_buffers) {
  const EnvReader env(::getenv);
  const std::optional<std::string> path = env.text("DDP_PROVE_FILE");
  if (!path) return nullptr;
  if (env.flag("DDP_PROVE_NUDGE")) {
    for (std::size_t i = 0; i < parameters.size(); ++i) nudge(parameters[i].value, i);
  }
  return std::make_unique<StepSketcher>(group, *path, env.integer("DDP_PROVE_STEPS", 1).value_or(1),
                                        parameters, std::move(gradients), has_buffers);
}

StepSketcher::StepSketcher(ProcessGroup& group, std::string path, int steps,
                           std::span<const Parameter> parameters, std::vector<Buffer> gradients,
                           bool has_buffers)
    : group_(group),
      path_(std::move(path)),
      steps_(steps),
      parameters_(parameters),
      gradients_(std::move(gradients)),
      has_buffers_(has_buffers),
      engine_(engines_so_far++) {
  ++engines_behind;
}

StepSketcher::~StepSketcher() {
  if (steps_made_ < steps_) --engines_behind;
}

void StepSketcher::add(std::uint64_t step, double samples, double scale, Stream stream) {
  ++steps_made_;
  if (steps_made_ <= steps_ && group_.rank() == 0) {
    write(to_json(sketch_of(step, samples, scale, stream)));
  }
  if (steps_made_ == steps_) --engines_behind;
  if (engines_behind == 0) end_process();
  if (steps_made_ < kCutOffAfter * steps_) return;
  if (group_.rank() == 0) write(kCutOff);
  end_process();
}

StepSketch StepSketcher::sketch_of(std::uint64_t step, double samples, double scale,
                                   Stream stream) const {
  StepSketch result{.engine = engine_,
                    .engines = engines_so_far,
                    .step = step,
                    .samples = samples,
                    .has_buffers = has_buffers_,
                    .parameters = {}};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    std::vector<double> gradient = to_host(gradients_[i], stream);
    for (double& element : gradient) element *= scale;
    result.parameters.push_back({.name = parameter.name,
                                 .count = parameter.value.count,
                                 .value = sketch(to_host(parameter.value, stream), i),
                                 .gradient = sketch(gradient, i)});
  }
  return result;
}

void StepSketcher::write(std::string_view line) const {
  std::ofstream file(path_, std::ios::app);
  file << line << '\n';
  if (!file.flush()) throw FileError("cannot write DDP_PROVE_FILE=" + path_);
}

// No rank leaves before all have made the step.
void StepSketcher::end_process() {
  group_.barrier().wait_host();
  std::fflush(nullptr);
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace ddp
