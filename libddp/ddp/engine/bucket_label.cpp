// SPDX-License-Identifier: MIT
#include "ddp/engine/bucket_label.h"

#include <algorithm>

namespace ddp {
namespace {

// The longest common prefix that ends with a dot.
std::string common_prefix(std::span<const std::string> names) {
  std::string prefix = names.front();
  for (const std::string& name : names) {
    const auto differs = std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end());
    prefix.erase(differs.first, prefix.end());
  }
  return prefix.substr(0, prefix.rfind('.') + 1);  // empty if there is no dot
}

}  // namespace

std::string bucket_label(std::size_t bucket, std::span<const std::string> parameters) {
  const std::string label = "bucket " + std::to_string(bucket) + ": ";
  if (parameters.empty()) return label + "nothing";
  if (parameters.size() == 1) return label + parameters.front();
  const std::string prefix = common_prefix(parameters);
  if (!prefix.empty()) return label + prefix + "*";
  return label + parameters.front() + " .. " + parameters.back();
}

std::vector<FlightRecorder::Label> add_bucket_labels(FlightRecorder& recorder,
                                                     const BucketLayout& layout,
                                                     std::span<const Parameter> parameters) {
  std::vector<FlightRecorder::Label> labels;
  for (const BucketSpec& bucket : layout.buckets) {
    std::vector<std::string> names;
    for (const std::size_t i : bucket.parameters) names.push_back(parameters[i].name);
    labels.push_back(recorder.labels().add(bucket_label(labels.size(), names)));
  }
  return labels;
}

}  // namespace ddp
