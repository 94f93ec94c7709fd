// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/model_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/base/overlap.h"

namespace ddp {
namespace {

// Nothing if a dimension is negative, or if the number is too large.
std::optional<std::size_t> elements_of(const std::vector<std::int64_t>& shape) {
  std::size_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) return std::nullopt;
  }
  return elements;
}

void check_parameter(const ProcessGroup& group, const Parameter& parameter) {
  const Buffer& value = parameter.value;
  const Buffer& grad = parameter.grad;
  const auto refuse = [&](const std::string& complaint) {
    throw std::invalid_argument("[ddp] parameter '" + parameter.name + "': " + complaint);
  };
  const auto elements = elements_of(parameter.shape);
  if (!elements) {
    refuse(
        fmt::format("its shape is [{}]: dimensions must not be negative, nor their product too "
                    "large",
                    fmt::join(parameter.shape, ", ")));
  }
  if (*elements != value.count) {
    refuse("its shape has " + std::to_string(*elements) + " elements, but its value is " +
           to_string(value));
  }
  if (value.device != group.device() || !is_floating_point(value.dtype)) {
    refuse("its value is " + to_string(value) + ", but must be floating-point on " +
           to_string(group.device()));
  }
  if (value.data == nullptr && value.count > 0) {
    refuse("its value is " + to_string(value) + ", but has no memory");
  }
  const bool alike =
      grad.count == value.count && grad.dtype == value.dtype && grad.device == value.device;
  if (grad.data != nullptr && !alike) {
    refuse("its gradient is " + to_string(grad) + ", but its value is " + to_string(value));
  }
}

struct Memory {
  Buffer buffer;
  const char* use;
  const std::string* parameter;
};

std::string describe(const Memory& memory) {
  return std::string(memory.use) + " of '" + *memory.parameter + "'";
}

// Memory used twice would be reduced twice, and stepped twice by the optimizer.
void check_disjoint(const std::vector<Parameter>& parameters) {
  std::vector<Memory> all;
  for (const Parameter& parameter : parameters) {
    if (parameter.value.count == 0) continue;
    all.push_back({parameter.value, "the value", &parameter.name});
    if (parameter.grad.data != nullptr) {
      all.push_back({parameter.grad, "the gradient", &parameter.name});
    }
  }
  std::ranges::stable_sort(all, std::less<void*>(), [](const Memory& m) { return m.buffer.data; });
  const auto twice = std::ranges::adjacent_find(
      all, [](const Memory& a, const Memory& b) { return overlap(a.buffer, b.buffer); });
  if (twice == all.end()) return;
  throw std::invalid_argument(
      "[ddp] " + describe(*twice) + " and " + describe(*std::next(twice)) +
      " are in the same memory; give a parameter that several layers share once, and mark it "
      "ready after its last use");
}

// Messages identify a parameter or buffer by its name alone, so names must be unique.
template <class Named>  // Parameter, ModelBuffer
void check_distinct(std::span<const Named> all, const char* what) {
  std::vector<std::string> names;
  for (const Named& each : all) names.push_back(each.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return;
  throw std::invalid_argument("[ddp] two " + std::string(what) + " have the name '" + *twice + "'");
}

void check_flat_gradients(std::span<const Parameter> parameters, const Buffer& flat) {
  if (flat.data == nullptr) return;
  std::size_t elements = 0;
  for (const Parameter& parameter : parameters) {
    elements += parameter.value.count;
    if (parameter.grad.data == nullptr) continue;
    throw std::invalid_argument("[ddp] parameter '" + parameter.name +
                                "' has a gradient of its own, although flat_gradients is given");
  }
  const Buffer& value = parameters[0].value;
  if (flat.count == elements && flat.dtype == value.dtype && flat.device == value.device) return;
  throw std::invalid_argument("[ddp] flat_gradients is " + to_string(flat) +
                              ", but the parameters have " + std::to_string(elements) +
                              " elements of " + std::string(to_string(value.dtype)) + " on " +
                              to_string(value.device));
}

}  // namespace

std::vector<Parameter> checked(const ProcessGroup& group, std::vector<Parameter> parameters,
                               const DdpOptions& options) {
  if (options.fingerprint_every < 0) {
    throw std::invalid_argument("[ddp] fingerprint_every is " +
                                std::to_string(options.fingerprint_every) +
                                ", but it must not be negative");
  }
  if (parameters.empty()) throw std::invalid_argument("[ddp] the model has no parameters");
  for (const Parameter& parameter : parameters) check_parameter(group, parameter);
  check_disjoint(parameters);
  check_distinct<Parameter>(parameters, "parameters");
  check_distinct<ModelBuffer>(options.buffers, "buffers");
  check_flat_gradients(parameters, options.flat_gradients);
  return parameters;
}

}  // namespace ddp
