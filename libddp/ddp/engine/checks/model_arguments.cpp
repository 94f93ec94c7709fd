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
#include "ddp/cuda/cuda.h"

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

void check_buffer(const ProcessGroup& group, const ModelBuffer& buffer) {
  const Buffer& value = buffer.value;
  const std::string its_value =
      "[ddp] buffer '" + buffer.name + "': its value is " + to_string(value);
  if (value.device != group.device()) {
    throw std::invalid_argument(its_value + ", but must be on " + to_string(group.device()));
  }
  if (value.data == nullptr && value.count > 0) {
    throw std::invalid_argument(its_value + ", but has no memory");
  }
}

// Memory that an engine is given, and for what.
struct Memory {
  enum class Owner { kParameter, kModelBuffer, kAllGradients };

  Buffer buffer;
  Owner owner;
  std::string use;
};

using Owner = Memory::Owner;

// By address, without those that are empty.
std::vector<Memory> memory_of(const std::vector<Parameter>& parameters, const DdpOptions& options) {
  std::vector<Memory> all;
  for (const auto& [name, shape, value, grad] : parameters) {
    all.push_back({value, Owner::kParameter, "the value of '" + name + "'"});
    all.push_back({grad, Owner::kParameter, "the gradient of '" + name + "'"});
  }
  for (const auto& [name, value] : options.buffers) {
    all.push_back({value, Owner::kModelBuffer, "the buffer '" + name + "'"});
  }
  all.push_back({options.flat_gradients, Owner::kAllGradients, "flat_gradients"});
  std::erase_if(all, [](const Memory& each) {
    return each.buffer.data == nullptr || each.buffer.count == 0;
  });
  std::ranges::stable_sort(all, std::less<void*>(), [](const Memory& m) { return m.buffer.data; });
  return all;
}

const std::byte* end_of(const Memory& memory) {
  return static_cast<const std::byte*>(memory.buffer.data) + memory.buffer.size_bytes();
}

[[noreturn]] void refuse_overlap(const Memory& first, const Memory& second) {
  const bool is_tied = first.owner == Owner::kParameter && second.owner == Owner::kParameter;
  throw std::invalid_argument("[ddp] " + first.use + " and " + second.use +
                              " are in the same memory" +
                              (is_tied ? "; give a parameter that several layers share once, and "
                                         "mark it ready after its last use"
                                       : ""));
}

// Memory used twice would be reduced twice, and stepped twice by the optimizer. Buffers of the
// model may share memory with each other: they are only broadcast.
void check_disjoint(const std::vector<Memory>& all) {
  const Memory* last_buffer = nullptr;  // what reaches furthest so far
  const Memory* last_other = nullptr;
  for (const Memory& each : all) {
    const bool is_buffer = each.owner == Owner::kModelBuffer;
    for (const Memory* before : {last_other, is_buffer ? nullptr : last_buffer}) {
      if (before != nullptr && overlap(before->buffer, each.buffer)) refuse_overlap(*before, each);
    }
    const Memory*& last = is_buffer ? last_buffer : last_other;
    if (last == nullptr || end_of(*last) < end_of(each)) last = &each;
  }
}

// On another device's memory kernels fail later, with an error that names nothing, or are slow.
void check_home(const ProcessGroup& group, const Memory& memory) {
  const std::optional<Device> home = cu::device_of(memory.buffer.data);
  if (!home || *home == group.device()) return;
  throw std::invalid_argument(fmt::format(
      "[ddp] {} is said to be on {}, but its memory is that of {}: cudaMalloc takes the thread's "
      "current device, which init_process_group chooses for the thread that calls it; other "
      "threads, and what comes before it, must call cudaSetDevice",
      memory.use, to_string(group.device()), to_string(*home)));
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
  for (const ModelBuffer& buffer : options.buffers) check_buffer(group, buffer);
  check_distinct<Parameter>(parameters, "parameters");
  check_distinct<ModelBuffer>(options.buffers, "buffers");
  check_flat_gradients(parameters, options.flat_gradients);
  const std::vector<Memory> memory = memory_of(parameters, options);
  check_disjoint(memory);
  if (!group.device().is_cuda()) return parameters;
  for (const Memory& each : memory) check_home(group, each);
  return parameters;
}

}  // namespace ddp
