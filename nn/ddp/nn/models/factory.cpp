// SPDX-License-Identifier: MIT
#include "ddp/nn/models/factory.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "ddp/nn/models/convnet.h"
#include "ddp/nn/models/gpt.h"
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

struct KnownGpt {
  std::string_view name;
  std::size_t layers;
  std::size_t heads;
  std::size_t width;
};

constexpr KnownGpt kGpts[] = {{"gpt-nano", 3, 3, 48},
                              {"gpt-micro", 4, 4, 128},
                              {"gpt-mini", 6, 6, 192},
                              {"gpt2", 12, 12, 768}};

template <class Model, std::size_t n>
const Model* find(const Model (&models)[n], std::string_view name) {
  const Model* found = std::ranges::find(models, name, &Model::name);
  return found == std::end(models) ? nullptr : found;
}

template <class Model, std::size_t n>
void add_names(const Model (&models)[n], std::string& list) {
  for (const Model& model : models) {
    list += (list.empty() ? "" : ", ") + std::string(model.name);
  }
}

[[noreturn]] void refuse(const char* what, std::string_view name, const std::string& known) {
  throw std::invalid_argument("[nn] there is no " + std::string(what) + " \"" + std::string(name) +
                              "\", only: " + known);
}

}  // namespace

bool is_language_model(std::string_view name) { return find(kGpts, name) != nullptr; }

void check_model_name(std::string_view name) {
  if (find(kModels, name) != nullptr || is_language_model(name)) return;
  std::string known;
  add_names(kModels, known);
  add_names(kGpts, known);
  refuse("model", name, known);
}

std::unique_ptr<Module> make_model(std::string_view name, const Scope& scope,
                                   const ImageSizes& sizes) {
  if (const KnownModel* model = find(kModels, name)) return model->make(scope, sizes);
  std::string known;
  add_names(kModels, known);
  refuse("model of images", name, known);
}

std::unique_ptr<Module> make_language_model(std::string_view name, const Scope& scope,
                                            const TextSizes& sizes) {
  if (const KnownGpt* gpt = find(kGpts, name)) {
    return std::make_unique<Gpt>(scope, GptOptions{.vocabulary = sizes.vocabulary,
                                                   .context = sizes.context,
                                                   .layers = gpt->layers,
                                                   .heads = gpt->heads,
                                                   .width = gpt->width});
  }
  std::string known;
  add_names(kGpts, known);
  refuse("language model", name, known);
}

}  // namespace ddp::nn
