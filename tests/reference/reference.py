# SPDX-License-Identifier: MIT
"""What the make_*.py scripts share: the numbers of ddp/nn/random.h, the models of ddp/nn/models with
the initial values of ddp/nn/scope.h, and lines that hold a tensor."""
import math

import torch

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
SAMPLED = 17


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def stream_of(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001B3) & MASK
    return h


def bits(seed, name, first, count):
    """Draws first, first + 1, ... of the stream with that name."""
    start = mix(mix((seed + GOLDEN) & MASK) ^ stream_of(name))
    return [mix((start + (first + i + 1) * GOLDEN) & MASK) for i in range(count)]


def draws(seed, name, first, shape):
    """From U(-1, 1), in float64."""
    values = [2 * (b >> 11) * 2.0**-53 - 1 for b in bits(seed, name, first, math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def set_initial_values(model, seed):
    """For a model whose children are layers with weight and bias."""
    with torch.no_grad():
        for layer_name, layer in model.named_children():
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for name, value in layer.named_parameters():
                value.copy_(draws(seed, f"{layer_name}.{name}", 0, value.shape) * bound)


class Mlp(torch.nn.Module):
    def __init__(self, sizes=(784, 256, 128, 10)):
        super().__init__()
        self.fc1 = torch.nn.Linear(sizes[0], sizes[1])
        self.fc2 = torch.nn.Linear(sizes[1], sizes[2])
        self.fc3 = torch.nn.Linear(sizes[2], sizes[3])

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


MODELS = {"mlp": Mlp, "lenet5": LeNet5}


def print_tensor(line, tensor, digits=8):
    """LINE N V0 V1 ... SUM NORM: Vi is element i * N of the flattened tensor, at most SAMPLED of
    them; its sum and Euclidean norm in float64."""
    flat = tensor.detach().flatten()
    step = max(1, -(-flat.numel() // SAMPLED))
    exact = flat.double()
    numbers = flat[::step].tolist() + [exact.sum().item(), exact.norm().item()]
    print(line, step, " ".join(f"{x:.{digits}g}" for x in numbers))
