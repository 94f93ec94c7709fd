# SPDX-License-Identifier: MIT
"""Runs one of N ranks, PyTorch's and ours, that meet on the store at a port; see store_interop.cpp.

    torch_meet.py PORT RANK N
"""
import sys

from checks import TIMEOUT, connect, exit_with, expect, report

port, rank, world_size = map(int, sys.argv[1:])


def meet():
    store = connect(port)
    for number in range(10):
        prefix = f"meet/{number}/"
        store.set(f"{prefix}{rank}", f"{prefix}{rank * rank}")
        if store.add(prefix + "arrived", 1) == world_size:
            store.set(prefix + "all", "1")
        store.wait([prefix + "all"], TIMEOUT)
        for peer in range(world_size):
            expect(store.get(f"{prefix}{peer}") == f"{prefix}{peer * peer}".encode(),
                   f"the value of rank {peer}")


exit_with(report(f"rank {rank} (PyTorch) met the others", meet))
