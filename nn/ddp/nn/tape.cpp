// SPDX-License-Identifier: MIT
#include "ddp/nn/tape.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/log.h"
#include "ddp/base/tensor_writes.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

constexpr int kManyTimes = 100;  // batches, unless the model shares the parameter

// Tapes are often made one after the other in the same place, so their addresses do not tell their
// variables apart.
std::uint64_t new_first_slot() {
  constexpr std::uint64_t kSlotsOfOne = std::uint64_t{1} << 32;
  static std::atomic<std::uint64_t> next = 0;
  return next.fetch_add(kSlotsOfOne, std::memory_order_relaxed);
}

}  // namespace

Tape::Tape(Context& context, Recording recording, std::optional<DType> autocast)
    : context_(context), recording_(recording), autocast_(autocast), first_slot_(new_first_slot()) {
  if (!autocast || *autocast == DType::kFloat16 || *autocast == DType::kBFloat16) return;
  throw std::invalid_argument("[nn] autocast to " + std::string(to_string(*autocast)) +
                              ", expected float16 or bfloat16, or nothing for the full precision "
                              "of the parameters");
}

const RandomKey& Tape::random_key() const {
  if (random_key_) return *random_key_;
  if (recording_ == Recording::kOff) {
    throw std::logic_error(
        "[nn] a layer makes random choices on a tape that does not record: to evaluate, call the "
        "model's eval() first; otherwise call set_random_key() before each forward pass");
  }
  throw std::logic_error(
      "[nn] a layer makes random choices, but the tape has no key: call set_random_key() before "
      "each forward pass");
}

Variable Tape::watch(Parameter& parameter) {
  if (recording_ == Recording::kOff || !parameter.requires_grad()) return parameter.value();
  Watch& watch = watched_[&parameter];
  if (watch.times == 0 || watch.version != parameter.version()) {
    watch.slot = add_slot(parameter.value(), &parameter);
    watch.version = parameter.version();
  }
  if (++watch.times == kManyTimes) warn_of_growth(parameter);
  return {parameter.value(), this, watch.slot};
}

void Tape::warn_of_growth(const Parameter& parameter) {
  if (std::exchange(has_warned_, true)) return;
  logging::warning("[nn] a tape has seen parameter '" + parameter.name() + "' " +
                   std::to_string(kManyTimes) +
                   " times without a backward(), and keeps all that was computed since: for a "
                   "validation make a tape with Recording::kOff");
}

Variable Tape::record_all(Tensor output, std::vector<Edge> edges) {
  for (const Edge& edge : edges) check_on_tape(edge.input);
  const std::size_t first_edge = edges_.size();
  for (Edge& edge : edges) add_edge(std::move(edge));
  return add_node(std::move(output), first_edge);
}

Variable Tape::narrowed(const Variable& operand) {
  if (!autocast_ || operand.value().dtype() != DType::kFloat32) return operand;
  const bool is_parameter =
      !operand.is_constant() && slots_[index_of(operand)].parameter != nullptr;
  if (!is_parameter) return cast(*this, operand, *autocast_);
  if (const auto writes = tensor_writes(); std::exchange(seen_writes_, writes) != writes) {
    narrowed_.clear();
  }
  const auto known = narrowed_.find(operand.slot_);
  if (known != narrowed_.end()) return known->second.reshaped(operand.shape());
  return narrowed_.emplace(operand.slot_, cast(*this, operand, *autocast_)).first->second;
}

void Tape::check_loss(const Variable& loss) const {
  if (loss.is_constant()) {
    throw std::logic_error(
        "[nn] backward: the loss does not depend on any parameter: all are frozen "
        "(set_requires_grad(false)), or the tape does not record (Recording::kOff)");
  }
  if (loss.value().count() != 1) {
    throw std::invalid_argument("[nn] backward: the loss has the shape " + to_string(loss.shape()) +
                                ", expected one element");
  }
  if (slots_[index_of(loss)].parameter != nullptr) {
    throw std::invalid_argument("[nn] backward: the loss is the parameter '" +
                                slots_[index_of(loss)].parameter->name() +
                                "' itself, expected the result of an operation");
  }
  check_unchanged(loss);
}

// Operations keep the parameters' memory, not copies of their values.
void Tape::check_unchanged(const Variable& loss) const {
  const auto has_changed = [](const Slot& slot) {
    return slot.parameter != nullptr && slot.parameter->version() != slot.version;
  };
  if (std::ranges::none_of(slots_, has_changed)) return;
  std::vector<bool> is_needed(slots_.size());
  is_needed[index_of(loss)] = true;
  std::size_t end = edges_.size();
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); end = (node++)->first_edge) {
    if (!is_needed[node->output]) continue;
    for (std::size_t i = node->first_edge; i < end; ++i) is_needed[edges_[i].input] = true;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!is_needed[i] || !has_changed(slots_[i])) continue;
    throw std::logic_error("[nn] backward: parameter '" + slots_[i].parameter->name() +
                           "' has changed since the forward pass (an optimizer's step?), so "
                           "gradients would be wrong: run the backward of a forward pass before "
                           "its parameters change, or the forward pass again after clear()");
  }
}

std::vector<Parameter*> Tape::backward(const Variable& loss, const BackwardOptions& options) {
  check_loss(loss);
  struct ClearAtExit {
    Tape& tape;
    ~ClearAtExit() { tape.clear(); }
  } const clear_at_exit{*this};

  Slot& slot = slots_[index_of(loss)];
  fill(target_of(slot).buffer, options.seed, context_.stream());
  std::vector<Parameter*> reached;
  try {
    play(options, reached);
  } catch (...) {
    drop_gradients();
    throw;
  }
  return reached;
}

// Of the parameters that this pass has reached: the next one would add to a part of a gradient.
void Tape::drop_gradients() {
  for (const Slot& slot : slots_) {
    if (slot.parameter != nullptr && slot.is_written) slot.parameter->clear_grad();
  }
}

// Nodes are in the order of computation, so in reverse the gradient of an output is complete when
// its node's turn comes. A node that the loss does not depend on computes nothing, but counts as
// done, since it may have been the last use of a parameter.
void Tape::play(const BackwardOptions& options, std::vector<Parameter*>& reached) {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    Slot& output = slots_[node->output];
    for (std::size_t i = node->first_edge; i < edges_.size(); ++i) {
      Slot& input = slots_[edges_[i].input];
      if (output.is_written) edges_[i].backward(output.grad.buffer(), target_of(input));
      if (--input.pending_uses > 0 || !input.is_written || input.parameter == nullptr) continue;
      reached.push_back(input.parameter);
      if (options.on_grad_ready) options.on_grad_ready(*input.parameter);
    }
    edges_.resize(node->first_edge);  // frees the activations that only this node needed
    output.grad = {};
  }
}

// Returns where to write the next contribution to the slot's gradient, and marks the gradient as
// written.
GradientTarget Tape::target_of(Slot& slot) {
  if (slot.parameter != nullptr) {
    const bool accumulate = slot.parameter->has_grad();
    slot.parameter->mark_grad_written();
    slot.is_written = true;
    return {slot.parameter->grad().buffer(),
            accumulate ? WriteMode::kAccumulate : WriteMode::kOverwrite};
  }
  if (slot.is_written) return {slot.grad.buffer(), WriteMode::kAccumulate};
  slot.grad = context_.empty(slot.shape, slot.dtype);
  slot.is_written = true;
  return {slot.grad.buffer(), WriteMode::kOverwrite};
}

void Tape::check_on_tape(const Variable& variable) const {
  if (!variable.is_constant()) static_cast<void>(index_of(variable));
}

void Tape::add_edge(Edge edge) {
  if (recording_ == Recording::kOff || edge.input.is_constant()) return;
  const std::size_t input = index_of(edge.input);
  ++slots_[input].pending_uses;
  edges_.push_back({input, std::move(edge.backward)});
}

Variable Tape::add_node(Tensor output, std::size_t first_edge) {
  if (edges_.size() == first_edge) return output;
  const std::uint64_t slot = add_slot(output, nullptr);
  Variable variable(std::move(output), this, slot);
  nodes_.push_back({index_of(variable), first_edge});
  return variable;
}

std::uint64_t Tape::add_slot(const Tensor& value, Parameter* parameter) {
  slots_.push_back({.shape = value.shape(),
                    .dtype = value.dtype(),
                    .parameter = parameter,
                    .version = parameter == nullptr ? 0 : parameter->version(),
                    .grad = {}});
  return first_slot_ + slots_.size() - 1;
}

std::size_t Tape::index_of(const Variable& variable) const {
  const std::uint64_t index = variable.slot_ - first_slot_;
  if (variable.tape_ != this || index >= slots_.size()) {
    throw std::logic_error(
        "[nn] a variable of shape " + to_string(variable.shape()) +
        " is not on this tape: it belongs to another, or backward has run since");
  }
  return static_cast<std::size_t>(index);
}

void Tape::clear() {
  first_slot_ += slots_.size();
  slots_.clear();
  edges_.clear();
  nodes_.clear();
  watched_.clear();
  narrowed_.clear();
  random_key_.reset();
}

}  // namespace ddp::nn
