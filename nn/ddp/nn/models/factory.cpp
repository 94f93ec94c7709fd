// SPDX-License-Identifier: MIT
#include "ddp/nn/models/factory.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/models/lenet5.h"
#include "ddp/nn/models/mlp.h"

namespace ddp::nn {
namespace {

struct KnownModel {
  std::string_view name;
  std::unique_ptr<Module> (*make)(const Scope&);
};

template <class Model>
std::unique_ptr<Module> make(const Scope& scope) {
  return std::make_unique<Model>(scope);
}

constexpr KnownModel kModels[] = {{"mlp", make<Mlp>}, {"lenet5", make<LeNet5>}};

}  // namespace

std::unique_ptr<Module> make_model(std::string_view name, const Scope& scope) {
  std::string known;
  for (const KnownModel& model : kModels) {
    if (model.name == name) return model.make(scope);
    known += (known.empty() ? "" : ", ") + std::string(model.name);
  }
  throw std::invalid_argument("[nn] there is no model \"" + std::string(name) +
                              "\", only: " + known);
}

}  // namespace ddp::nn
