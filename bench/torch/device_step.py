#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures in PyTorch what bench_step and bench_engine measure on a GPU, and prints the same lines of
JSON (bench/support/figure.h):
  eager    training steps in float32, with and without TF32, and under bfloat16 autocast
  compile  the same steps through torch.compile, which takes long to start
  tax      the time of a step with DistributedDataParallel in a world of one, divided by that of a
           step without it; the two are measured in turns
Under ddp-launch (or torchrun) `eager` measures ranks under DistributedDataParallel. If PyTorch cannot
do something, it prints a line with n = 0 and the error."""
import argparse
import inspect
import json
import os
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import torch
    import torch.distributed
    from step import make_batch, make_model
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)

RANKS = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "0"))
PRECISIONS = ("float32", "tf32", "bfloat16 amp")
# The profiler also lists annotations, which are not kernels.
ANNOTATIONS = ("DistributedDataParallel", "Optimizer.", "nccl:")
IMAGE_SIZES = {"lenet5": 28, "resnet18": 224, "gpt-micro": 1}  # 1: it has none


def print_figure(name, unit, samples, **labels):
    quartiles = (statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1
                 else [samples[0]] * 3)
    figure = {"figure": name, "unit": unit, "median": statistics.median(samples),
              "spread": (quartiles[2] - quartiles[0]) / 2, "n": len(samples)}
    print(json.dumps({**figure, **labels}), flush=True)


def sgd_options(device):
    """Uses one kernel for many parameters if PyTorch has one, like our optimizers."""
    has_fused = device == "cuda" and "fused" in inspect.signature(torch.optim.SGD).parameters
    return {"fused": True} if has_fused else {}


class Step:
    """Makes one training step on data that is already on the device."""

    def __init__(self, options, precision, wrap=lambda model: model, channels_last=False):
        self.device = torch.device(options.device)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self.model = wrap(make_model(options.model).to(self.device, memory_format=layout))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9,
                                         **sgd_options(options.device))
        images, targets, self.loss = make_batch(options.model, options.batch_size,
                                                options.image_size)
        self.images = images.to(self.device, memory_format=layout)
        self.targets = targets.to(self.device)
        self.precision = precision

    def __call__(self):
        allow = self.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16,
                            enabled=self.precision == "bfloat16 amp"):
            loss = self.loss(self.model(self.images), self.targets)
        loss.backward()
        self.optimizer.step()

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def milliseconds(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self()
        self.synchronize()
        return 1000 * (time.perf_counter() - begin) / steps


def labels_of(options, precision, **more):
    return {"by": "PyTorch " + torch.__version__, "model": options.model,
            "batch": options.batch_size, "image": options.image_size, "precision": precision,
            "optimizer": "fused" if sgd_options(options.device) else "default",
            "ranks": RANKS, "sharing_a_gpu": "yes" if "DDP_OVERSUBSCRIBE" in os.environ else "no",
            **more}


def print_step(options, step, **labels):
    step.milliseconds(options.warmup)
    samples = [step.milliseconds(options.steps) for _ in range(options.rounds)]
    if RANK != 0:
        return
    images = 1000 * options.batch_size * RANKS / statistics.median(samples)
    print_figure("training step", "ms", samples, **labels, images_per_s=images)


def measure_eager(options):
    for precision in options.precisions:
        for channels_last in (False, True) if options.model == "resnet18" else (False,):
            step = Step(options, precision, distribute if RANKS > 1 else lambda model: model,
                        channels_last)
            print_step(options, step, **labels_of(
                options, precision, mode="eager", layout="NHWC" if channels_last else "NCHW"))


def measure_compile(options):
    for precision in options.precisions:
        step = Step(options, precision, torch.compile)
        print_step(options, step, **labels_of(options, precision, mode="compile", layout="NCHW"))


def distribute(model):
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else None
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=devices)


def join(options):
    """Joins the launcher's ranks; without a launcher, makes a world of one."""
    backend = "nccl" if options.device == "cuda" else "gloo"
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if RANKS > 1:
        return torch.distributed.init_process_group(backend)
    place = os.path.join(tempfile.mkdtemp(), "rendezvous")
    return torch.distributed.init_process_group(backend, init_method="file://" + place, rank=0,
                                                world_size=1)


def kernels_and_bytes(step):
    """Counts, for one step, its kernels and the bytes that are copied or set without a kernel."""
    with torch.profiler.profile() as profile:
        step()
        step.synchronize()
    events = [e for e in profile.profiler.kineto_results.events()
              if e.device_type().name == "CUDA" and not e.name().startswith(ANNOTATIONS)]
    moves = [e for e in events if e.name().startswith(("Memcpy", "Memset"))]
    return len(events) - len(moves), sum(e.nbytes() for e in moves)


def measure_tax(options):
    """The second pair is the control: it shows how much two equal steps seem to differ."""
    steps = [Step(options, "float32"), Step(options, "float32"),
             Step(options, "float32", distribute)]
    samples = [[], [], []]
    for step in steps:
        step.milliseconds(options.warmup)
    for turn in range(options.rounds):
        for i in range(3):
            i = (i + turn) % 3
            samples[i].append(steps[i].milliseconds(options.steps))
    labels = labels_of(options, "float32")
    print_figure("step without DDP", "ms", samples[0], **labels)
    print_figure("step with DDP, world_size 1", "ms", samples[2], **labels)
    for name, other in (("step without DDP over another without", 1),
                        ("step with DDP over without, world_size 1", 2)):
        print_figure(name, "ratio", [b / a for a, b in zip(samples[0], samples[other])], **labels)
    if options.device == "cuda":
        print_work(steps[0], steps[2], labels)


def print_work(plain, distributed, labels):
    before, after = kernels_and_bytes(plain), kernels_and_bytes(distributed)
    print_figure("kernels that DDP adds to a step, world_size 1", "kernels",
                 [after[0] - before[0]], **labels, without=before[0])
    print_figure("bytes that DDP copies or sets in a step, world_size 1", "bytes",
                 [after[1] - before[1]], **labels)


def raise_timeout(*_):
    raise TimeoutError("there was no time left for it")


def attempt(part, options):
    signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(options.seconds)
    try:
        PARTS[part](options)
    except Exception as error:  # the other parts are measured even after an error
        failure = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if RANK == 0:
            print_figure(part, "ms", [0], **{**labels_of(options, "any"), "n": 0, "error": failure})
        if RANKS > 1:
            raise  # otherwise the other ranks would wait for this one
    finally:
        signal.alarm(0)


PARTS = {"eager": measure_eager, "compile": measure_compile, "tax": measure_tax}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--model", choices=IMAGE_SIZES, default="resnet18")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image-size", type=int, help="default: 28 for lenet5, 224 for resnet18")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--steps", type=int, default=5, help="timed together")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=0, help="for each part; 0: no limit")
    parser.add_argument("--warmup", type=int, default=10, help="steps")
    options = parser.parse_args()
    options.image_size = options.image_size or IMAGE_SIZES[options.model]
    if options.device == "cuda" and not torch.cuda.is_available():
        print("SKIPPED: no GPU", file=sys.stderr)
        return 77
    torch.backends.cudnn.benchmark = True
    if RANKS > 1 or "tax" in options.parts:
        join(options)
    for part in options.parts:
        attempt(part, options)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
