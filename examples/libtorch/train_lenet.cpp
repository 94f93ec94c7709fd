// SPDX-License-Identifier: MIT
//
// LeNet-5 in LibTorch on Fashion-MNIST. Module, autograd and optimizer are LibTorch's; launching,
// rendezvous, data and the reduction of gradients are libddp's, through ddp_torch.h.
//
//   ddp-launch --nproc_per_node=2 build/bin/train_lenet [--max-steps N] [--checkpoint FILE]
//       [--save FILE.safetensors]
#include <ddp/data/fashion_mnist.h>
#include <ddp/ddp.h>
#include <ddp/io/safetensors.h>
#include <ddp/samplers/exact_sampler.h>
#include <torch/torch.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ddp_torch.h"

namespace {

constexpr std::int64_t kGlobalBatch = 128;
constexpr std::int64_t kReportEvery = 100;

struct LeNetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 6, 5).padding(2)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(6, 16, 5)};
  torch::nn::Linear fc1{400, 120}, fc2{120, 84}, fc3{84, 10};

  LeNetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::relu(fc1(x.flatten(1)));
    return fc3(torch::relu(fc2(x)));
  }
};
TORCH_MODULE(LeNet);

struct Options {
  std::int64_t max_steps = 1 << 30;
  std::string checkpoint = {};
  std::string save = {};
};

struct Batch {
  torch::Tensor inputs, labels;
};

// This rank's part of a global batch, written by libddp into LibTorch's memory.
Batch gather(const ddp::Dataset& dataset, const std::vector<std::int64_t>& indices,
             torch::Device device) {
  const auto n = static_cast<std::int64_t>(indices.size());
  const Batch batch = {torch::empty({n, 1, 28, 28}), torch::empty({n}, torch::kInt64)};
  dataset.gather(indices, ddp_torch::buffer_of(batch.inputs), ddp_torch::buffer_of(batch.labels));
  return {batch.inputs.to(device), batch.labels.to(device)};
}

ddp::ExactSampler make_sampler(const ddp::Dataset& dataset, const ddp::ProcessGroup& group,
                               bool shuffle) {
  return ddp::ExactSampler({.dataset_size = dataset.size(),
                            .world_size = group.world_size(),
                            .rank = group.rank(),
                            .global_batch_size = kGlobalBatch,
                            .shuffle = shuffle});
}

// Each rank counts on its part of the test set; all ranks get the sum.
double accuracy(LeNet& net, ddp::ProcessGroup& group, torch::Device device) {
  const torch::NoGradGuard no_graph;
  const auto dataset = ddp::load_fashion_mnist(ddp::DataSplit::kTest);
  const ddp::EpochPlan plan = make_sampler(dataset, group, false).plan({});
  std::array<double, 1> correct = {};
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    const auto [inputs, labels] = gather(dataset, plan.batch(step), device);
    correct[0] += net(inputs).argmax(1).eq(labels).sum().item<double>();
  }
  ddp::all_reduce_on_host(group, correct);
  return correct[0] / static_cast<double>(dataset.size());
}

void save(const std::string& file, const LeNet& net) {
  std::vector<torch::Tensor> values;  // keeps copies from a GPU alive
  std::vector<ddp::NamedBuffer> buffers;
  for (const auto& [name, value] : net->named_parameters().pairs()) {
    values.push_back(value.cpu());
    buffers.push_back({name, value.sizes().vec(), ddp_torch::buffer_of(values.back())});
  }
  ddp::save_safetensors(file, buffers);
}

// For a job that goes on later: LibTorch's own file with what the next step depends on.
void save_checkpoint(const std::string& file, LeNet& net, torch::optim::Optimizer& optimizer,
                     std::int64_t step) {
  torch::serialize::OutputArchive all, model, state;
  net->save(model);
  optimizer.save(state);
  all.write("model", model);
  all.write("optimizer", state);
  all.write("step", torch::tensor(step));
  all.save_to(file + ".new");
  std::filesystem::rename(file + ".new", file);  // a crash leaves the old one or the new one
}

// Returns the steps that are done.
std::int64_t load_checkpoint(const std::string& file, LeNet& net,
                             torch::optim::Optimizer& optimizer, torch::Device device) {
  if (!std::filesystem::exists(file)) return 0;
  torch::serialize::InputArchive all, model, state;
  all.load_from(file, device);
  all.read("model", model);
  all.read("optimizer", state);
  torch::Tensor step;
  all.read("step", step);
  net->load(model);
  optimizer.load(state);
  return step.item<std::int64_t>();
}

void train(const Options& options) {
  // Without CUDA in LibTorch, train on the CPU, whatever this machine has.
  const auto group = ddp::init_process_group(
      {.device = torch::cuda::is_available() ? ddp::DeviceChoice::kAuto : ddp::DeviceChoice::kCpu});
  const torch::Device device(to_string(group->device()));
  torch::manual_seed(0);
  LeNet net;
  net->to(device);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  // Each rank loads, since only the model is sent to all of them.
  const std::int64_t done = load_checkpoint(options.checkpoint, net, optimizer, device);
  ddp_torch::DistributedDataParallel model(
      group, *net, {.nominal_samples = static_cast<double>(kGlobalBatch) / group->world_size()});
  model.engine().continue_after(done);  // messages count the steps of the whole training

  const auto dataset = ddp::load_fashion_mnist(ddp::DataSplit::kTrain);
  const ddp::EpochPlan plan = make_sampler(dataset, *group, true).next_epoch();
  const std::int64_t steps = std::min(plan.steps(), options.max_steps);
  for (std::int64_t step = done + 1; step <= steps; ++step) {
    const auto [inputs, labels] = gather(dataset, plan.batch(step - 1), device);
    const torch::Tensor loss = torch::cross_entropy_loss(net(inputs), labels);
    model.backward(loss, static_cast<double>(labels.size(0)));
    optimizer.step();
    if (group->rank() != 0 || (step % kReportEvery != 0 && step != steps)) continue;
    std::printf("step %lld of %lld: loss %.6f\n", static_cast<long long>(step),
                static_cast<long long>(steps), model.mean_loss());
    if (!options.checkpoint.empty()) save_checkpoint(options.checkpoint, net, optimizer, step);
  }
  const double test_accuracy = accuracy(net, *group, device);
  if (group->rank() != 0) return;
  std::printf("test accuracy %.2f %%\n", 100 * test_accuracy);
  if (!options.save.empty()) save(options.save, net);
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
    if (arguments[i] == "--max-steps" && !value.empty() && is_number && value.size() < 19) {
      options.max_steps = std::stoll(value);
    } else if (arguments[i] == "--checkpoint" && !value.empty()) {
      options.checkpoint = value;
    } else if (arguments[i] == "--save" && !value.empty()) {
      options.save = value;
    } else {
      throw std::invalid_argument(
          "usage: train_lenet [--max-steps N] [--checkpoint FILE] [--save FILE.safetensors]");
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(parse({argv + 1, argv + argc}));
    return 0;
  } catch (const std::exception& error) {
    ddp::record_error(error);
    std::fprintf(stderr, "train_lenet: %s\n", ddp::describe(error).c_str());
    return 1;
  }
}
