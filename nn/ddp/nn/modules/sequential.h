// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddp/nn/module.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// Layers that are applied one after the other. A layer is a module or a function without
// parameters. As in torch.nn.Sequential, a layer's name is its number, and functions count, too:
//
//   Sequential net(scope);
//   net.append<Linear>(784, 128);  // "0.weight", "0.bias"
//   net.append(relu);
//   net.append<Linear>(128, 10);   // "2.weight", "2.bias"
//
// One inside another gets its layers when it is made:
//
//   net.append<Sequential>([](Sequential& block) { block.append<Linear>(10, 10); });  //
//   "3.0.weight"
class Sequential final : public Module {
 public:
  using Function = std::function<Variable(Tape&, const Variable&)>;

  explicit Sequential(Scope scope) : scope_(std::move(scope)) {}
  Sequential(Scope scope, const std::function<void(Sequential&)>& fill)
      : Sequential(std::move(scope)) {
    fill(*this);
  }

  // Constructs an M from its scope and the arguments.
  template <class M, class... Args>
  M& append(Args&&... args) {
    auto module = std::make_unique<M>(scope_.child(std::to_string(layers_.size())),
                                      std::forward<Args>(args)...);
    M& made = *module;
    append(std::move(module));
    return made;
  }
  void append(Function function) { layers_.push_back(std::move(function)); }

  Variable forward(Tape& tape, const Variable& input) override;

 private:
  void append(std::unique_ptr<Module> module);

  Scope scope_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<Function> layers_;
};

}  // namespace ddp::nn
