#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Layers and losses of real PyTorch on small inputs, in float64; nn_test compares.

    python3 tests/reference/make_layer_reference.py > tests/reference/layer_reference.txt

Inputs are the draws of ddp/base/random.h from U(-1, 1) under seed 5, stream "x NAME" (scaled by 3, plus
1), and the gradients of the outputs those of stream "grad NAME". Weights and biases are draws of
streams "weight" and "bias". Lines hold all elements:
    NAME y V0 V1 ...               the output; of a case with several batches that of the last
    NAME grad_x ..., grad_weight ..., grad_bias ...
    NAME running_mean ..., running_var ..., num_batches_tracked N
    NAME loss V                    of losses, and grad_x
    NAME y ..., grad_x ...         of functions; those named NAME_edges have x = EDGES
Targets of losses are draws of stream "target NAME", for bce in [0, 1], for labels of 4 classes.
"""
import torch

from reference import draws

SEED = 5


def show(name, what, tensor):
    print(name, what, " ".join(f"{x:.17g}" for x in tensor.detach().double().flatten().tolist()))


def input_of(name, shape, batch=0):
    values = torch.Size(shape).numel()
    return (draws(SEED, f"x {name}", batch * values, shape) * 3 + 1).requires_grad_()


def run(name, shape, layer, batches=1, training=True):
    """Trains the running statistics with `batches` batches, and prints the results of the last."""
    layer = layer.double()
    if layer.affine:
        with torch.no_grad():
            layer.weight.copy_(draws(SEED, "weight", 0, layer.weight.shape))
            layer.bias.copy_(draws(SEED, "bias", 0, layer.bias.shape))
    for batch in range(batches):
        if batch == batches - 1:
            layer.train(training)
        x = input_of(name, shape, batch)
        y = layer(x)
    y.backward(draws(SEED, f"grad {name}", 0, shape))
    show(name, "y", y)
    show(name, "grad_x", x.grad)
    for parameter_name, parameter in layer.named_parameters():
        show(name, f"grad_{parameter_name}", parameter.grad)
    for buffer_name, buffer in layer.named_buffers():
        show(name, buffer_name, buffer)


def run_loss(name, shape, loss_of, scale=1):
    x = (input_of(name, shape).detach() * scale).requires_grad_()
    loss = loss_of(x)
    loss.backward()
    show(name, "loss", loss)
    show(name, "grad_x", x.grad)


EDGES = (-1000, -1, 0, 2, 1000)


def run_function(name, function, x=None):
    x = input_of(name, (3, 2, 4)) if x is None else x
    y = function(x)
    y.backward(draws(SEED, f"grad {name}", 0, y.shape))
    show(name, "y", y)
    show(name, "grad_x", x.grad)


def run_with_edges(name, function):
    run_function(name, function)
    run_function(name + "_edges", function, torch.tensor(EDGES, dtype=torch.float64, requires_grad=True))


def target_of(name, shape):
    return draws(SEED, f"target {name}", 0, shape)


nn = torch.nn
F = torch.nn.functional
run("bn1d", (5, 3), nn.BatchNorm1d(3))
run("bn1d_length", (3, 2, 4), nn.BatchNorm1d(2), batches=3)
run("bn2d", (4, 3, 5, 7), nn.BatchNorm2d(3))
run("bn2d_cumulative", (2, 3, 3, 3), nn.BatchNorm2d(3, momentum=None), batches=3)
run("bn2d_options", (2, 3, 4, 4), nn.BatchNorm2d(3, eps=0.1, momentum=0.3, affine=False), batches=2)
run("bn2d_eval", (2, 3, 4, 4), nn.BatchNorm2d(3), batches=3, training=False)
run("bn2d_untracked", (2, 3, 4, 4), nn.BatchNorm2d(3, track_running_stats=False), batches=2, training=False)

shape = (3, 2, 4)
run_loss("mse", shape, lambda x: F.mse_loss(x, target_of("mse", shape)))
probability = (target_of("bce", shape) + 1) / 2
bce = F.binary_cross_entropy_with_logits
run_loss("bce", shape, lambda x: bce(x, probability))
run_loss("bce_weighted", shape, lambda x: bce(x, probability, pos_weight=torch.tensor(2.5)))
run_loss("bce_huge", shape, lambda x: bce(x, probability, pos_weight=torch.tensor(2.5)), scale=1000)
labels = ((target_of("smoothed", (6,)) + 1) * 2).long()
run_loss("smoothed", (6, 4), lambda x: F.cross_entropy(x, labels, label_smoothing=0.1))

run_with_edges("abs", torch.abs)
run_with_edges("clamp", lambda x: torch.clamp(x, -1, 2))
run_with_edges("gelu", F.gelu)
run_with_edges("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
run_with_edges("leaky_relu", lambda x: F.leaky_relu(x, 0.2))
run_with_edges("relu", torch.relu)
run_with_edges("sigmoid", torch.sigmoid)
run_with_edges("silu", F.silu)
run_with_edges("softplus", F.softplus)
run_with_edges("square", torch.square)
run_with_edges("tanh", torch.tanh)
run_function("exp", torch.exp)
run_function("log", lambda x: torch.log(x * x + 0.5))
run_function("sqrt", lambda x: torch.sqrt(x * x + 0.5))
run_function("numbers", lambda x: x * -2.5 + 0.75)
run_function("sub", lambda x: x * x - torch.tanh(x))
run_function("mul", lambda x: x * torch.tanh(x))
run_function("div", lambda x: torch.tanh(x) / (x * x + 0.5))
run_function("row_sums", lambda x: (x * x).flatten(1).sum(1))
run_function("sum", lambda x: (x * x).sum())
run_function("mean", lambda x: (x * x).mean())
