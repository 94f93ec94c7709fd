#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Operations on images and their gradients with real PyTorch, in float64; nn_test replays them.

    python3 tests/reference/make_image_ops_reference.py > tests/reference/image_ops_reference.txt

Operands are those of ddp/base/random.h, from U(-1, 1): draws from 0 on of the streams "x", "weight"
and "bias", under seed 5. The loss is the cross-entropy of the flattened result, with label
(3 * row + 1) % columns. Lines:
    OPERATION WHAT N V0 V1 ...
WHAT is y, loss, or the operand whose gradient it is. Vi is element i * N of the flattened tensor, at
most 17 of them; the last two numbers are the tensor's sum and Euclidean norm.
"""
import torch
from torch.nn import functional

from reference import draws, print_tensor

SEED = 5

# The function, the shapes of x, weight and bias (those that it takes), and its other arguments.
OPERATIONS = {
    "conv2d_groups": (functional.conv2d, [(3, 4, 7, 6), (6, 2, 3, 3), (6,)],
                      dict(stride=(2, 1), padding=(1, 2), groups=2)),
    "conv2d_no_bias": (functional.conv2d, [(2, 16, 9, 9), (32, 16, 3, 3)],
                       dict(stride=2, padding=1)),
    "conv2d_depthwise": (functional.conv2d, [(2, 16, 6, 6), (16, 1, 3, 3), (16,)],
                         dict(padding=1, groups=16)),
    "conv2d_pointwise": (functional.conv2d, [(2, 16, 8, 8), (3, 16, 1, 1), (3,)], dict()),
    "conv_transpose2d": (functional.conv_transpose2d, [(2, 4, 3, 5), (4, 3, 3, 2), (3,)],
                         dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2))),
    "conv_transpose2d_groups": (functional.conv_transpose2d, [(2, 4, 3, 3), (4, 3, 2, 2), (6,)],
                                dict(stride=2, groups=2)),
    "conv_transpose2d_up": (functional.conv_transpose2d, [(2, 32, 4, 4), (32, 16, 2, 2)],
                            dict(stride=2)),
    "max_pool2d": (functional.max_pool2d, [(2, 3, 9, 8)],
                   dict(kernel_size=3, stride=2, padding=1)),
    "avg_pool2d": (functional.avg_pool2d, [(2, 3, 9, 8)],
                   dict(kernel_size=(3, 2), stride=(2, 3), padding=(1, 1))),
    "adaptive_avg_pool2d": (functional.adaptive_avg_pool2d, [(2, 3, 7, 4)],
                            dict(output_size=(3, 5))),
    "upsample_nearest2d": (functional.interpolate, [(2, 3, 4, 5)],
                           dict(scale_factor=(2, 3), mode="nearest")),
}

for title, (function, shapes, arguments) in OPERATIONS.items():
    operands = {name: draws(SEED, name, 0, shape).requires_grad_()
                for name, shape in zip(("x", "weight", "bias"), shapes)}
    y = function(*operands.values(), **arguments)
    logits = y.flatten(1)
    labels = torch.tensor([(3 * row + 1) % logits.shape[1] for row in range(len(logits))])
    loss = functional.cross_entropy(logits, labels)
    loss.backward()
    print_tensor(f"{title} y", y, 17)
    print_tensor(f"{title} loss", loss, 17)
    for name, operand in operands.items():
        print_tensor(f"{title} {name}", operand.grad, 17)
