// SPDX-License-Identifier: MIT
//
// What a module may do beside its parameters: hooks and functions of its own, frozen parameters,
// buffers that come late. LibTorch also defines macros such as CHECK.
#define CATCH_CONFIG_PREFIX_ALL
#include <catch2/catch.hpp>

#include "ddp_torch.h"
#include "support/differences.h"
#include "support/groups.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::run_groups;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct Product : torch::nn::Module {
  torch::Tensor first = register_parameter("first", torch::ones({2}));
  torch::Tensor second = register_parameter("second", torch::full({2}, 2.0F));
};

// The mean of x * x, whose gradient does not depend on the incoming one, as of many fused losses.
struct FusedLoss : torch::autograd::Function<FusedLoss> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x) {
    context->save_for_backward({x});
    return x.square().mean();
  }
  static variable_list backward(AutogradContext* context, const variable_list&) {
    const torch::Tensor x = context->get_saved_variables()[0];
    return {2 * x / x.numel()};
  }
};

torch::Tensor fused_loss(const Product& module) {
  return FusedLoss::apply(module.first * module.second);
}

// As a recurrent network clips what flows back through time.
torch::Tensor clamped_loss(const Product& module) {
  torch::Tensor product = module.first * module.second;
  product.register_hook([](const torch::Tensor& gradient) { return gradient.clamp(-0.25, 0.25); });
  return product.mean();
}

}  // namespace

CATCH_TEST_CASE("what a module does to gradients does not depend on the number of samples",
                "[libtorch]") {
  for (const auto loss : {fused_loss, clamped_loss}) {
    Product plain;
    loss(plain).backward();
    for (const double nominal : {0, 3}) {
      run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
        Product module;
        ddp_torch::DistributedDataParallel model(group.shared_from_this(), module,
                                                 {.nominal_samples = nominal});
        for (int step = 0; step < 2; ++step) {
          model.backward(loss(module), group.rank() == 0 ? 3 : 8);
          expect(torch::allclose(module.first.grad(), plain.first.grad()), "plain LibTorch's");
          expect(torch::allclose(module.second.grad(), plain.second.grad()), "plain LibTorch's");
        }
      });
    }
  }
}

CATCH_TEST_CASE("frozen parameters are sent once, and not with the buffers", "[libtorch]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Product module;
    const torch::Tensor mean = module.register_buffer("mean", torch::full({2}, group.rank()));
    const torch::NoGradGuard no_graph;
    module.second.fill_(group.rank() + 5);
    module.second.requires_grad_(false);
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), module);
    expect(module.second.eq(5).all().item<bool>(), "rank 0's");
    module.second.fill_(group.rank() + 7);
    mean.fill_(group.rank() + 9);
    model.broadcast_buffers();
    expect(mean.eq(9).all().item<bool>(), "rank 0's buffer");
    expect(module.second.eq(group.rank() + 7).all().item<bool>(), "this rank's");
  });
}

CATCH_TEST_CASE("ranks whose frozen parameters differ are told which", "[libtorch]") {
  const auto errors_with = [](const auto& add_frozen) {
    std::vector<std::string> errors(2);
    run_groups(Backend::kShm, 2, [&](ProcessGroup& group) {
      Product module;
      add_frozen(module, group.rank());
      errors[static_cast<std::size_t>(group.rank())] =
          error_of([&] { ddp_torch::DistributedDataParallel(group.shared_from_this(), module); });
    });
    CATCH_CHECK(errors[0] == errors[1]);
    return errors[0];
  };
  const auto add = [](Product& module, const char* name, std::int64_t size) {
    module.register_parameter(name, torch::ones({size}), /*requires_grad=*/false);
  };
  CATCH_CHECK_THAT(errors_with([&](Product& module, int rank) {
                     add(module, rank == 0 ? "a" : "b", 5);
                     add(module, rank == 0 ? "b" : "a", 5);
                   }),
                   Catch::StartsWith("[ddp_torch] models differ in frozen parameter 0") &&
                       Catch::Contains("'a' CPUFloatType[5]"));
  CATCH_CHECK_THAT(errors_with([&](Product& module, int rank) {
                     if (rank == 1) add(module, "extra", 5);
                   }),
                   Catch::Contains("no more frozen parameters") && Catch::Contains("'extra'"));
}

CATCH_TEST_CASE("a buffer that comes late cannot be sent", "[libtorch]") {
  const auto group = init_process_group({.device = DeviceChoice::kCpu, .rank = 0, .world_size = 1});
  Product module;
  ddp_torch::DistributedDataParallel model(group, module);
  CATCH_CHECK(error_of([&] { model.broadcast_buffers(); }).empty());
  module.register_buffer("mask", torch::ones({3}));
  const auto expected = Catch::StartsWith("[ddp_torch] 'mask' came after the module was wrapped");
  CATCH_CHECK_THAT(error_of([&] { model.broadcast_buffers(); }), expected);
  CATCH_CHECK_THAT(error_of([&] { model.begin_forward(); }), expected);
  CATCH_CHECK(error_of([&] { model.backward(fused_loss(module), 1); }).empty());
}

CATCH_TEST_CASE("a step that does not begin leaves no gradients", "[libtorch]") {
  const auto group = init_process_group({.device = DeviceChoice::kCpu, .rank = 0, .world_size = 1});
  Product module;
  ddp_torch::DistributedDataParallel model(group, module);
  model.backward(fused_loss(module), 1);
  CATCH_CHECK(!error_of([&] { model.backward(fused_loss(module), {.samples = NAN}); }).empty());
  CATCH_CHECK(!module.first.grad().defined());
}

CATCH_TEST_CASE("a parameter that is frozen late is named", "[libtorch]") {
  for (const auto unused : {UnusedParameters::kError, UnusedParameters::kZero}) {
    const auto group =
        init_process_group({.device = DeviceChoice::kCpu, .rank = 0, .world_size = 1});
    Product module;
    ddp_torch::DistributedDataParallel model(group, module, {.unused = unused});
    module.second.requires_grad_(false);
    const std::string error = error_of([&] { model.backward(fused_loss(module), 1); });
    if (unused == UnusedParameters::kZero) {
      CATCH_CHECK(error.empty());
    } else {
      CATCH_CHECK(error ==
                  "[ddp_torch] 'second' was frozen after the module was wrapped: wrap the module "
                  "anew, or set DdpOptions::unused = kZero");
    }
  }
}
