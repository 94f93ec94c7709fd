#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fifty steps of each optimizer with real PyTorch on two small tensors, in float64; nn_test replays
them.

    python3 tests/reference/make_optimizer_reference.py > tests/reference/optimizer_reference.txt

Parameters "w" (3 x 5) and "b" (7) start from the streams "w" and "b" of ddp/base/random.h under seed 5,
their gradients in step s are draws s * N ... of the streams "grad w" and "grad b", N being the
tensor's size. In each seventh step (s % 7 == 3) "b" has no gradient. NAME is that of OPTIMIZERS; those
that end in "_clipped" clip the norm of both gradients to 1.5 first. Lines:
    NAME PARAMETER N V0 V1 ...          the parameter after 50 steps
    NAME PARAMETER.STATE N V0 V1 ...    PyTorch's state of it
    NAME norm STEP VALUE                what clip_grad_norm_ returned
    ema PARAMETER N ..., swa ...        AveragedModel of "sgd", with decay 0.9 or the plain average
    linear STEP RATE                    LinearLR(base 0.4, start_factor 0.25, total_iters 6)
    plateau_NAME RATE BEST BAD COOLDOWN ReduceLROnPlateau(base 0.4) of PLATEAUS after its next value:
                                        rate, best, num_bad_epochs, cooldown_counter
Vi are all elements, N is 1; the last two numbers are the tensor's sum and Euclidean norm.
"""
import math

import torch

from reference import draws, print_tensor

SEED, STEPS, CLIP = 5, 50, 1.5
SHAPES = {"w": (3, 5), "b": (7,)}
DECAY = {"weight_decay": 0.01}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, **DECAY),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, **DECAY),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, **DECAY),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, **DECAY),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adamw_clipped": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adamw_groups": lambda p: torch.optim.AdamW(
        [{"params": p[:1], "weight_decay": 0.1}, {"params": p[1:], "weight_decay": 0}], lr=0.01),
}
PLATEAUS = {
    "usual": dict(patience=2),
    "max": dict(mode="max", factor=0.5, patience=0, threshold=0.1, cooldown=2, min_lr=0.03),
    "absolute": dict(patience=1, threshold=0.05, threshold_mode="abs", cooldown=1, eps=0.01),
    "max_absolute": dict(mode="max", patience=1, threshold=0.2, threshold_mode="abs"),
}


def run(title, make):
    values = {n: draws(SEED, n, 0, s).requires_grad_() for n, s in SHAPES.items()}
    optimizer = make(list(values.values()))
    for step in range(STEPS):
        for name, value in values.items():
            n = value.numel()
            value.grad = draws(SEED, f"grad {name}", step * n, value.shape)
        if step % 7 == 3:
            values["b"].grad = None
        if title.endswith("_clipped"):
            norm = torch.nn.utils.clip_grad_norm_(values.values(), CLIP)
            print(f"{title} norm {step} {norm.item():.17g}")
        optimizer.step()
    for name, value in values.items():
        print_tensor(f"{title} {name}", value, 17)
        for key, state in optimizer.state[value].items():
            if state is not None:
                print_tensor(f"{title} {name}.{key}", torch.as_tensor(state), 17)


def run_average(title, **options):
    values = {n: torch.nn.Parameter(draws(SEED, n, 0, s)) for n, s in SHAPES.items()}
    averaged = torch.optim.swa_utils.AveragedModel(torch.nn.ParameterDict(values), **options)
    optimizer = OPTIMIZERS["sgd"](list(values.values()))
    for step in range(STEPS):
        for name, value in values.items():
            value.grad = draws(SEED, f"grad {name}", step * value.numel(), value.shape)
        if step % 7 == 3:
            values["b"].grad = None
        optimizer.step()
        averaged.update_parameters(torch.nn.ParameterDict(values))
    for name in SHAPES:
        print_tensor(f"{title} {name}", averaged.module[name], 17)


def run_warmup():
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler = torch.optim.lr_scheduler.LinearLR(sgd, start_factor=0.25, total_iters=6)
    for step in range(9):
        print(f"linear {step} {scheduler.get_last_lr()[0]:.17g}")
        sgd.step()
        scheduler.step()


def run_plateau(title, options):
    """Value i, from 0, is max(1 - i / 10, 0.2) with a tenth of draw i of the stream "plateau" added;
    where more is better, 1 minus that. Value 20 is NaN."""
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(sgd, **options)
    for i, noise in enumerate(draws(SEED, "plateau", 0, (40,)).tolist()):
        value = math.nan if i == 20 else max(1 - i / 10, 0.2) + 0.1 * noise
        scheduler.step(1 - value if options.get("mode") == "max" else value)
        counts = f"{scheduler.num_bad_epochs} {scheduler.cooldown_counter}"
        print(f"plateau_{title} {sgd.param_groups[0]['lr']:.17g} {scheduler.best:.17g} {counts}")


for title, make in OPTIMIZERS.items():
    run(title, make)
run_average("ema", avg_fn=lambda average, value, n: 0.9 * average + 0.1 * value)
run_average("swa")
run_warmup()
for title, options in PLATEAUS.items():
    run_plateau(title, options)
