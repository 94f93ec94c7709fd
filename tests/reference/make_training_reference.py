#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains mlp and lenet5 for ten steps with real PyTorch, in float32; nn_test replays it.

    python3 tests/reference/make_training_reference.py > tests/reference/training_reference.txt

Initial values are those of ddp/nn/random.h, which this script repeats: draw `index` of the stream
named after the parameter, under seed 11. Step s trains on 8 images drawn from stream "input" at
indices from s * 8 * 784, and labels drawn from stream "label" at indices from s * 8. SGD with
learning rate 0.05, momentum 0.9 and weight decay 1e-4. Lines, with M for the model:
    M loss STEP VALUE                  the loss before the step is taken
    M grad STEP NAME N V0 V1 ...       a parameter's gradient in the step
    M value STEP NAME N V0 V1 ...      the parameter after it
Vi is element i * N of the flattened tensor, at most 17 of them; the last two numbers are the
tensor's sum and Euclidean norm, in float64.
"""
import math

import torch

SEED, STEPS, ROWS, SAMPLED = 11, 10, 8, 17
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


def bits(name, first, count):
    start = mix(mix((SEED + GOLDEN) & MASK) ^ stream_of(name))
    return [mix((start + (first + i + 1) * GOLDEN) & MASK) for i in range(count)]


def draws(name, first, shape):
    values = [2 * (b >> 11) * 2.0**-53 - 1 for b in bits(name, first, math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(784, 256)
        self.fc2 = torch.nn.Linear(256, 128)
        self.fc3 = torch.nn.Linear(128, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


class LeNet5(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(400, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        pool = torch.nn.functional.max_pool2d
        x = pool(torch.relu(self.conv1(x)), 2)
        x = pool(torch.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def set_initial_values(model):
    with torch.no_grad():
        for layer in model.children():
            fan_in = layer.weight[0].numel()
            for name in ("weight", "bias"):
                value = getattr(layer, name)
                full_name = next(n for n, p in model.named_parameters() if p is value)
                value.copy_(draws(full_name, 0, value.shape) * (1 / math.sqrt(fan_in)))


def print_tensor(line, tensor):
    flat = tensor.detach().flatten()
    step = max(1, -(-flat.numel() // SAMPLED))
    exact = flat.double()
    numbers = flat[::step].tolist() + [exact.sum().item(), exact.norm().item()]
    print(line, step, " ".join(f"{x:.8g}" for x in numbers))


def train(title, model):
    set_initial_values(model)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for step in range(STEPS):
        x = draws("input", step * ROWS * 784, (ROWS, 1, 28, 28)).float()
        labels = torch.tensor([b % 10 for b in bits("label", step * ROWS, ROWS)])
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        print(f"{title} loss {step} {loss.item():.8g}")
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        for name, value in model.named_parameters():
            print_tensor(f"{title} grad {step} {name}", value.grad)
            print_tensor(f"{title} value {step} {name}", value)


torch.set_num_threads(1)
train("mlp", Mlp())
train("lenet5", LeNet5())
