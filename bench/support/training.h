// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ddp/ddp.h"
#include "ddp/nn/optim/sgd.h"
#include "ddp/nn/parallel/distributed_module.h"
#include "support/workload.h"

namespace ddp::bench {

// A model of the factory that trains on one batch on the group's device, again and again: forward,
// loss, backward and SGD. On CUDA the host only puts steps on a stream.
class Training {
 public:
  Training(const Workload& workload, std::shared_ptr<ProcessGroup> group, DdpOptions options = {});

  // A step of so many passes, each over the batch.
  void step(int passes = 1);
  // As in a loop whose ranks may run out of data: says that this one, with so many samples, has
  // not, and asks whether all have; false, without the optimizer's step, if so.
  [[nodiscard]] bool step_unless_over(double samples);
  // The same, but backward begins when the device has done forward, so that its times tell its own.
  void step_in_parts();
  // As if there were no engine, on the same memory; the world must be one of one.
  void step_without_engine();

  // Waits until the device has done all steps.
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
