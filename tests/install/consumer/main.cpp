// SPDX-License-Identifier: MIT
#include <ddp/ddp.h>
#include <ddp/io/sha256.h>
#include <ddp/nn/models/factory.h>
#include <ddp/nn/parallel/distributed_module.h>
#include <ddp/samplers/exact_sampler.h>

#include <cstdio>

int main() {
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
  std::vector<double> values(1000, group->rank() + 1.0);
  group->all_reduce(ddp::buffer_of(values)).wait();
  const ddp::ExactSampler sampler(
      {.dataset_size = 10, .world_size = group->world_size(), .rank = group->rank()});
  ddp::nn::Context context;
  const auto model = ddp::nn::make_model("mlp", {context, ddp::DType::kFloat32, 0});
  const ddp::nn::DistributedModule distributed(*model, context, group, {});
  const std::string hash = ddp::sha256({});
  if (group->rank() == 0) {
    std::printf("consumer: sum %g, %zu parameters, %lld steps, %s\n", values[0],
                model->parameters().size(), static_cast<long long>(sampler.plan({}).steps()),
                hash.substr(0, 8).c_str());
  }
}
