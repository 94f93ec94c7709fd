#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# The training step that bench_step measures, in PyTorch: lenet5 under DistributedDataParallel over
# Gloo, one thread a rank, on data that is already there. Prints the median milliseconds of a step.
import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def train(rank, options, rendezvous):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank,
                                         world_size=options.ranks)
    torch.manual_seed(rank)
    model = nn.parallel.DistributedDataParallel(lenet5())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_function = nn.CrossEntropyLoss()
    images = torch.randn(options.batch_size, 1, 28, 28)
    labels = torch.randint(10, (options.batch_size,))
    samples = []
    for step in range(options.warmup + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_function(model(images), labels).backward()
        optimizer.step()
        if step >= options.warmup:
            samples.append(1000 * (time.perf_counter() - begin))
    if rank == 0:
        print(f"{statistics.median(samples):.3f}")
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(train, (options, os.path.join(directory, "rendezvous")),
                                    nprocs=options.ranks)


if __name__ == "__main__":
    main()
