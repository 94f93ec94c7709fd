// SPDX-License-Identifier: MIT
#include "ddp/nn/parallel/data_parallel_checks.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

namespace ddp::nn {
namespace {

// "'weight' float32[10, 84]", or "nothing" after the last tensor.
std::string describe(std::span<const NamedTensor> tensors, std::size_t i) {
  if (i >= tensors.size()) return "nothing";
  const Tensor& value = tensors[i].value;
  return "'" + tensors[i].name + "' " + std::string(to_string(value.dtype())) +
         to_string(value.shape());
}

}  // namespace

std::vector<Device> other_devices(Device own, std::vector<Device> device_ids) {
  if (device_ids.empty()) {
    throw std::invalid_argument("[nn] DataParallel: device_ids is empty; the module is on " +
                                to_string(own));
  }
  std::string names;
  for (const Device device : device_ids) {
    names += (names.empty() ? "" : ", ") + to_string(device);
    if (!device.is_cuda() || std::ranges::count(device_ids, device) == 1) continue;
    throw std::invalid_argument("[nn] DataParallel: " + to_string(device) + " is named twice");
  }
  const auto first = std::ranges::find(device_ids, own);
  if (first == device_ids.end()) {
    throw std::invalid_argument("[nn] DataParallel: the module is on " + to_string(own) +
                                ", which is not among the devices: " + names);
  }
  device_ids.erase(first);
  return device_ids;
}

void check_on(Device device, const Tensor& tensor, const char* what) {
  if (tensor.device() == device) return;
  throw std::invalid_argument("[nn] DataParallel: " + std::string(what) + " on " +
                              to_string(tensor.device()) + ", expected " + to_string(device) +
                              ", the module's device");
}

std::size_t size_along(const Shape& shape, std::size_t dim, const char* what) {
  if (dim < shape.rank()) return shape[dim];
  throw std::invalid_argument("[nn] DataParallel: " + std::string(what) + " of shape " +
                              to_string(shape) + " has no dimension " + std::to_string(dim));
}

void check_targets(const Shape& targets, std::size_t samples) {
  if (size_along(targets, 0, "a tensor of targets") == samples) return;
  throw std::invalid_argument("[nn] DataParallel: targets of shape " + to_string(targets) +
                              " for an input of " + std::to_string(samples) + " samples");
}

void check_output(const Tensor& output, std::size_t count, const Tensor& first, std::size_t dim) {
  const std::string origin = "[nn] DataParallel: an output of shape " + to_string(output.shape());
  if (size_along(output.shape(), dim, "an output") != count) {
    throw std::invalid_argument(origin + " for " + std::to_string(count) + " along dimension " +
                                std::to_string(dim) + " of the input");
  }
  const Shape expected = first.shape().with(dim, count);
  if (output.shape() == expected && output.dtype() == first.dtype()) return;
  throw std::invalid_argument(origin + " " + std::string(to_string(output.dtype())) +
                              " cannot be joined along dimension " + std::to_string(dim) +
                              " with one of shape " + to_string(first.shape()) + " " +
                              std::string(to_string(first.dtype())));
}

void check_loss(const Tensor& loss) {
  if (loss.count() == 1) return;
  throw std::invalid_argument("[nn] DataParallel: a loss of shape " + to_string(loss.shape()) +
                              ", expected one number, the mean over the samples");
}

void check_alike(Module& module, Module& replica) {
  const std::vector<NamedTensor> ours = module.state_dict(), theirs = replica.state_dict();
  const auto [own, other] = std::ranges::mismatch(ours, theirs, [](const auto& a, const auto& b) {
    return a.name == b.name && a.value.shape() == b.value.shape() &&
           a.value.dtype() == b.value.dtype();
  });
  const std::string origin =
      "[nn] DataParallel: the factory must make the same module for each device, but a replica "
      "has ";
  if (own != ours.end() || other != theirs.end()) {
    const auto i = static_cast<std::size_t>(own - ours.begin());
    throw std::invalid_argument(origin + describe(theirs, i) + " in place of " + describe(ours, i));
  }
  const std::size_t modules = module.modules().size(), copies = replica.modules().size();
  if (modules == copies) return;
  throw std::invalid_argument(origin + std::to_string(copies) + " modules in place of " +
                              std::to_string(modules));
}

}  // namespace ddp::nn
