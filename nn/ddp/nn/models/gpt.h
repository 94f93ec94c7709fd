// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ddp/nn/module.h"
#include "ddp/nn/modules/dropout.h"
#include "ddp/nn/modules/embedding.h"
#include "ddp/nn/modules/layer_norm.h"
#include "ddp/nn/modules/linear.h"
#include "ddp/nn/scope.h"

namespace ddp::nn {

// By default those of the smallest GPT-2, of 124 million parameters.
struct GptOptions {
  std::size_t vocabulary = 50257;
  std::size_t context = 1024;  // the most tokens of a sample
  std::size_t layers = 12;
  std::size_t heads = 12;  // of a layer; a divisor of the width
  std::size_t width = 768;
  double dropout = 0;  // GPT-2 was trained with 0.1
};

// Causal self-attention, then two fully connected layers, each after a layer norm and beside a
// shortcut.
class GptBlock final : public Module {
 public:
  GptBlock(const Scope& scope, const GptOptions& options);

  // input: n x tokens x width.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  Variable attend(Tape& tape, const Variable& x);

  std::size_t heads_;
  double attention_dropout_;
  std::uint64_t attention_dropout_layer_;
  LayerNorm ln_1_;
  Linear attn_c_attn_;
  Linear attn_c_proj_;
  Dropout attn_dropout_;
  LayerNorm ln_2_;
  Linear mlp_c_fc_;
  Linear mlp_c_proj_;
  Dropout mlp_dropout_;
};

// GPT-2 (Radford et al. 2019): the layers, names and initial distributions of Hugging Face's
// GPT2Model, followed by logits that share the weight of the tokens' embedding. To load a file of
// Hugging Face's, transpose the weights of c_attn, c_proj and c_fc, which are in x out there, and
// leave out the masks (h.0.attn.bias). nanoGPT's names have a prefix, Gpt(scope.child(
// "transformer")), and its weights are out x in, as here; leave out lm_head.weight, which is
// wte.weight.
class Gpt final : public Module {
 public:
  // std::invalid_argument unless the heads divide the width.
  explicit Gpt(const Scope& scope, const GptOptions& options = {});

  // input: tokens, a constant of int64, n x at most `context` (std::invalid_argument). Returns the
  // logits of the token that follows each: n * tokens x vocabulary.
  Variable forward(Tape& tape, const Variable& input) override;

 private:
  GptOptions options_;
  Embedding wte_;
  Embedding wpe_;
  Dropout drop_;
  std::vector<std::unique_ptr<GptBlock>> h_;
  LayerNorm ln_f_;
};

}  // namespace ddp::nn
