// SPDX-License-Identifier: MIT
//
// Compares ddp_torch.h with plain LibTorch, and tests the example. LibTorch also defines macros
// such as CHECK. libtorch_errors_test.cpp has what ddp_torch.h refuses.
#define CATCH_CONFIG_PREFIX_ALL
#include <catch2/catch.hpp>

#include "ddp/io/safetensors.h"
#include "ddp_torch.h"
#include "support/child_process.h"
#include "support/differences.h"
#include "support/files.h"
#include "support/groups.h"
#include "support/torch_net.h"

using namespace ddp;
using namespace std::chrono_literals;
using test::error_of;
using test::expect;
using test::loss_of;
using test::Net;
using test::NetImpl;
using test::run_groups;
using test::world_of_one;

namespace {

void expect_equal(Net& a, Net& b) {
  for (const auto& item : a->named_parameters()) {
    expect(torch::allclose(item.value(), b->named_parameters()[item.key()], 0, 1e-12), item.key());
  }
}

// The parameters after these steps of the example.
Safetensors train_lenet(int ranks, int steps = 10, const std::vector<std::string>& flags = {}) {
  const test::TemporaryDirectory directory;
  const std::string file = directory / "lenet.safetensors";
  std::vector<std::string> command = {DDP_LAUNCH_PATH,
                                      "--nproc_per_node=" + std::to_string(ranks),
                                      DDP_TRAIN_LENET_PATH,
                                      "--max-steps",
                                      std::to_string(steps),
                                      "--save",
                                      file};
  command.insert(command.end(), flags.begin(), flags.end());
  test::ChildProcess job(command,
                         {.environment = {{"CUDA_VISIBLE_DEVICES", ""}, {"OMP_NUM_THREADS", "1"}}});
  const int code = job.wait(100s);
  CATCH_INFO(job.err());
  CATCH_REQUIRE(code == 0);
  return load_safetensors(file);
}

double largest_difference(const Safetensors& a, const Safetensors& b) {
  double largest = 0;
  CATCH_REQUIRE(a.tensors.size() == 10);
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    const auto x = a.tensors[t].buffer.as<float>();
    const auto y = b.tensors[t].buffer.as<float>();
    largest = test::larger(largest, test::largest_difference(x, y));
  }
  return largest;
}

}  // namespace

CATCH_TEST_CASE("LeNet in LibTorch gives the same model on 1, 2 and 3 ranks", "[libtorch]") {
  const Safetensors alone = train_lenet(1);
  for (const int ranks : {2, 3}) {  // three have 43, 43 and 42 samples
    CATCH_INFO(ranks << " ranks");
    CATCH_CHECK(largest_difference(alone, train_lenet(ranks)) < 1e-5F);
  }
}

CATCH_TEST_CASE("a LibTorch program that resumes ends with the same model", "[libtorch]") {
  const test::TemporaryDirectory directory;
  const std::vector<std::string> flags = {"--checkpoint", directory / "lenet.pt"};
  CATCH_CHECK(largest_difference(train_lenet(2, 4, flags), train_lenet(2)) > 0);
  CATCH_CHECK(largest_difference(train_lenet(2, 10, flags), train_lenet(2)) == 0);
  CATCH_CHECK(test::entries_of(directory.path()) == 1);
}

CATCH_TEST_CASE("unequal ranks train the model that plain LibTorch trains", "[libtorch]") {
  Net plain;
  torch::optim::SGD plain_optimizer(plain->parameters(), 0.1);
  double plain_loss = 0;
  for (int step = 0; step < 5; ++step) {
    plain_optimizer.zero_grad();
    const torch::Tensor loss = loss_of(plain, 0, 7);
    plain_loss = loss.item<double>();
    loss.backward();
    plain_optimizer.step();
  }
  run_groups(Backend::kShm, 3, [&](ProcessGroup& group) {
    Net net(group.rank() == 0 ? 0.1 : 5.0);  // all ranks get rank 0's values
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net,
                                             {.nominal_samples = 3});
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const std::int64_t begin = std::array{0, 4, 7}[static_cast<std::size_t>(group.rank())];
    const std::int64_t end = std::array{4, 7, 7}[static_cast<std::size_t>(group.rank())];
    for (int step = 0; step < 5; ++step) {
      model.backward(loss_of(net, begin, end), static_cast<double>(end - begin));
      optimizer.step();
    }
    expect_equal(net, plain);
    expect(std::abs(model.mean_loss() - plain_loss) < 1e-12, "the mean loss");
  });
}

CATCH_TEST_CASE("a step of two passes equals a step of one", "[libtorch]") {
  Net plain;
  torch::optim::SGD plain_optimizer(plain->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    plain_optimizer.zero_grad();
    loss_of(plain, 0, 7).backward();
    plain_optimizer.step();
  }
  run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Net net;
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net,
                                             {.nominal_samples = 2});
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const auto cuts = group.rank() == 0 ? std::array{0, 1, 4} : std::array{4, 7, 7};
    for (int step = 0; step < 3; ++step) {
      model.engine().accumulate(2);
      for (const std::size_t pass : {0, 1}) {
        model.backward(loss_of(net, cuts[pass], cuts[pass + 1]), cuts[pass + 1] - cuts[pass]);
      }
      optimizer.step();
    }
    expect_equal(net, plain);
  });
}

CATCH_TEST_CASE("all ranks get rank 0's buffers and frozen parameters", "[libtorch]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Net net(group.rank() + 1);
    net->fc1->weight.requires_grad_(false);
    const torch::Tensor mask =
        net->register_buffer("mask", torch::full({3}, group.rank() == 0, torch::kBool));
    const torch::Tensor phase = net->register_buffer(
        "phase", torch::full({2, 2}, c10::complex<float>(1, static_cast<float>(group.rank())),
                             torch::kComplexFloat));
    const torch::Tensor scale =
        net->register_buffer("scale", torch::full({}, group.rank(), torch::kInt16));
    const torch::Tensor half = net->register_buffer(
        "half", torch::full({3}, group.rank(), torch::kFloat16).to(torch::kComplexHalf));
    const torch::Tensor ids =
        net->register_buffer("ids", (torch::arange(4) + group.rank()).expand({1, -1}));
    Net rank0(1);
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net);
    expect_equal(net, rank0);
    expect(net->norm->running_mean.eq(10).all().item<bool>(), "rank 0's running mean");
    expect(net->norm->num_batches_tracked.item<std::int64_t>() == 10, "rank 0's count");
    expect(mask.all().item<bool>(), "rank 0's bools");
    expect(torch::imag(phase).eq(0).all().item<bool>(), "rank 0's complex numbers");
    expect(scale.item<int>() == 0, "rank 0's int16");
    expect(torch::view_as_real(half).eq(0).all().item<bool>(), "rank 0's complex half");
    expect(ids.equal(torch::arange(4).view({1, 4})), "rank 0's ids");
    expect(model.engine().parameter_count() == 3, "three trained parameters");
    net->norm->running_mean.fill_(group.rank() + 3);
    model.broadcast_buffers();
    expect(net->norm->running_mean.eq(3).all().item<bool>(), "rank 0's running mean, again");
  });
}

CATCH_TEST_CASE("gradients are views of buckets, whatever replaces them", "[libtorch]") {
  Net plain, net;
  loss_of(plain, 0, 7).backward();
  ddp_torch::DistributedDataParallel model(world_of_one(), *net);
  const auto check = [&] {
    for (std::size_t i = 0; i < 4; ++i) {
      const torch::Tensor grad = net->parameters()[i].grad();
      CATCH_CHECK(grad.data_ptr() == model.engine().gradient(i).data);
      CATCH_CHECK(torch::allclose(grad, plain->parameters()[i].grad(), 0, 1e-12));
    }
  };
  for (const bool create_graph : {false, true}) {
    CATCH_INFO("create_graph " << create_graph);
    CATCH_CHECK(model.begin_step(7) == 1);
    loss_of(net, 0, 7).backward({}, create_graph, create_graph);
    model.wait();
    check();
  }
  CATCH_CHECK(model.begin_step(7) == 1);
  net->zero_grad(/*set_to_none=*/true);
  loss_of(net, 0, 7).backward();
  model.wait();
  check();
}

CATCH_TEST_CASE("an optimizer that does not ask leaves a skipped or half step out", "[libtorch]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Net net;
    ddp_torch::DistributedDataParallel model(
        group.shared_from_this(), *net, {.nominal_samples = 7, .non_finite = NonFinite::kSkip});
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto is_changed_by = [&](const torch::Tensor& loss, int samples = 7) {
      const torch::Tensor before = net->fc1->weight.detach().clone();
      model.backward(loss, samples);
      optimizer.step();
      return !net->fc1->weight.equal(before);
    };
    expect(is_changed_by(loss_of(net, 0, 7)), "a step");
    const double factor = group.rank() == 1 ? std::nan("") : 1;
    expect(!is_changed_by(loss_of(net, 0, 7) * factor), "skipped");
    expect(!is_changed_by(loss_of(net, 0, 7), 0), "without samples");
    model.engine().accumulate(2);
    expect(!is_changed_by(loss_of(net, 0, 7)), "the first pass of two");
    expect(is_changed_by(loss_of(net, 0, 7)), "both passes");
  });
}

CATCH_TEST_CASE("a buffer may be written under autograd", "[libtorch]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Net net;
    torch::Tensor hidden = net->register_buffer("hidden", torch::zeros({7, 2}, torch::kFloat64));
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net);
    for (int step = 0; step < 2; ++step) {
      hidden.detach_();
      hidden.copy_(net(NetImpl::ramp(7 * 6, 1).view({7, 6})));
      model.backward(hidden.square().mean(), 7);
    }
    model.broadcast_buffers();
  });
}

CATCH_TEST_CASE("a step may have options", "[libtorch]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Net net;
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net);
    model.backward(loss_of(net, 0, 3), {.samples = 3, .asks_to_stop = group.rank() == 1});
    expect(model.engine().stop_requested(), "rank 1's request");
    expect(model.engine().summary().samples == 6, "the samples of both");
  });
}

CATCH_TEST_CASE("buffers are copied before each forward pass, if that is asked for", "[libtorch]") {
  run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
    Net net;
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net,
                                             {.buffer_sync = BufferSync::kEveryForward});
    const auto step = [&] { model.backward(loss_of(net, 0, 3), 3); };
    expect(error_of(step).find("call begin_forward() before each") != std::string::npos, "refused");
    net->norm->running_mean.fill_(group.rank());
    model.begin_forward();
    expect(net->norm->running_mean[0].item<double>() == 0, "rank 0's");
    step();
    expect(!error_of(step).empty(), "each forward pass");
  });
}

CATCH_TEST_CASE("a loss of low precision does not round the number of samples", "[libtorch]") {
  for (const auto type : {torch::kBFloat16, torch::kFloat16}) {
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      torch::nn::Module module;
      const torch::Tensor all = module.register_parameter("all", torch::ones({4}));
      const torch::Tensor some = module.register_parameter("some", torch::ones({4}));
      ddp_torch::DistributedDataParallel model(group.shared_from_this(), module,
                                               {.unused = UnusedParameters::kZero});
      for (int step = 0; step < 2; ++step) {
        model.engine().accumulate(2);
        for (const int n : {257, 70'001}) {
          const torch::Tensor loss = n == 257 || group.rank() == 0 ? all.sum() : (all + some).sum();
          model.backward(loss.to(type), group.rank() == 0 ? n : 3 * n);
        }
        expect(torch::allclose(all.grad(), torch::ones({4})), "the mean of ones");
        const double part = 0.75 * 70'001 / (257 + 70'001);
        expect(torch::allclose(some.grad(), torch::full({4}, part)), "of ones and zeros");
        expect(all.grad().data_ptr() == model.engine().gradient(0).data, "a view");
      }
    });
  }
}

CATCH_TEST_CASE("a layer that no rank uses keeps its values, even with momentum", "[libtorch]") {
  for (const auto unused : {UnusedParameters::kZero, UnusedParameters::kStatic}) {
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      Net net;
      ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net, {.unused = unused});
      torch::optim::SGD optimizer(net->parameters(),
                                  torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1));
      const torch::Tensor before = net->fc2->weight.detach().clone();
      for (int step = 0; step < 3; ++step) {
        model.backward(net->fc1(torch::ones({1, 6}, torch::kFloat64)).sum(), 1);
        expect(!net->fc2->weight.grad().defined(), "no gradient");
        optimizer.step();
      }
      expect(net->fc2->weight.equal(before), "left alone");
      if (unused == UnusedParameters::kStatic) return;
      model.backward(loss_of(net, 0, 7), 7);
      expect(net->fc2->weight.grad().defined(), "used again");
    });
  }
}

CATCH_TEST_CASE("a module is independent of libddp after the adapter is gone", "[libtorch]") {
  Net net;
  { const ddp_torch::DistributedDataParallel model(world_of_one(), *net); }
  CATCH_CHECK(!net->parameters()[0].grad().defined());
  loss_of(net, 0, 7).backward();
  CATCH_CHECK(net->parameters()[0].grad().defined());
}
