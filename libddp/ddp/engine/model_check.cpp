// SPDX-License-Identifier: MIT
#include "ddp/engine/model_check.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/host_collectives.h"

namespace ddp {
namespace {

void check_parameter(const ProcessGroup& group, const Parameter& parameter) {
  const Buffer& value = parameter.value;
  const Buffer& grad = parameter.grad;
  const auto refuse = [&](const std::string& complaint) {
    throw std::invalid_argument("[ddp] parameter '" + parameter.name + "': " + complaint);
  };
  std::int64_t elements = 1;
  for (const std::int64_t extent : parameter.shape) elements *= extent;
  if (static_cast<std::size_t>(elements) != value.count) {
    refuse("its shape has " + std::to_string(elements) + " elements, its value is " +
           to_string(value));
  }
  if (value.device != group.device() || !is_floating_point(value.dtype)) {
    refuse("its value is " + to_string(value) + ", but must be floating-point on " +
           to_string(group.device()));
  }
  const bool alike =
      grad.count == value.count && grad.dtype == value.dtype && grad.device == value.device;
  if (grad.data != nullptr && !alike) {
    refuse("its gradient is " + to_string(grad) + ", its value " + to_string(value));
  }
}

using Lines = std::vector<std::string>;

// Not where it is: ranks of one host have different devices.
std::string describe_buffer(const ModelBuffer& buffer) {
  return "buffer '" + buffer.name + "' " + std::string(to_string(buffer.value.dtype)) + '[' +
         std::to_string(buffer.value.count) + ']';
}

std::string describe_parameter(const Parameter& parameter) {
  std::ostringstream text;
  text << "'" << parameter.name << "' " << to_string(parameter.value.dtype) << '[';
  for (std::size_t i = 0; i < parameter.shape.size(); ++i) {
    text << (i == 0 ? "" : ", ") << parameter.shape[i];
  }
  text << ']';
  return text.str();
}

Lines split(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// What must be equal beside the parameters, one line each.
Lines describe_options(const DdpOptions& options, const GradientHook* hook) {
  const BucketOptions& buckets = options.buckets;
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << "gradient_kind " << (options.gradient_kind == GradientKind::kSum ? "sum" : "mean")
       << "\nnominal_samples " << options.nominal_samples << "\nbucket caps "
       << buckets.first_bucket_bytes_cap << ", " << buckets.bucket_bytes_cap << " and "
       << buckets.last_bucket_bytes_cap << " bytes, 1/" << buckets.parts
       << " of the model, at least " << buckets.min_buckets << " buckets\nbucket order";
  for (const std::size_t i : buckets.order) text << ' ' << i;
  text << "\nflat_gradients " << (options.flat_gradients.data != nullptr ? "yes" : "no");
  text << "\nunused " << static_cast<int>(options.unused) << "\nbuffer_sync "
       << static_cast<int>(options.buffer_sync) << "\nhook " << (hook ? hook->name() : "none")
       << "\nfingerprint_every " << options.fingerprint_every << "\nnon_finite "
       << static_cast<int>(options.non_finite) << ", scan_gradients " << options.scan_gradients
       << '\n'
       << options.buffers.size() << " buffers";
  return split(text.str());
}

// One line a parameter, then what else must be equal.
Lines describe_model(std::span<const Parameter> parameters, const DdpOptions& options,
                     const GradientHook* hook) {
  Lines lines;
  for (const Parameter& parameter : parameters) lines.push_back(describe_parameter(parameter));
  for (std::string& line : describe_options(options, hook)) lines.push_back(std::move(line));
  for (const ModelBuffer& buffer : options.buffers) {
    lines.push_back(describe_buffer(buffer));
  }
  return lines;
}

std::string join(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::uint64_t hash_of(std::string text) {
  std::uint64_t hash = 0;
  const std::span bytes(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  cpu::fingerprint(buffer_of(bytes), &hash);
  return hash ^ text.size();
}

// Everybody's hash, by rank.
std::vector<std::int64_t> gather_hashes(ProcessGroup& group, std::uint64_t own) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.world_size()));
  auto mine = static_cast<std::int64_t>(own);
  all_gather_on_host(group, buffer_of(std::span(&mine, 1)), buffer_of(all));
  return all;
}

// The sentence about the first line in which another rank's model differs from rank 0's.
std::string first_difference(const Lines& first, const Lines& other, int other_rank,
                             std::size_t parameter_count) {
  const std::string nothing = "nothing";
  std::size_t i = 0;
  while (i < std::min(first.size(), other.size()) && first[i] == other[i]) ++i;
  const std::string what =
      i < parameter_count ? "parameter " + std::to_string(i) : std::string("the set-up");
  return "[ddp] models differ in " + what + ": rank 0 has " +
         (i < first.size() ? first[i] : nothing) + ", rank " + std::to_string(other_rank) +
         " has " + (i < other.size() ? other[i] : nothing);
}

}  // namespace

std::vector<Parameter> checked(const ProcessGroup& group, std::vector<Parameter> parameters) {
  if (parameters.empty()) throw std::invalid_argument("[ddp] a model without parameters");
  for (const Parameter& parameter : parameters) check_parameter(group, parameter);
  return parameters;
}

void check_flat_gradients(std::span<const Parameter> parameters, const Buffer& flat) {
  if (flat.data == nullptr) return;
  std::size_t elements = 0;
  for (const Parameter& parameter : parameters) {
    elements += parameter.value.count;
    if (parameter.grad.data == nullptr) continue;
    throw std::invalid_argument("[ddp] parameter '" + parameter.name +
                                "' has a gradient of its own beside flat_gradients");
  }
  const Buffer& value = parameters[0].value;
  if (flat.count == elements && flat.dtype == value.dtype && flat.device == value.device) return;
  throw std::invalid_argument("[ddp] flat_gradients is " + to_string(flat) +
                              ", the parameters have " + std::to_string(elements) +
                              " elements of " + std::string(to_string(value.dtype)) + " on " +
                              to_string(value.device));
}

void check_equal_models(ProcessGroup& group, std::span<const Parameter> parameters,
                        const DdpOptions& options, const GradientHook* hook) {
  const Lines own = describe_model(parameters, options, hook);
  const std::vector<std::int64_t> hashes = gather_hashes(group, hash_of(join(own)));
  const auto odd = std::find_if(hashes.begin(), hashes.end(),
                                [&](std::int64_t hash) { return hash != hashes[0]; });
  if (odd == hashes.end()) return;
  // Only now is the whole description worth sending: the two that differ publish theirs.
  // The keys tell models apart, since a group may check several.
  const int other = static_cast<int>(odd - hashes.begin());
  const auto key = [&](std::int64_t hash) { return "model/" + std::to_string(hash); };
  const std::int64_t own_hash = hashes[static_cast<std::size_t>(group.rank())];
  if (group.rank() == 0 || group.rank() == other) group.store().set(key(own_hash), join(own));
  const Lines first = split(group.store().get(key(hashes[0])));
  const Lines second = split(group.store().get(key(*odd)));
  throw MismatchError(first_difference(first, second, other, parameters.size()));
}

void broadcast_model(ProcessGroup& group, std::span<const Parameter> parameters,
                     std::span<const ModelBuffer> buffers) {
  Work last;
  for (const Parameter& parameter : parameters) last = group.broadcast(parameter.value, 0);
  for (const ModelBuffer& buffer : buffers) last = group.broadcast(buffer.value, 0);
  if (last.group != nullptr) last.wait_host();
}

}  // namespace ddp
