#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small MLP for ten steps with real PyTorch; nn_test reads the output.

    python3 tests/reference/make_mlp_reference.py > tests/reference/mlp_reference.txt

Everything is float64. Initial values are those of ddp/nn/random.h, which this script repeats: draw
`index` of the stream named after the parameter, under seed 7. Step s trains on rows drawn from
stream "input" at indices from s * 60 and labels (s + row) % 4. Lines:
    loss STEP VALUE                the loss before step STEP is taken
    value NAME INDEX VALUE         a parameter after ten steps
    cosine EPOCH RATE              CosineAnnealingLR(base 0.1, T_max 8, eta_min 0.001)
    step EPOCH RATE                StepLR(base 0.1, step_size 3, gamma 0.5)
"""
import math

import torch

SEED, STEPS, ROWS, SIZES = 7, 10, 5, (12, 8, 6, 4)
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def stream_of(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001B3) & MASK
    return h


def draws(name, first, shape):
    start = mix(mix((SEED + GOLDEN) & MASK) ^ stream_of(name))
    count = math.prod(shape)
    bits = (mix((start + (first + i + 1) * GOLDEN) & MASK) for i in range(count))
    unit = torch.tensor([(b >> 11) * 2.0**-53 for b in bits], dtype=torch.float64)
    return (2 * unit - 1).reshape(shape)


def make_model():
    layers = torch.nn.ModuleDict()
    for i, (fan_in, fan_out) in enumerate(zip(SIZES, SIZES[1:]), start=1):
        layers[f"fc{i}"] = torch.nn.Linear(fan_in, fan_out, dtype=torch.float64)
    with torch.no_grad():
        for name, value in layers.named_parameters():
            fan_in = layers[name.split(".")[0]].in_features
            value.copy_(draws(name, 0, value.shape) / math.sqrt(fan_in))
    return layers


def train():
    model = make_model()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for step in range(STEPS):
        x = draws("input", step * ROWS * SIZES[0], (ROWS, SIZES[0]))
        labels = torch.tensor([(step + row) % SIZES[-1] for row in range(ROWS)])
        hidden = torch.relu(model["fc2"](torch.relu(model["fc1"](x))))
        loss = torch.nn.functional.cross_entropy(model["fc3"](hidden), labels)
        print(f"loss {step} {loss.item():.17g}")
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    for name, value in model.named_parameters():
        for index, element in enumerate(value.flatten().tolist()):
            print(f"value {name} {index} {element:.17g}")


def print_schedule(name, make):
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = make(sgd)
    for epoch in range(8):
        print(f"{name} {epoch} {scheduler.get_last_lr()[0]:.17g}")
        sgd.step()
        scheduler.step()


train()
schedulers = torch.optim.lr_scheduler
print_schedule("cosine", lambda sgd: schedulers.CosineAnnealingLR(sgd, T_max=8, eta_min=0.001))
print_schedule("step", lambda sgd: schedulers.StepLR(sgd, step_size=3, gamma=0.5))
