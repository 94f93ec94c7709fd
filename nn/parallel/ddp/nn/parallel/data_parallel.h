// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "ddp/nn/module.h"
#include "ddp/nn/parallel/scatter.h"
#include "ddp/nn/scope.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

using ModuleFactory = std::function<std::unique_ptr<Module>(const Scope&)>;

// The mean loss over the rows of a module's output, a scalar.
using LossFunction =
    std::function<Variable(Tape& tape, const Variable& output, const Tensor& targets)>;

struct DataParallelOptions {
  // Where the replicas compute. The context's device must be among them; the CPU may occur several
  // times, a GPU once.
  std::vector<Device> device_ids;
  // Along which inputs are scattered and outputs gathered. Along another one than 0, dropout drops
  // other elements than on one device.
  std::size_t dim = 0;
};

// One process on several devices: torch.nn.DataParallel. A pass scatters its batch (torch.chunk),
// copies the parameters to the replicas, runs them in parallel on their own threads, and gathers
// the outputs on the tape's device; backward sums the replicas' gradients into the module's. One
// process per device with DistributedModule is faster and is the right choice for training; this
// class is for programs that must stay one process.
//
// The tape's context is PyTorch's output_device: the module's context, or one on any other device,
// where the loss is then computed. Parameters and optimizer state stay on the module's device.
//
// Differences that matter to users of PyTorch. The gathered output is the whole batch, so its mean
// loss is exact however uneven the pieces are; loss() computes it on the devices, weights the
// pieces by their sizes, and gathers scalars only. Names have no prefix "module.". A buffer
// (batch-norm statistics) follows only the module's own piece of the batch.
class DataParallel final : public Module {
 public:
  // Calls `make` once for each device; the first call, with `scope`, makes the module itself on
  // `context`. Throws std::invalid_argument if the device ids violate the rules above, or if
  // `make` does not give every device the same parameters, buffers and child modules.
  DataParallel(Context& context, const Scope& scope, const ModuleFactory& make,
               const DataParallelOptions& options);
  ~DataParallel() override;

  // `input` is a constant on the module's device. The output has its size in dimension `dim`, and
  // is on the tape's device. Rethrows what a replica throws; if that happens in the tape's
  // backward, no parameter of the module has a gradient any more.
  Variable forward(Tape& tape, const Variable& input) override;

  // The mean loss over the whole batch, on the tape's device. `targets`, on the module's device, is
  // cut along dimension 0, in which it must have one element for each sample of the input, else
  // std::invalid_argument; so is a loss of more than one element.
  [[nodiscard]] Variable loss(Tape& tape, const Tensor& input, const Tensor& targets,
                              const LossFunction& function);

  [[nodiscard]] Module& module() { return *module_; }

 private:
  struct Replica;
  struct Part;
  struct Pass;
  struct Work;
  // Computes the gradient of a part's output from that of the whole, on the part's context.
  using Split = std::function<Tensor(const Buffer& grad, const Part& part)>;

  [[nodiscard]] Variable compute(Tape& tape, const Work& work);
  [[nodiscard]] std::shared_ptr<Pass> scatter(const Tape& tape, const Work& work);
  void copy_model_to(Replica& replica);
  void run(Pass& pass, const std::function<void(Part&)>& work);
  [[nodiscard]] Variable gather(Tape& tape, const std::shared_ptr<Pass>& pass);
  [[nodiscard]] Variable sum_losses(Tape& tape, const std::shared_ptr<Pass>& pass);
  [[nodiscard]] Variable record(Tape& tape, Tensor output, const std::shared_ptr<Pass>& pass,
                                const Split& split);
  static void or_drop_gradients(const Pass& pass, const std::function<void()>& act);
  void collect_gradients(const Pass& pass, std::size_t parameter, GradientTarget target);

  Context& context_;
  std::size_t dim_;
  std::unique_ptr<Module> module_;
  std::vector<std::unique_ptr<Replica>> replicas_;  // except the module itself
};

}  // namespace ddp::nn
