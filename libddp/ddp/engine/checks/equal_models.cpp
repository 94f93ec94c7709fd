// SPDX-License-Identifier: MIT
#include "ddp/engine/checks/equal_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/collectives/equal_on_all_ranks.h"
#include "ddp/engine/loss_factor.h"

namespace ddp {
namespace {

std::string_view to_string(GradientKind kind) {
  return kind == GradientKind::kSum ? "sum" : "mean";
}

std::string_view to_string(UnusedParameters unused) {
  switch (unused) {
    case UnusedParameters::kError:
      return "error";
    case UnusedParameters::kZero:
      return "zero";
    case UnusedParameters::kStatic:
      return "static";
  }
  return "";
}

std::string_view to_string(BufferSync sync) {
  switch (sync) {
    case BufferSync::kOnDemand:
      return "on_demand";
    case BufferSync::kEveryForward:
      return "every_forward";
    case BufferSync::kNever:
      return "never";
  }
  return "";
}

std::string_view to_string(NonFinite policy) {
  switch (policy) {
    case NonFinite::kIgnore:
      return "ignore";
    case NonFinite::kSkip:
      return "skip";
    case NonFinite::kStop:
      return "stop";
  }
  return "";
}

// fmt's numbers do not depend on the locale, which ranks may not share.
template <class Value>
NamedValue named(const char* name, const Value& value) {
  return {name, fmt::format("{}", value)};
}

// The options that must be equal on all ranks, but for the buffers.
std::vector<NamedValue> describe_options(const DdpOptions& options, const GradientHook* hook) {
  const BucketOptions& buckets = options.buckets;
  return {
      named("gradient_kind", to_string(options.gradient_kind)),
      named("nominal_samples", reference_samples(options)),
      named("fold_scale", options.fold_scale ? "yes" : "no"),
      named("buckets.bucket_bytes_cap", buckets.bucket_bytes_cap),
      named("buckets.first_bucket_bytes_cap", buckets.first_bucket_bytes_cap),
      named("buckets.last_bucket_bytes_cap", buckets.last_bucket_bytes_cap),
      named("buckets.parts", buckets.parts),
      named("buckets.min_buckets", buckets.min_buckets),
      named("buckets.order", fmt::format("[{}]", fmt::join(buckets.order, ", "))),
      named("flat_gradients", options.flat_gradients.data != nullptr ? "yes" : "no"),
      named("unused", to_string(options.unused)),
      named("buffer_sync", to_string(options.buffer_sync)),
      named("hook", hook != nullptr ? hook->name() : "none"),
      named("fingerprint_every", options.fingerprint_every),
      named("non_finite", to_string(options.non_finite)),
      named("scan_gradients", options.scan_gradients),
  };
}

// The description leaves out the device, because ranks on one host use different devices.
std::string describe_one(const Parameter& parameter) {
  return fmt::format("'{}' {}[{}]", parameter.name, to_string(parameter.value.dtype),
                     fmt::join(parameter.shape, ", "));
}

std::string describe_one(const ModelBuffer& buffer) {
  return fmt::format("'{}' {}[{}]", buffer.name, to_string(buffer.value.dtype), buffer.value.count);
}

template <class Named>  // Parameter, ModelBuffer
std::vector<NamedValue> describe_all(std::span<const Named> all, const std::string& what) {
  std::vector<std::string> elements;
  for (const Named& each : all) elements.push_back(describe_one(each));
  return named_elements(what, elements);
}

// What must be equal on all ranks.
std::vector<NamedValue> describe_model(std::span<const Parameter> parameters,
                                       const DdpOptions& options, const GradientHook* hook) {
  std::vector<NamedValue> values = describe_all(parameters, "parameter");
  std::ranges::move(describe_options(options, hook), std::back_inserter(values));
  std::ranges::move(describe_all<ModelBuffer>(options.buffers, "buffer"),
                    std::back_inserter(values));
  return values;
}

}  // namespace

void check_equal_models(ProcessGroup& group, std::span<const Parameter> parameters,
                        const DdpOptions& options, const GradientHook* hook) {
  check_equal_on_all_ranks(group, "[ddp] models", describe_model(parameters, options, hook));
}

}  // namespace ddp
