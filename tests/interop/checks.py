# SPDX-License-Identifier: MIT
"""Shared by the Python programs of scripts/test_torch_interop.sh."""
import sys
from datetime import timedelta

import torch
from torch.distributed import TCPStore

TIMEOUT = timedelta(seconds=60)
HAS_LIBUV = "debian" not in torch.__version__  # the distribution builds PyTorch without libuv


def connect(port):
    """Returns a client of the store on this port of the loopback interface."""
    return TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False, timeout=TIMEOUT,
                    use_libuv=HAS_LIBUV)


def report(name, body):
    """Runs body() and prints "ok NAME" or "FAILED NAME: WHY"; true if it raised nothing."""
    try:
        body()
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"FAILED {name}: {why[:300]}", flush=True)
        return False
    print(f"ok {name}", flush=True)
    return True


def expect(condition, what):
    if not condition:
        raise AssertionError(f"expected {what}")


def exit_with(passed):
    sys.exit(0 if passed else 1)
