# SPDX-License-Identifier: MIT
"""Runs one rank of a PyTorch process group over Gloo; the environment says where the store is."""
import functools
import importlib
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from checks import HAS_LIBUV, expect, report


def all_reduce():
    value = torch.arange(1000.0) * (dist.get_rank() + 1)
    dist.all_reduce(value)
    expected = torch.arange(1000.0) * sum(range(1, dist.get_world_size() + 1))
    expect(torch.equal(value, expected), "the sum over the ranks")


def broadcast():
    value = torch.full((3,), float(dist.get_rank()))
    dist.broadcast(value, src=1)
    expect(value.tolist() == [1.0] * 3, "rank 1's values")


if not HAS_LIBUV:  # a client of an agent's store requests libuv, whatever USE_LIBUV says
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    rendezvous.TCPStore = functools.partial(dist.TCPStore, use_libuv=False)
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
who = f"rank {dist.get_rank()} of {dist.get_world_size()} (PyTorch, Gloo)"
passed = [report(f"{who} {body.__name__}", body) for body in (all_reduce, broadcast, dist.barrier)]
# Exits without destructors: in 2.6 the group's destructor, which holds the GIL, and its worker
# thread, which needs the GIL, sometimes wait for each other, whichever process hosts the store.
os._exit(0 if all(passed) else 1)
