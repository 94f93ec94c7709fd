// SPDX-License-Identifier: MIT
//
// What ddp_torch.h refuses. LibTorch also defines macros such as CHECK.
#define CATCH_CONFIG_PREFIX_ALL
#include <catch2/catch.hpp>

#include <cmath>
#include <string>
#include <utility>

#include "ddp_torch.h"
#include "support/files.h"
#include "support/groups.h"
#include "support/torch_net.h"

using namespace ddp;
using test::error_of;
using test::expect;
using test::loss_of;
using test::Net;
using test::run_groups;
using test::world_of_one;

CATCH_TEST_CASE("a module that has changed since it was wrapped is an error", "[libtorch]") {
  const auto error_after = [](const auto& change) {
    Net net;
    net->fc2->weight.requires_grad_(false);
    ddp_torch::DistributedDataParallel model(world_of_one(), *net);
    model.backward(loss_of(net, 0, 7), 7);
    change(net);
    const std::string error = error_of([&] { model.backward(loss_of(net, 0, 7), 7); });
    return error.empty() ? error_of([&] { model.broadcast_buffers(); }) : error;
  };
  const auto other_memory = [](const char* name) {
    return Catch::StartsWith("[ddp_torch] '" + std::string(name) + "' has other memory than when");
  };
  const test::TemporaryDirectory directory;
  const std::string file = directory / "net.pt";
  torch::save(Net(0.2), file);
  CATCH_CHECK(error_after([](Net&) {}).empty());
  CATCH_CHECK_THAT(error_after([&](Net& net) { torch::load(net, file); }),
                   other_memory("fc1.weight"));
  CATCH_CHECK_THAT(error_after([](Net& net) {
                     torch::Tensor weight = net->fc2->weight;
                     weight.set_data(weight.detach().clone());
                   }),
                   other_memory("fc2.weight"));
  CATCH_CHECK_THAT(error_after([](Net& net) {
                     torch::Tensor mean = net->norm->running_mean;
                     mean.set_data(mean.clone());
                   }),
                   other_memory("norm.running_mean"));
  CATCH_CHECK_THAT(error_after([](Net& net) { net->fc2->weight.requires_grad_(true); }),
                   Catch::StartsWith("[ddp_torch] 'fc2.weight' was frozen when the module was"));
  CATCH_CHECK_THAT(error_after([](Net& net) {
                     net->register_parameter("extra", torch::ones({2}, torch::kFloat64));
                   }),
                   Catch::StartsWith("[ddp_torch] 'extra' came after the module was wrapped"));
}

CATCH_TEST_CASE("a parameter that comes late is an error in every step from then on",
                "[libtorch]") {
  const auto group = world_of_one();
  Net net;
  const auto frozen = net->register_module("frozen", torch::nn::Linear(2, 2));
  for (torch::Tensor& each : frozen->parameters()) each.requires_grad_(false);
  ddp_torch::DistributedDataParallel model(group, *net);
  const auto step_error = [&] { return error_of([&] { model.backward(loss_of(net, 0, 3), 3); }); };
  for (int step = 0; step < 5; ++step) CATCH_CHECK(step_error().empty());
  net->replace_module("fc2", torch::nn::Linear(5, 2));
  for (int step = 0; step < 3; ++step) {
    CATCH_CHECK_THAT(step_error(), Catch::StartsWith("[ddp_torch] 'fc2.weight' came after"));
  }
  net->replace_module("fc2", net->fc2);
  net->unregister_module("frozen");  // a parameter that goes is none that comes
  CATCH_CHECK(step_error().empty());
}

CATCH_TEST_CASE("the mean loss of a step that has not ended is an error", "[libtorch]") {
  const auto group = world_of_one();
  Net net;
  ddp_torch::DistributedDataParallel model(group, *net);
  const auto loss_error = [&] { return error_of([&] { (void)model.mean_loss(); }); };
  model.engine().accumulate(2);
  model.backward(loss_of(net, 0, 3), 3);
  CATCH_CHECK_THAT(loss_error(), Catch::Contains("after the last pass of a step"));
  model.backward(loss_of(net, 3, 7), 4);
  CATCH_CHECK(model.mean_loss() == Approx(loss_of(net, 0, 7).item<double>()));
}

CATCH_TEST_CASE("a module with nothing to train is refused as such", "[libtorch]") {
  Net net;
  for (torch::Tensor& each : net->parameters()) each.requires_grad_(false);
  CATCH_CHECK(error_of([&] { ddp_torch::DistributedDataParallel(world_of_one(), *net); }) ==
              "[ddp_torch] all parameters of the module are frozen");
}

CATCH_TEST_CASE("float16 gradients need the usual number of samples", "[libtorch]") {
  const auto error_with = [](torch::ScalarType type, DdpOptions options, bool trains = true) {
    torch::nn::Linear net(3, 1);
    net->to(type);
    net->weight.requires_grad_(trains);
    net->bias.requires_grad_(type != torch::kFloat16);
    if (!trains) net->register_parameter("other", torch::ones({1}));
    return error_of(
        [&] { ddp_torch::DistributedDataParallel(world_of_one(), *net, std::move(options)); });
  };
  CATCH_CHECK(error_with(torch::kFloat16, {}) ==
              "[ddp_torch] 'weight' is float16, whose gradients would be multiplied by the number "
              "of samples and overflow above 65504: set DdpOptions::nominal_samples to the usual "
              "number of samples of a rank");
  CATCH_CHECK(error_with(torch::kFloat16, {.nominal_samples = 64}).empty());
  CATCH_CHECK(error_with(torch::kFloat16, {}, false).empty());
  CATCH_CHECK(error_with(torch::kBFloat16, {}).empty());
}

CATCH_TEST_CASE("the mean loss of a step in two halves must be recorded", "[libtorch]") {
  run_groups(Backend::kShm, 2, [](ProcessGroup& group) {
    Net net;
    ddp_torch::DistributedDataParallel model(group.shared_from_this(), *net,
                                             {.nominal_samples = 7});
    const auto step = [&](bool records) {
      const torch::Tensor loss = loss_of(net, 0, 7);
      const double factor = model.begin_step(7);
      if (records) model.engine().record_metric(0, ddp_torch::buffer_of(loss), 7);
      (loss * factor).backward();
      model.wait();
      return loss.item<double>();
    };
    expect(model.mean_loss() == 0, "no step yet");
    step(false);
    expect(
        error_of([&] { (void)model.mean_loss(); }) ==
            "[ddp_torch] mean_loss(): no loss was recorded in the last step: call backward(), or "
            "engine().record_metric(0, ddp_torch::buffer_of(loss), n) after begin_step(n)",
        "an error");
    const double loss = step(true);
    expect(std::abs(model.mean_loss() - loss) < 1e-12, "the loss");
    model.backward({}, 0);
    expect(model.mean_loss() == 0, "no samples");
  });
}

CATCH_TEST_CASE("a loss that backward cannot start from leaves the adapter usable", "[libtorch]") {
  Net net;
  ddp_torch::DistributedDataParallel model(world_of_one(), *net);
  const auto error_with = [&](const torch::Tensor& loss) {
    return error_of([&] { model.backward(loss, 7); });
  };
  CATCH_CHECK_THAT(error_with({}), Catch::StartsWith("[ddp_torch] the loss is undefined"));
  CATCH_CHECK_THAT(error_with(net->fc1->weight.square()),
                   Catch::StartsWith("[ddp_torch] the loss has 30 elements: take their mean"));
  CATCH_CHECK_THAT(error_with(loss_of(net, 0, 7).detach()),
                   Catch::StartsWith("[ddp_torch] the loss depends on no trainable parameter"));
  CATCH_CHECK_THAT(error_with(torch::complex(loss_of(net, 0, 7), loss_of(net, 0, 7))),
                   Catch::StartsWith("[ddp_torch] the loss, a") &&
                       Catch::EndsWith("is of a type that libddp does not have"));
  CATCH_CHECK(error_with(loss_of(net, 0, 7).view({1, 1})).empty());
  CATCH_CHECK(error_of([&] { model.backward({}, 0); }).empty());
}

CATCH_TEST_CASE("a Buffer needs dense memory", "[libtorch]") {
  const auto error_with = [](const torch::Tensor& tensor) {
    return error_of([&] { (void)ddp_torch::buffer_of(tensor); });
  };
  const std::string end = "has no dense memory on the CPU or on CUDA";
  const torch::Tensor sparse = torch::ones({3}).to_sparse();
  CATCH_CHECK(error_with(torch::ones({3}, torch::kMeta)) ==
              "[ddp_torch] a tensor, a MetaFloatType, " + end);
  CATCH_CHECK(error_with(sparse) == "[ddp_torch] a tensor, a SparseCPUFloatType, " + end);
  CATCH_CHECK(error_with({}) == "[ddp_torch] a tensor, a UndefinedType, " + end);

  Net net;
  net->register_buffer("adjacency", sparse);
  CATCH_CHECK(error_of([&] { ddp_torch::DistributedDataParallel(world_of_one(), *net); }) ==
              "[ddp_torch] adjacency, a SparseCPUFloatType, " + end);
}

CATCH_TEST_CASE("a buffer that cannot be copied as its bytes is refused", "[libtorch]") {
  const auto error_with = [](const torch::Tensor& buffer) {
    Net net;
    net->register_buffer("buffer", buffer);
    return error_of([&] { ddp_torch::DistributedDataParallel(world_of_one(), *net); });
  };
  const std::string advice =
      "is not contiguous: take its contiguous(), and for a parameter or buffer x call "
      "x.set_data(x.contiguous()) before wrapping";

  for (const auto type : {torch::kInt64, torch::kInt16}) {
    const torch::Tensor ids = torch::arange(4, type);
    const std::string who = "[ddp_torch] buffer, a " + ids.toString() + ", ";
    CATCH_CHECK(error_with(ids.expand({2, -1})) == who + advice);
    CATCH_CHECK(error_with(ids.view({2, 2}).t()) == who + advice);
    torch::Tensor turned = ids.view({2, 2}).t();
    turned.set_data(turned.contiguous());
    CATCH_CHECK(error_with(turned).empty());
  }
  // The scale of a quantized tensor is not in its bytes.
  CATCH_CHECK_THAT(error_with(torch::quantize_per_tensor(torch::ones({3}), 0.1, 0, torch::kQUInt8)),
                   Catch::EndsWith("is of a type that libddp does not have"));
}

CATCH_TEST_CASE("wrong use of the adapter is an error", "[libtorch]") {
  Net net;
  ddp_torch::DistributedDataParallel model(world_of_one(), *net);
  CATCH_CHECK_THAT(
      error_of([&] { loss_of(net, 0, 7).backward(); }),
      Catch::Contains("[ddp_torch] loss.backward() was called outside of a step: call "
                      "model.backward(loss, n) instead") &&
          Catch::EndsWith("it must not reach this one's 'fc2.bias': freeze it meanwhile "
                          "(requires_grad_(false)), or detach() its output. A parameter of two "
                          "wrapped modules is not supported: wrap one module that holds both"));
  CATCH_CHECK_THAT(error_of([&] {
                     model.backward(net->fc1(torch::ones({1, 6}, torch::kFloat64)).sum(), 1);
                   }),
                   Catch::Contains("backward gave no gradient for 'fc2.weight', 'fc2.bias'"));

  Net strided;
  strided->fc1->weight.set_data(strided->fc1->weight.detach().t().contiguous().t());
  CATCH_CHECK_THAT(error_of([&] { ddp_torch::DistributedDataParallel(world_of_one(), *strided); }),
                   Catch::Contains("[ddp_torch] fc1.weight") && Catch::Contains("not contiguous"));

  Net computed;
  const torch::Tensor twice = computed->fc1->weight * 2;
  computed->register_parameter("twice", twice);
  CATCH_CHECK_THAT(error_of([&] { ddp_torch::DistributedDataParallel(world_of_one(), *computed); }),
                   Catch::Contains("'twice' is the result of a computation: detach() it"));
  CATCH_CHECK_THAT(error_of([&] {
                     ddp_torch::DistributedDataParallel(world_of_one(), *strided,
                                                        {.fold_scale = true});
                   }),
                   Catch::Contains("fold_scale"));

  Net summed;
  CATCH_CHECK_THAT(error_of([&] {
                     ddp_torch::DistributedDataParallel(world_of_one(), *summed,
                                                        {.gradient_kind = GradientKind::kSum});
                   }),
                   Catch::Contains("gradient_kind"));
}
