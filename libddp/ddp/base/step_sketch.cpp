// SPDX-License-Identifier: MIT
#include "ddp/base/step_sketch.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "ddp/base/error.h"
#include "ddp/base/random.h"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN: null stands for it.
TensorSketch to_sketch(const Json& json) {
  TensorSketch result;
  for (std::size_t j = 0; j < kProjections; ++j) {
    const Json& number = json.at(j);
    result[j] = number.is_null() ? std::numeric_limits<double>::quiet_NaN() : number.get<double>();
  }
  return result;
}

ParameterSketch to_parameter(const Json& json) {
  return {.name = json.at("name"),
          .count = json.at("count"),
          .value = to_sketch(json.at("value")),
          .gradient = to_sketch(json.at("gradient"))};
}

}  // namespace

TensorSketch sketch(std::span<const double> tensor, std::uint64_t stream) {
  TensorSketch result{};
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    const std::uint64_t bits = random_bits(0, stream, i);
    for (std::size_t j = 0; j < kProjections; ++j) {
      result[j] += (bits >> j & 1U) != 0 ? tensor[i] : -tensor[i];
    }
  }
  return result;
}

std::string to_json(const StepSketch& step) {
  Json parameters = Json::array();
  for (const ParameterSketch& parameter : step.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"count", parameter.count},
                          {"value", parameter.value},
                          {"gradient", parameter.gradient}});
  }
  const Json json = {
      {"engine", step.engine},   {"engines", step.engines},         {"step", step.step},
      {"samples", step.samples}, {"has_buffers", step.has_buffers}, {"parameters", parameters}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StepSketch parse_step_sketch(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    StepSketch result{.engine = json.at("engine"),
                      .engines = json.at("engines"),
                      .step = json.at("step"),
                      .samples = json.at("samples"),
                      .has_buffers = json.at("has_buffers"),
                      .parameters = {}};
    for (const Json& parameter : json.at("parameters")) {
      result.parameters.push_back(to_parameter(parameter));
    }
    return result;
  } catch (const Json::exception& error) {
    throw FileError(std::string("not a sketch of a step: ") + error.what());
  }
}

}  // namespace ddp
