# SPDX-License-Identifier: MIT
"""Shared by the make_*.py scripts: the numbers of ddp/base/random.h, the models of ddp/nn/models with
the initial values of ddp/nn/scope.h, and lines that hold a tensor."""
import math
from collections import OrderedDict

import numpy
import torch
from torch import nn

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


def mix_all(x):
    """Applies mix() to a numpy array of uint64, whose arithmetic wraps around."""
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def bits(seed, name, first, count):
    """Returns draws first, first + 1, ... of the stream with that name."""
    start = mix(mix((seed + GOLDEN) & MASK) ^ stream_of(name))
    index = numpy.arange(first + 1, first + 1 + count, dtype=numpy.uint64)
    return mix_all(numpy.uint64(start) + index * numpy.uint64(GOLDEN))


def draws(seed, name, first, shape):
    """Returns draws from U(-1, 1), in float64."""
    high = bits(seed, name, first, math.prod(shape)) >> numpy.uint64(11)
    return torch.from_numpy(2 * (high.astype(numpy.float64) * 2.0**-53) - 1).reshape(shape)


def class_labels(seed, first, count, classes=10):
    """Returns the labels of the samples first, first + 1, ..."""
    labels = bits(seed, "label", first, count) % numpy.uint64(classes)
    return torch.from_numpy(labels.astype(numpy.int64))


def set_initial_values(model, seed):
    """Fills all layers whose weight has more than one dimension; batch norms keep 1 and 0."""
    with torch.no_grad():
        for layer_name, layer in model.named_modules():
            weight = getattr(layer, "weight", None)
            if weight is None or weight.dim() < 2:
                continue
            bound = 1 / math.sqrt(weight[0].numel())
            for name, value in layer.named_parameters():
                value.copy_(draws(seed, f"{layer_name}.{name}", 0, value.shape) * bound)


class Mlp(nn.Module):
    def __init__(self, sizes=(784, 256, 128, 10)):
        super().__init__()
        self.fc1 = nn.Linear(sizes[0], sizes[1])
        self.fc2 = nn.Linear(sizes[1], sizes[2])
        self.fc3 = nn.Linear(sizes[2], sizes[3])

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        pool = nn.functional.max_pool2d
        x = pool(torch.relu(self.conv1(x)), 2)
        x = pool(torch.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (3, 32, 64, 128)
        for i in (1, 2, 3):
            self.add_module(f"conv{i}", nn.Conv2d(sizes[i - 1], sizes[i], 3, padding=1, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(sizes[i]))
        self.fc = nn.Linear(sizes[3], 10)

    def forward(self, x):
        for i in (1, 2, 3):
            x = torch.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
            x = nn.functional.max_pool2d(x, 2)
        return self.fc(x.mean((2, 3)))


class BasicBlock(nn.Module):
    """The same block as in torchvision, with its names."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision.models.resnet18 with ten classes."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        sizes = (64, 64, 128, 256, 512)
        for i in (1, 2, 3, 4):
            stride = 1 if i == 1 else 2
            self.add_module(f"layer{i}", nn.Sequential(
                BasicBlock(sizes[i - 1], sizes[i], stride), BasicBlock(sizes[i], sizes[i], 1)))
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class UNet(nn.Module):
    """torch.hub's mateuszbuda/brain-segmentation-pytorch, with its names, without the last sigmoid."""

    def __init__(self, features=8):
        super().__init__()
        for i in (1, 2, 3, 4):
            inputs = 3 if i == 1 else features * 2**(i - 2)
            self.add_module(f"encoder{i}", self.block(inputs, features * 2**(i - 1), f"enc{i}"))
        self.bottleneck = self.block(features * 8, features * 16, "bottleneck")
        for i in (4, 3, 2, 1):
            size = features * 2**(i - 1)
            self.add_module(f"upconv{i}", nn.ConvTranspose2d(2 * size, size, 2, 2))
            self.add_module(f"decoder{i}", self.block(2 * size, size, f"dec{i}"))
        self.conv = nn.Conv2d(features, 1, 1)

    @staticmethod
    def block(inputs, features, name):
        return nn.Sequential(OrderedDict([
            (name + "conv1", nn.Conv2d(inputs, features, 3, padding=1, bias=False)),
            (name + "norm1", nn.BatchNorm2d(features)),
            (name + "relu1", nn.ReLU()),
            (name + "conv2", nn.Conv2d(features, features, 3, padding=1, bias=False)),
            (name + "norm2", nn.BatchNorm2d(features)),
            (name + "relu2", nn.ReLU()),
        ]))

    def forward(self, x):
        skips = []
        for i in (1, 2, 3, 4):
            skips.append(getattr(self, f"encoder{i}")(x))
            x = nn.functional.max_pool2d(skips[-1], 2)
        x = self.bottleneck(x)
        for i in (4, 3, 2, 1):
            x = torch.cat((getattr(self, f"upconv{i}")(x), skips[i - 1]), 1)
            x = getattr(self, f"decoder{i}")(x)
        return self.conv(x)


MODELS = {"mlp": Mlp, "lenet5": LeNet5}


def print_tensor(line, tensor, digits=8):
    """LINE N V0 V1 ... SUM NORM: Vi is element i * N of the flattened tensor, at most SAMPLED of
    them; its sum and Euclidean norm in float64."""
    flat = tensor.detach().flatten()
    step = max(1, -(-flat.numel() // SAMPLED))
    exact = flat.double()
    numbers = flat[::step].tolist() + [exact.sum().item(), exact.norm().item()]
    print(line, step, " ".join(f"{x:.{digits}g}" for x in numbers))
