#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains mlp and lenet5 on two ranks with PyTorch's own DistributedDataParallel over Gloo;
ddp_reference_test replays it.

    python3 tests/reference/make_ddp_reference.py > tests/reference/ddp_reference.txt

A step is one or more backward passes, all but the last inside no_sync() and each loss divided by
their number, as PyTorch's documentation has it. The loss is the mean over a rank's rows of the pass.
Initial values are those of ddp/base/random.h: draw `index` of the stream named after the parameter,
under seed 17. Samples are numbered in the order (step, pass, rank, row): sample i has draws
i * 784 ... of stream "input" for its image, and draw i of stream "label". SGD with learning rate
0.05, momentum 0.9 and weight decay 1e-4. Lines, with M for the model, D for the dtype and V for the
variant (plain, accumulate, uneven, uneven_accumulate):
    M D V step STEP LOSS R0 R1 ...     the mean loss over the step's samples, before the step is
                                       taken; rows of ranks 0 and 1 in its first pass, the second ...
    M D V ddp NAME N V0 V1 ...         a parameter after the last step
    M D V alone NAME N V0 V1 ...       the same from one process that trains on all rows of a step
                                       as one batch; for the uneven variants, where it differs
Vi is element i * N of the flattened tensor, at most 17 of them; the last two numbers are the
tensor's sum and Euclidean norm, in float64.
"""
import contextlib
import os
import tempfile
from typing import NamedTuple

import torch
import torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

from reference import MODELS, class_labels, draws, print_tensor, set_initial_values

SEED, RANKS = 17, 2
DTYPES = {"float64": torch.float64, "float32": torch.float32}


class Case(NamedTuple):
    model: str
    dtype: str
    variant: str
    steps: list  # for each step its passes, for each pass the rows of each rank

    @property
    def title(self):
        return f"{self.model} {self.dtype} {self.variant}"


def cases():
    for model in MODELS:
        for dtype, steps in (("float64", 50), ("float32", 10)):
            yield Case(model, dtype, "plain", [[(4, 4)]] * steps)
            yield Case(model, dtype, "accumulate", [[(2, 2)] * 3] * steps)
        # The end of an epoch: too few samples remain for every rank, or for every pass.
        yield Case(model, "float64", "uneven", ([[(4, 4)]] * 4 + [[(4, 1)]]) * 2)
        short = [(4, 4), (4, 4), (2, 1)]
        yield Case(model, "float64", "uneven_accumulate", ([[(4, 4)] * 3] * 4 + [short]) * 2)


def batch(case, first, rows):
    images = draws(SEED, "input", first * 784, (rows, 1, 28, 28))
    labels = class_labels(SEED, first, rows)
    return images.to(DTYPES[case.dtype]), labels


def make_training(case):
    model = MODELS[case.model]().to(DTYPES[case.dtype])
    set_initial_values(model, SEED)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    return model, sgd


def print_values(case, kind, model):
    digits = 17 if case.dtype == "float64" else 9
    for name, value in model.named_parameters():
        print_tensor(f"{case.title} {kind} {name}", value, digits)


def train_distributed(case, rank):
    model, sgd = make_training(case)
    replica = DistributedDataParallel(model)
    first = 0
    for step, passes in enumerate(case.steps):
        sgd.zero_grad()
        seen = torch.zeros(2, dtype=torch.float64)
        for i, rows in enumerate(passes):
            images, labels = batch(case, first + sum(rows[:rank]), rows[rank])
            first += sum(rows)
            is_last = i + 1 == len(passes)
            with contextlib.nullcontext() if is_last else replica.no_sync():
                loss = torch.nn.functional.cross_entropy(replica(images), labels)
                (loss / len(passes)).backward()
            seen += torch.tensor([loss.item() * rows[rank], rows[rank]], dtype=torch.float64)
        sgd.step()
        torch.distributed.all_reduce(seen)
        if rank == 0:
            all_rows = " ".join(str(n) for rows in passes for n in rows)
            print(f"{case.title} step {step} {(seen[0] / seen[1]).item():.17g} {all_rows}")
    if rank == 0:
        print_values(case, "ddp", model)


def train_alone(case):
    model, sgd = make_training(case)
    first = 0
    for passes in case.steps:
        images, labels = batch(case, first, sum(map(sum, passes)))
        first += len(labels)
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        sgd.step()
    print_values(case, "alone", model)


def run(rank, rendezvous):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank,
                                         world_size=RANKS)
    for case in cases():
        train_distributed(case, rank)
        if rank == 0 and case.variant.startswith("uneven"):
            train_alone(case)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(run, (os.path.join(directory, "rendezvous"),), nprocs=RANKS)
