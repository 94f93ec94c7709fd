# SPDX-License-Identifier: MIT
"""Hosts PyTorch's store on a free port, prints the port, and ends when its stdin does.

    torch_host.py [libuv]
"""
import sys

from torch.distributed import TCPStore

store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                 use_libuv="libuv" in sys.argv[1:])
print(store.port, flush=True)
sys.stdin.read()
