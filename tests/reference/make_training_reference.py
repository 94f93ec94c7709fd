#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains mlp and lenet5 for ten steps with real PyTorch, in float32; nn_test replays it.

    python3 tests/reference/make_training_reference.py > tests/reference/training_reference.txt

Initial values are those of ddp/base/random.h: draw `index` of the stream named after the parameter,
under seed 11. Step s trains on 8 images drawn from stream "input" at indices from s * 8 * 784, and
labels drawn from stream "label" at indices from s * 8. SGD with learning rate 0.05, momentum 0.9 and
weight decay 1e-4. Lines, with M for the model:
    M loss STEP VALUE                  the loss before the step is taken
    M grad STEP NAME N V0 V1 ...       a parameter's gradient in the step
    M value STEP NAME N V0 V1 ...      the parameter after it
Vi is element i * N of the flattened tensor, at most 17 of them; the last two numbers are the
tensor's sum and Euclidean norm, in float64.
"""
import torch

from reference import MODELS, class_labels, draws, print_tensor, set_initial_values

SEED, STEPS, ROWS = 11, 10, 8


def train(title, model):
    set_initial_values(model, SEED)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for step in range(STEPS):
        x = draws(SEED, "input", step * ROWS * 784, (ROWS, 1, 28, 28)).float()
        labels = class_labels(SEED, step * ROWS, ROWS)
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        print(f"{title} loss {step} {loss.item():.8g}")
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        for name, value in model.named_parameters():
            print_tensor(f"{title} grad {step} {name}", value.grad)
            print_tensor(f"{title} value {step} {name}", value)


torch.set_num_threads(1)
for title, make_model in MODELS.items():
    train(title, make_model())
