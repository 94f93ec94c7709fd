// SPDX-License-Identifier: MIT
//
// The part of checkpoint_file.h that copies loaded tensors into those of the program.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/tensor_writes.h"
#include "ddp/buffer_ops/host_transfer.h"
#include "ddp/io/checkpoint_file.h"

namespace ddp {
namespace {

constexpr std::string_view kWrapper = "module.";

std::string describe(const NamedBuffer& tensor) {
  return fmt::format("{}[{}]", to_string(tensor.buffer.dtype), fmt::join(tensor.shape, ", "));
}

bool is_allowed(FloatCast cast, DType from, DType to) {
  if (from == to) return true;
  if (cast == FloatCast::kNone || !is_floating_point(from) || !is_floating_point(to)) return false;
  // A wider type has all values of a narrower one; neither 16-bit type has all of the other's.
  return cast == FloatCast::kAny || size_of(from) < size_of(to);
}

// Finds loaded tensors by the targets' names; each can be taken once.
class TensorMatch {
 public:
  TensorMatch(const std::filesystem::path& path, const Safetensors& loaded, FloatCast cast)
      : path_(path), loaded_(loaded), cast_(cast) {
    for (const NamedBuffer& tensor : loaded.tensors) by_name_[tensor.name] = &tensor;
  }

  // Null if there is no tensor of that name.
  const NamedBuffer* take(const NamedBuffer& target) {
    auto found = by_name_.find(target.name);
    if (found == by_name_.end()) found = by_name_.find(std::string(kWrapper) + target.name);
    if (found == by_name_.end()) return nullptr;
    const NamedBuffer* tensor = found->second;
    by_name_.erase(found);
    return tensor;
  }

  // Throws unless the tensor can be copied into the target.
  void check(const NamedBuffer& tensor, const NamedBuffer& target) const {
    if (tensor.shape == target.shape && tensor.buffer.count != target.buffer.count) {
      throw std::invalid_argument("[checkpoint] the shape of target \"" + target.name +
                                  "\" has another number of elements than its memory, which is " +
                                  to_string(target.buffer));
    }
    const DType from = tensor.buffer.dtype, to = target.buffer.dtype;
    const bool has_shape = tensor.shape == target.shape;
    if (has_shape && is_allowed(cast_, from, to)) return;
    const bool would_round =
        has_shape && cast_ == FloatCast::kExact && is_allowed(FloatCast::kAny, from, to);
    fail(target.name, "is " + describe(tensor) + " in the file and " + describe(target) +
                          " in this program" + (would_round ? ", which would round it" : ""));
  }

  // The names that were not taken, in file order.
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const NamedBuffer& tensor : loaded_.tensors) {
      if (by_name_.contains(tensor.name)) names.push_back(tensor.name);
    }
    return names;
  }
  [[noreturn]] void fail(const std::string& name, const std::string& complaint) const {
    throw FileError("[checkpoint] " + path_.string() + ": tensor \"" + name + "\" " + complaint);
  }

 private:
  const std::filesystem::path& path_;
  const Safetensors& loaded_;
  FloatCast cast_;
  std::unordered_map<std::string, const NamedBuffer*> by_name_;
};

struct CopyPlan {
  const NamedBuffer* source;
  const NamedBuffer* target;
};

void copy_all(const std::vector<CopyPlan>& plans, Stream stream) {
  HostTransfer transfer(stream);
  for (const auto& [source, target] : plans) transfer.copy(source->buffer, target->buffer);
  transfer.wait();
}

[[noreturn]] void refuse_to_take_nothing(const std::filesystem::path& path,
                                         const UnmatchedNames& names) {
  const std::string origin = "[checkpoint] " + path.string() + ": ";
  if (!names.mismatched.empty()) {
    throw FileError(
        fmt::format("{}it has {} of this program's tensors, such as \"{}\", but all of "
                    "them in another shape",
                    origin, names.mismatched.size(), names.mismatched.front()));
  }
  if (names.unexpected.empty()) throw FileError(origin + "it has no tensors");
  throw FileError(fmt::format(
      "{}it has none of this program's {} tensors, such as \"{}\"; its own {} are such as \"{}\"",
      origin, names.missing.size(), names.missing.front(), names.unexpected.size(),
      names.unexpected.front()));
}

}  // namespace

UnmatchedNames restore_tensors(const std::filesystem::path& path, const Safetensors& loaded,
                               std::span<const NamedBuffer> targets,
                               const RestoreOptions& options) {
  TensorMatch match(path, loaded, options.cast);
  UnmatchedNames names;
  std::vector<CopyPlan> plans;
  std::unordered_set<std::string_view> target_names;
  for (const NamedBuffer& target : targets) {
    if (!target_names.insert(target.name).second) {
      throw std::invalid_argument("[checkpoint] two targets have the name \"" + target.name + "\"");
    }
    const NamedBuffer* tensor = match.take(target);
    if (tensor == nullptr) {
      if (!options.skip_unmatched) match.fail(target.name, "is missing");
      names.missing.push_back(target.name);
    } else if (tensor->shape != target.shape && options.skip_other_shapes) {
      names.mismatched.push_back(target.name);
    } else {
      match.check(*tensor, target);
      plans.push_back({tensor, &target});
    }
  }
  names.unexpected = match.left();
  if (!options.skip_unmatched && !names.unexpected.empty()) {
    match.fail(names.unexpected.front(),
               "is in the file, but nothing in this program has that name");
  }
  if (plans.empty() && !targets.empty()) refuse_to_take_nothing(path, names);
  copy_all(plans, options.stream);
  note_tensor_writes();
  return names;
}

}  // namespace ddp
