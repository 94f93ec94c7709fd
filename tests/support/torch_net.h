// SPDX-License-Identifier: MIT
//
// A module of LibTorch for the tests of ddp_torch.h.
#pragma once

#include <cstdint>
#include <memory>

#include "ddp_torch.h"

namespace ddp::test {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear fc1{6, 5}, fc2{5, 2};
  torch::nn::BatchNorm1d norm{torch::nn::BatchNorm1dOptions(5).affine(false)};

  explicit NetImpl(double value = 0.1) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("norm", norm);
    to(torch::kFloat64);
    const torch::NoGradGuard no_graph;
    for (torch::Tensor& each : parameters()) each.copy_(ramp(each.numel(), value).view_as(each));
    for (torch::Tensor& each : buffers()) each.fill_(10 * value);
  }

  torch::Tensor forward(const torch::Tensor& x) { return fc2(torch::tanh(fc1(x))); }

  static torch::Tensor ramp(std::int64_t n, double value) {
    return value * torch::sin(torch::arange(n, torch::kFloat64) + 1);
  }
};
TORCH_MODULE(Net);

inline torch::Tensor loss_of(Net& net, std::int64_t begin, std::int64_t end) {
  const torch::Tensor x = NetImpl::ramp(7 * 6, 1).view({7, 6}).slice(0, begin, end);
  return net(x).square().sum(1).mean();
}

inline std::shared_ptr<ProcessGroup> world_of_one() {
  return init_process_group({.device = DeviceChoice::kCpu, .rank = 0, .world_size = 1});
}

}  // namespace ddp::test
