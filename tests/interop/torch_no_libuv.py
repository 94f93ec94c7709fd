# SPDX-License-Identifier: MIT
"""Runs a Python program, `FILE [args…]` or `-m MODULE [args…]`, as Python does, also where PyTorch was
built without libuv: there its own launcher and the client of an agent's store ask for it all the same."""
import runpy
import sys

from torch.distributed import TCPStore

from checks import HAS_LIBUV

if not HAS_LIBUV:
    made = TCPStore.__init__
    TCPStore.__init__ = lambda self, *args, **kwargs: made(self, *args, **{**kwargs, "use_libuv": False})
if sys.argv[1] == "-m":
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
