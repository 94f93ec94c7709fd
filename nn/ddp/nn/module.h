// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/nn/parameter.h"
#include "ddp/nn/tape.h"

namespace ddp::nn {

// A function with parameters. A module registers its parameters, buffers and child modules in its
// constructor. They are its members, so a module can be neither copied nor moved. Names are full
// names ("layer1.0.bn1.weight") from the start; the Scope gives them.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  [[nodiscard]] virtual Variable forward(Tape& tape, const Variable& input) = 0;

  // Those of children included, in the order of registration, with PyTorch's names ("fc1.weight").
  [[nodiscard]] std::span<Parameter* const> parameters() const { return parameters_; }
  // State that belongs to the model but is not trained, such as batch-norm statistics.
  [[nodiscard]] std::span<const NamedTensor> buffers() const { return buffers_; }
  // Parameters, then buffers: the model's part of a checkpoint. Views of the live tensors.
  [[nodiscard]] std::vector<NamedTensor> state_dict() const;

  // This module, then its children and theirs, depth first.
  [[nodiscard]] std::vector<Module*> modules();

  // Sets whether forward is for training, in which batch norms use the batch's statistics and
  // dropouts drop; also in all children. True at first.
  void train(bool is_training = true);
  void eval() { train(false); }
  [[nodiscard]] bool is_training() const { return is_training_; }

  // False freezes all parameters, those of children included, true frees them: torch's
  // requires_grad_(). For fine-tuning, freeze before an optimizer or a DistributedModule is made;
  // for a loss that passes through another model, such as a GAN's, before that model's forward.
  // Batch norms go on with their running statistics until they are in evaluation: see eval().
  void set_requires_grad(bool requires_grad);

 protected:
  // std::invalid_argument if the name is taken by another one of its kind. std::logic_error if this
  // module is a child already: its parent has taken the parameters that were there then.
  void register_parameter(Parameter& parameter);
  void register_buffer(NamedTensor buffer);
  // For a module whose dropped elements are a function of this name: two of them with one name
  // would drop the same.
  void register_dropout(std::string name);
  void register_module(Module& child);

 private:
  void check_new_parameter(const Parameter& parameter) const;
  void check_new_buffer(const NamedTensor& buffer) const;
  void check_new_dropout(const std::string& name) const;
  void check_is_no_child(const std::string& name) const;

  std::vector<Parameter*> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<std::string> dropouts_;  // their names
  std::vector<Module*> children_;
  bool is_training_ = true;
  bool is_child_ = false;
};

}  // namespace ddp::nn
