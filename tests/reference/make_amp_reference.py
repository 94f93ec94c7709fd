#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Losses of ten steps of lenet5 with real PyTorch, in float32 and under torch.autocast to bfloat16 on
the CPU; amp_test compares ours.

    python3 tests/reference/make_amp_reference.py > tests/reference/amp_reference.txt

Initial values, images, labels and SGD are those of make_training_reference.py, but the learning rate
is 0.1 and each step trains on the same 8 images. Lines, with M for float32 or bfloat16:
    M STEP LOSS      before the step is taken
"""
import torch

from reference import LeNet5, bits, draws, set_initial_values

SEED, STEPS, ROWS = 11, 10, 8


def train(title, autocast):
    model = LeNet5()
    set_initial_values(model, SEED)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    x = draws(SEED, "input", 0, (ROWS, 1, 28, 28)).float()
    labels = torch.tensor([b % 10 for b in bits(SEED, "label", 0, ROWS)])
    for step in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits.float(), labels)
        print(f"{title} {step} {loss.item():.8g}")
        sgd.zero_grad()
        loss.backward()
        sgd.step()


torch.set_num_threads(1)
train("float32", False)
train("bfloat16", True)
