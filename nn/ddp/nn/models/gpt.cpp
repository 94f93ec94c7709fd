// SPDX-License-Identifier: MIT
#include "ddp/nn/models/gpt.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include "ddp/base/random.h"
#include "ddp/nn/ops.h"

namespace ddp::nn {
namespace {

constexpr double kStddev = 0.02;

// Of the weights in front of a shortcut's sum, so that the sum does not grow with the layers.
double residual_stddev(const GptOptions& options) {
  return kStddev / std::sqrt(2 * static_cast<double>(options.layers));
}

const GptOptions& checked(const GptOptions& options) {
  if (options.heads > 0 && options.width % options.heads == 0) return options;
  throw std::invalid_argument("[nn] Gpt: " + std::to_string(options.heads) +
                              " heads do not divide a width of " + std::to_string(options.width));
}

void check_input(const Tensor& tokens, std::size_t context) {
  const Shape& shape = tokens.shape();
  if (shape.rank() == 2 && shape[1] <= context && tokens.dtype() == DType::kInt64) return;
  throw std::invalid_argument(
      "[nn] Gpt: the input is " + std::string(to_string(tokens.dtype())) + " " + to_string(shape) +
      ", expected int64 [n, tokens] with at most " + std::to_string(context) + " tokens");
}

}  // namespace

GptBlock::GptBlock(const Scope& scope, const GptOptions& options)
    : heads_(options.heads),
      attention_dropout_(options.dropout),
      attention_dropout_layer_(stream_of(scope.child("attn").child("attn_dropout").name())),
      ln_1_(scope.child("ln_1"), options.width),
      attn_c_attn_(scope.child("attn").child("c_attn"), options.width, 3 * options.width,
                   {.stddev = kStddev}),
      attn_c_proj_(scope.child("attn").child("c_proj"), options.width, options.width,
                   {.stddev = residual_stddev(options)}),
      attn_dropout_(scope.child("attn").child("resid_dropout"), options.dropout),
      ln_2_(scope.child("ln_2"), options.width),
      mlp_c_fc_(scope.child("mlp").child("c_fc"), options.width, 4 * options.width,
                {.stddev = kStddev}),
      mlp_c_proj_(scope.child("mlp").child("c_proj"), 4 * options.width, options.width,
                  {.stddev = residual_stddev(options)}),
      mlp_dropout_(scope.child("mlp").child("dropout"), options.dropout) {
  register_module(ln_1_);
  register_module(attn_c_attn_);
  register_module(attn_c_proj_);
  register_module(attn_dropout_);
  register_module(ln_2_);
  register_module(mlp_c_fc_);
  register_module(mlp_c_proj_);
  register_module(mlp_dropout_);
}

Variable GptBlock::attend(Tape& tape, const Variable& x) {
  const std::size_t n = x.shape()[0], tokens = x.shape()[1], width = x.shape()[2];
  const Variable all = attn_c_attn_.forward(tape, x);
  const Variable by_head =
      transpose(tape, all.reshaped({n, tokens, 3 * heads_, width / heads_}), 1, 2);
  const Variable q = narrow(tape, by_head, 1, 0, heads_);
  const Variable k = narrow(tape, by_head, 1, heads_, heads_);
  const Variable v = narrow(tape, by_head, 1, 2 * heads_, heads_);
  const Variable y =
      scaled_dot_product_attention(tape, q, k, v,
                                   {.is_causal = true,
                                    .dropout_p = is_training() ? attention_dropout_ : 0,
                                    .layer = attention_dropout_layer_});
  return attn_c_proj_.forward(tape, transpose(tape, y, 1, 2).reshaped({n, tokens, width}));
}

Variable GptBlock::forward(Tape& tape, const Variable& input) {
  const Variable attended = attn_dropout_.forward(tape, attend(tape, ln_1_.forward(tape, input)));
  const Variable x = nn::add(tape, input, attended);
  const Variable hidden = gelu_tanh(tape, mlp_c_fc_.forward(tape, ln_2_.forward(tape, x)));
  return nn::add(tape, x, mlp_dropout_.forward(tape, mlp_c_proj_.forward(tape, hidden)));
}

Gpt::Gpt(const Scope& scope, const GptOptions& options)
    : options_(checked(options)),
      wte_(scope.child("wte"), options.vocabulary, options.width, {.stddev = kStddev}),
      wpe_(scope.child("wpe"), options.context, options.width, {.stddev = kStddev}),
      drop_(scope.child("drop"), options.dropout),
      ln_f_(scope.child("ln_f"), options.width) {
  register_module(wte_);
  register_module(wpe_);
  register_module(drop_);
  for (std::size_t layer = 0; layer < options.layers; ++layer) {
    const Scope block = scope.child("h").child(std::to_string(layer));
    register_module(*h_.emplace_back(std::make_unique<GptBlock>(block, options)));
  }
  register_module(ln_f_);
}

Variable Gpt::forward(Tape& tape, const Variable& input) {
  check_input(input.value(), options_.context);
  const std::size_t n = input.shape()[0], tokens = input.shape()[1];
  // Before the positions, so that backward reaches the embeddings in the reverse order of their
  // registration, as buckets expect.
  const Variable embedded = wte_.forward(tape, input);
  const Variable positions = narrow(tape, tape.watch(wpe_.weight()), 0, 0, tokens);
  Variable x = drop_.forward(tape, nn::add(tape, embedded, positions));
  for (const auto& block : h_) x = block->forward(tape, x);
  const Variable logits = linear(tape, ln_f_.forward(tape, x), tape.watch(wte_.weight()));
  return logits.reshaped({n * tokens, options_.vocabulary});
}

}  // namespace ddp::nn
