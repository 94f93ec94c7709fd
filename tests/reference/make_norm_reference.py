#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Layers and losses of real PyTorch on small inputs, in float64; nn_test compares.

    python3 tests/reference/make_norm_reference.py > tests/reference/norm_reference.txt

Inputs are the draws of ddp/nn/random.h from U(-1, 1) under seed 5, stream "x NAME" (scaled by 3, plus
1), and the gradients of the outputs those of stream "grad NAME". Weights and biases are draws of
streams "weight" and "bias". Lines hold all elements:
    NAME y V0 V1 ...               the output; of a case with several batches that of the last
    NAME grad_x ..., grad_weight ..., grad_bias ...
    NAME running_mean ..., running_var ..., num_batches_tracked N
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
    """Trains the running statistics with `batches` batches, and looks at the last."""
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


nn = torch.nn
run("bn1d", (5, 3), nn.BatchNorm1d(3))
run("bn1d_length", (3, 2, 4), nn.BatchNorm1d(2), batches=3)
run("bn2d", (4, 3, 5, 7), nn.BatchNorm2d(3))
run("bn2d_cumulative", (2, 3, 3, 3), nn.BatchNorm2d(3, momentum=None), batches=3)
run("bn2d_options", (2, 3, 4, 4), nn.BatchNorm2d(3, eps=0.1, momentum=0.3, affine=False), batches=2)
run("bn2d_eval", (2, 3, 4, 4), nn.BatchNorm2d(3), batches=3, training=False)
run("bn2d_untracked", (2, 3, 4, 4), nn.BatchNorm2d(3, track_running_stats=False), batches=2, training=False)
