// SPDX-License-Identifier: MIT
#include "ddp/nn/models/factory.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/models/convnet.h"
#include "ddp/nn/models/lenet5.h"
#include "ddp/nn/models/mlp.h"
#include "ddp/nn/models/resnet18.h"
#include "ddp/nn/models/unet.h"

namespace ddp::nn {
namespace {

struct KnownModel {
  std::string_view name;
  std::unique_ptr<Module> (*make)(const Scope& scope, const ImageSizes& sizes);
};

std::unique_ptr<Module> make_mlp(const Scope& scope, const ImageSizes& sizes) {
  return std::make_unique<Mlp>(
      scope, MlpSizes{.inputs = sizes.channels * sizes.image.count(), .classes = sizes.classes});
}

std::unique_ptr<Module> make_lenet5(const Scope& scope, const ImageSizes& sizes) {
  return std::make_unique<LeNet5>(scope, sizes);
}

std::unique_ptr<Module> make_unet(const Scope& scope, const ImageSizes& sizes) {
  return std::make_unique<UNet>(scope,
                                UNetSizes{.channels = sizes.channels, .outputs = sizes.classes});
}

// Makes models that take images of any size.
template <class Model>
std::unique_ptr<Module> make(const Scope& scope, const ImageSizes& sizes) {
  return std::make_unique<Model>(scope, sizes.channels, sizes.classes);
}

constexpr KnownModel kModels[] = {{"mlp", make_mlp},
                                  {"lenet5", make_lenet5},
                                  {"convnet", make<ConvNet>},
                                  {"resnet18", make<ResNet18>},
                                  {"unet", make_unet}};

const KnownModel& find_model(std::string_view name) {
  std::string known;
  for (const KnownModel& model : kModels) {
    if (model.name == name) return model;
    known += (known.empty() ? "" : ", ") + std::string(model.name);
  }
  throw std::invalid_argument("[nn] there is no model \"" + std::string(name) +
                              "\", only: " + known);
}

}  // namespace

void check_model_name(std::string_view name) { (void)find_model(name); }

std::unique_ptr<Module> make_model(std::string_view name, const Scope& scope,
                                   const ImageSizes& sizes) {
  return find_model(name).make(scope, sizes);
}

}  // namespace ddp::nn
