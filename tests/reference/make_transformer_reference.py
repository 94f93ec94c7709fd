#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The operations of transformers and a small GPT-2 of real PyTorch, in float64;
nn_transformer_ops_test and gpt_test compare.

    python3 tests/reference/make_transformer_reference.py > tests/reference/transformer_reference.txt

Operands are the draws of ddp/base/random.h from U(-1, 1) under seed 5, stream "OP NAME" for operand
NAME of operation OP, and the gradients of results those of stream "OP grad". Indices are 3 * i % 7
for element i. The GPT's initial values are the draws of streams with its parameters' names; its
tokens are 5 * i * i % 11 for element i, and the label of row i is 3 * i % 11. Lines are those of
reference.print_tensor(), after
    OP y, OP grad_NAME ...
    gpt logits, gpt loss, gpt NAME ...     NAME: the gradient of that parameter
"""
import math

import torch

from reference import draws, print_tensor

F = torch.nn.functional
SEED = 5


def show(line, tensor):
    print_tensor(line, tensor, digits=17)


def run(op, shapes, function):
    """Runs function(*operands); `shapes` has the shape of each operand by name."""
    operands = {name: draws(SEED, f"{op} {name}", 0, shape).requires_grad_() for name, shape in shapes.items()}
    y = function(*operands.values())
    y.backward(draws(SEED, f"{op} grad", 0, y.shape))
    show(f"{op} y", y)
    for name, operand in operands.items():
        show(f"{op} grad_{name}", operand.grad)


def attention(q, k, v, is_causal):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if is_causal:
        mask = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(mask, -math.inf)
    return scores.softmax(-1) @ v


run("linear", {"x": (2, 3, 4), "weight": (5, 4), "bias": (5,)}, F.linear)
run("linear_no_bias", {"x": (2, 3, 4), "weight": (5, 4)}, F.linear)
run("matmul", {"a": (2, 3, 4, 5), "b": (2, 3, 5, 6)}, torch.matmul)
run("add", {"a": (3, 4, 5), "b": (4, 5)}, torch.add)
run("transpose", {"x": (2, 3, 4, 5)}, lambda x: x.transpose(1, 3))
run("layer_norm", {"x": (2, 3, 9), "weight": (9,), "bias": (9,)},
    lambda x, weight, bias: F.layer_norm(x, (9,), weight, bias))
run("layer_norm_eps", {"x": (4, 3, 5), "weight": (3, 5), "bias": (3, 5)},
    lambda x, weight, bias: F.layer_norm(x, (3, 5), weight, bias, 0.1))
run("softmax", {"x": (2, 3, 7)}, lambda x: (8 * x).softmax(-1))
run("log_softmax", {"x": (2, 3, 7)}, lambda x: (8 * x).log_softmax(-1))
indices = (3 * torch.arange(20) % 7).reshape(4, 5)
run("embedding", {"weight": (8, 6)}, lambda weight: F.embedding(indices, weight))
shapes = {"q": (2, 3, 5, 4), "k": (2, 3, 5, 4), "v": (2, 3, 5, 4)}
run("attention", shapes | {"k": (2, 3, 6, 4), "v": (2, 3, 6, 7)}, lambda q, k, v: attention(q, k, v, False))
run("attention_causal", shapes, lambda q, k, v: attention(q, k, v, True))

VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH = 11, 6, 2, 2, 8
ROWS, TOKENS = 3, 5


def gpt_parameters():
    shapes = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
    for i in range(LAYERS):
        for name, shape in {"ln_1": (WIDTH,), "attn.c_attn": (3 * WIDTH, WIDTH), "attn.c_proj": (WIDTH, WIDTH),
                            "ln_2": (WIDTH,), "mlp.c_fc": (4 * WIDTH, WIDTH), "mlp.c_proj": (WIDTH, 4 * WIDTH)}.items():
            shapes |= {f"h.{i}.{name}.weight": shape, f"h.{i}.{name}.bias": shape[:1]}
    shapes |= {"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    return {name: draws(SEED, name, 0, shape).requires_grad_() for name, shape in shapes.items()}


def gpt(p, tokens):
    """The model of Radford et al. 2019, in the operations of nanoGPT."""
    def layer(x, name, function=F.linear):
        return function(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def norm(x, name):
        return layer(x, name, lambda x, weight, bias: F.layer_norm(x, (WIDTH,), weight, bias))

    def heads(x):
        return x.view(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

    x = p["wte.weight"][tokens] + p["wpe.weight"][torch.arange(tokens.shape[1])]
    for i in range(LAYERS):
        q, k, v = layer(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(WIDTH, dim=2)
        y = attention(heads(q), heads(k), heads(v), True).transpose(1, 2).reshape(x.shape)
        x = x + layer(y, f"h.{i}.attn.c_proj")
        hidden = F.gelu(layer(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        x = x + layer(hidden, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].T


i = torch.arange(ROWS * TOKENS)
parameters = gpt_parameters()
logits = gpt(parameters, (5 * i * i % VOCABULARY).reshape(ROWS, TOKENS)).flatten(0, 1)
loss = F.cross_entropy(logits, 3 * i % VOCABULARY)
loss.backward()
show("gpt logits", logits)
show("gpt loss", loss)
for name, parameter in parameters.items():
    show(f"gpt {name}", parameter.grad)
