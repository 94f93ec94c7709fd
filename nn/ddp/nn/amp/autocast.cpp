// SPDX-License-Identifier: MIT
#include "ddp/nn/amp/autocast.h"

#include <stdexcept>
#include <string>

#include "ddp/nn/ops.h"

namespace ddp::nn {

std::optional<DType> parse_amp(std::string_view name) {
  if (name == "none") return std::nullopt;
  if (name == "bf16") return DType::kBFloat16;
  if (name == "fp16") return DType::kFloat16;
  throw std::invalid_argument("[nn] there is no mixed precision \"" + std::string(name) +
                              "\", only: none, bf16, fp16");
}

std::string_view amp_name(std::optional<DType> type) {
  if (!type) return "none";
  return type == DType::kBFloat16 ? "bf16" : "fp16";
}

Variable narrowed(Tape& tape, const Variable& operand) { return tape.narrowed(operand); }

std::optional<Variable> narrowed(Tape& tape, const std::optional<Variable>& operand) {
  return operand ? std::optional(tape.narrowed(*operand)) : std::nullopt;
}

Variable widened(Tape& tape, const Variable& operand) {
  return must_widen(operand) ? cast(tape, operand, DType::kFloat32) : operand;
}

}  // namespace ddp::nn
