#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# The training step of bench_step in PyTorch: the same model on data that is already in memory, with
# one thread per rank; several ranks use DistributedDataParallel over Gloo. Prints the median
# milliseconds of a step.
import argparse
import math
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

F = nn.functional
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests/reference"))
from reference import MODELS, ResNet18, UNet

# The shape of an image, as in bench/support/workload.h.
IMAGES = {"mlp": (1, 28, 28), "lenet5": (1, 28, 28), "resnet18": (3, 64, 64), "unet": (3, 64, 64)}


# GPT-2 (Radford et al. 2019) with the layers, heads and width of minGPT's gpt-micro.
LAYERS, HEADS, WIDTH, VOCABULARY, CONTEXT = 4, 4, 128, 256, 128


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.expand, self.contract = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("hidden", torch.ones(CONTEXT, CONTEXT).triu(1).bool())

    def attention(self, x):
        q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2)
                   for part in self.qkv(x).split(WIDTH, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        y = scores.masked_fill(self.hidden, -math.inf).softmax(-1) @ v
        return self.project(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.contract(F.gelu(self.expand(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.tokens(x) + self.places(torch.arange(CONTEXT, device=x.device))
        return (self.ln(self.blocks(x)) @ self.tokens.weight.T).flatten(0, 1)


def make_model(name):
    if name == "gpt-micro":
        return Gpt()
    models = {**MODELS, "resnet18": ResNet18, "unet": lambda: UNet(features=32)}
    return models[name]()


def make_batch(name, size, image_size=None):
    if name == "gpt-micro":
        text = torch.randint(0, VOCABULARY, (size * CONTEXT + 1,))
        return text[:-1].view(size, CONTEXT), text[1:], nn.CrossEntropyLoss()
    shape = (IMAGES[name][0], image_size, image_size) if image_size else IMAGES[name]
    images = 2 * torch.rand(size, *shape) - 1
    if name == "unet":
        masks = (torch.rand(size, 1, *shape[1:]) < 0.1).float()
        return images, masks, nn.BCEWithLogitsLoss()
    return images, torch.arange(size) % 10, nn.CrossEntropyLoss()


def train(rank, options, rendezvous):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = make_model(options.model)
    if options.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank,
                                             world_size=options.ranks)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, targets, loss_function = make_batch(options.model, options.batch_size)
    samples = []
    for step in range(options.warmup + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_function(model(images), targets).backward()
        optimizer.step()
        if step >= options.warmup:
            samples.append(1000 * (time.perf_counter() - begin))
    if rank == 0:
        print(f"{statistics.median(samples):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=[*IMAGES, "gpt-micro"], default="lenet5")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=20)
    options = parser.parse_args()
    if options.ranks == 1:
        return train(0, options, None)
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(train, (options, os.path.join(directory, "rendezvous")),
                                    nprocs=options.ranks)


if __name__ == "__main__":
    main()
