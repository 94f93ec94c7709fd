// SPDX-License-Identifier: MIT
//
// Counts the calls with which a host waits for its GPU, in what should only enqueue work. This
// program overrides these functions of the emulated runtime.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "ddp/nn/models/lenet5.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/adam.h"
#include "ddp/nn/optim/clip_grad_norm.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/data_parallel.h"

using namespace ddp;

namespace {

std::atomic<int> waits = 0;

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

cudaError_t cudaDeviceSynchronize() {
  ++waits;
  return next(&cudaDeviceSynchronize, "cudaDeviceSynchronize")();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++waits;
  return next(&cudaStreamSynchronize, "cudaStreamSynchronize")(stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++waits;
  return next(&cudaEventSynchronize, "cudaEventSynchronize")(event);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {  // in a loop it is a wait
  ++waits;
  return next(&cudaStreamQuery, "cudaStreamQuery")(stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  ++waits;
  return next(&cudaEventQuery, "cudaEventQuery")(event);
}

// Waits for the device before it frees.
cudaError_t cudaFree(void* memory) {
  ++waits;
  return next(&cudaFree, "cudaFree")(memory);
}

namespace {

std::unique_ptr<nn::Optimizer> make_optimizer(bool is_adam, nn::Context& context,
                                              nn::Module& model) {
  if (is_adam) {
    return std::make_unique<nn::Adam>(context, model.parameters(), AdamStep{.learning_rate = 0.1});
  }
  return std::make_unique<nn::Sgd>(context, model.parameters(),
                                   SgdStep{.learning_rate = 0.1, .momentum = 0.9});
}

}  // namespace

TEST_CASE("DataParallel on two GPUs does not wait for them", "[nn][data-parallel]") {
  nn::Context context(cuda_device(0));
  nn::DataParallel model(context, {context, DType::kFloat32, 1},
                         [](const nn::Scope& scope) { return std::make_unique<nn::LeNet5>(scope); },
                         {.device_ids = {cuda_device(0), cuda_device(1)}});
  nn::Sgd optimizer(context, model.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  nn::Tape tape(context);
  const nn::Tensor x = context.from_host<float>(std::vector<float>(3 * 784, 0.5F), {3, 1, 28, 28});
  const nn::Tensor labels =
      context.from_host<std::int64_t>(std::vector<std::int64_t>{1, 2, 3}, {3});
  for (int step = 0; step < 4; ++step) {  // the first ones allocate
    const int before = waits;
    tape.backward(nn::softmax_cross_entropy(tape, model.forward(tape, x), labels));
    optimizer.step();
    CHECK((step < 2 || waits == before));
  }
}

TEST_CASE("clipping and an optimizer's step do not wait for the GPU", "[nn]") {
  const bool is_adam = GENERATE(false, true);
  nn::Context context(cuda_device(0));
  nn::LeNet5 model({context, DType::kFloat32, 1});
  const auto optimizer = make_optimizer(is_adam, context, model);
  nn::Tape tape(context);
  const nn::Tensor x = context.from_host<float>(std::vector<float>(2 * 784, 0.5F), {2, 1, 28, 28});
  const nn::Tensor labels = context.from_host<std::int64_t>(std::vector<std::int64_t>{1, 2}, {2});
  for (int step = 0; step < 3; ++step) {  // the first one allocates
    tape.backward(nn::softmax_cross_entropy(tape, model.forward(tape, x), labels));
    const int before = waits;
    {
      const nn::ClippedNorm clipped = clip_grad_norm(context, model.parameters(), 0.1);
      optimizer->step(clipped.grad_scale());
    }
    CHECK((step == 0 || waits == before));
  }
  const int before = waits;
  context.synchronize();
  CHECK(waits > before);  // what is counted are the calls that libddp makes
}
