// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/ddp.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/workload.h"

namespace ddp::bench {

// A model of the factory that repeatedly trains on one batch on the group's device: forward, loss,
// backward and SGD. On CUDA the host only enqueues the steps.
class Training {
 public:
  Training(const Workload& workload, std::shared_ptr<ProcessGroup> group, DdpOptions options = {});

  // Makes a step of `passes` passes, each over the whole batch.
  void step(int passes = 1);
  // Makes a step as in a loop whose ranks may run out of data: says that this rank still has
  // `samples` samples, and asks whether all ranks have run out. Returns false, without the
  // optimizer's step, if they have.
  [[nodiscard]] bool step_unless_over(double samples);
  // Makes a step whose backward begins when the device has finished forward, so that the engine's
  // times cover backward only.
  void step_in_parts();
  // Makes the step without the engine, on the same memory. The world must have one rank.
  void step_without_engine();

  // Blocks until the device has finished all steps.
  void synchronize() const { context_.synchronize(); }

  [[nodiscard]] DistributedDataParallel& engine() { return replica_.engine(); }
  [[nodiscard]] Stream stream() const { return context_.stream(); }

 private:
  [[nodiscard]] nn::Variable loss();

  nn::Context context_;
  nn::Tape tape_;
  std::unique_ptr<nn::Module> module_;
  nn::DistributedModule replica_;
  nn::Sgd sgd_;
  Batch batch_;
};

}  // namespace ddp::bench
