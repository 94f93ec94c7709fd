// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

#include "ddp/ddp.h"
#include "ddp/nn/ops.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"

namespace ddp::bench {

struct Workload {
  std::string model;  // of the factory
  std::size_t batch = 64;
  DType dtype = DType::kFloat32;
};

// A model on one batch of images of 28 x 28 on the CPU, again and again, without the engine.
class Training {
 public:
  explicit Training(const Workload& workload);

  // Forward, loss, backward and SGD.
  void step();

 protected:
  [[nodiscard]] nn::Variable loss();

  nn::Context context_;
  nn::Tape tape_{context_};
  std::unique_ptr<nn::Module> module_;
  nn::Sgd sgd_;

 private:
  nn::Tensor images_;
  nn::Tensor labels_;
};

// The same with it.
class DistributedTraining : private Training {
 public:
  DistributedTraining(const Workload& workload, std::shared_ptr<ProcessGroup> group,
                      DdpOptions options);

  // A step of so many passes, each over the batch.
  void step(int passes = 1);

  [[nodiscard]] DistributedDataParallel& engine() { return replica_.engine(); }

 private:
  nn::DistributedModule replica_;
};

}  // namespace ddp::bench
