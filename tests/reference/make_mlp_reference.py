#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a small MLP for ten steps with real PyTorch; nn_test reads the output.

    python3 tests/reference/make_mlp_reference.py > tests/reference/mlp_reference.txt

Everything is float64. Initial values are those of ddp/base/random.h: draw `index` of the stream named
after the parameter, under seed 7. Step s trains on rows drawn from stream "input" at indices from
s * 60 and labels (s + row) % 4. Lines:
    loss STEP VALUE                the loss before step STEP is taken
    value NAME INDEX VALUE         a parameter after ten steps
    cosine EPOCH RATE              CosineAnnealingLR(base 0.1, T_max 8, eta_min 0.001)
    step EPOCH RATE                StepLR(base 0.1, step_size 3, gamma 0.5)
"""
import math

import torch

from reference import Mlp, draws

SEED, STEPS, ROWS, SIZES = 7, 10, 5, (12, 8, 6, 4)


def make_model():
    model = Mlp(SIZES).double()
    with torch.no_grad():
        for name, value in model.named_parameters():
            fan_in = model.get_submodule(name.split(".")[0]).in_features
            value.copy_(draws(SEED, name, 0, value.shape) / math.sqrt(fan_in))
    return model


def train():
    model = make_model()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for step in range(STEPS):
        x = draws(SEED, "input", step * ROWS * SIZES[0], (ROWS, SIZES[0]))
        labels = torch.tensor([(step + row) % SIZES[-1] for row in range(ROWS)])
        loss = torch.nn.functional.cross_entropy(model(x), labels)
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
