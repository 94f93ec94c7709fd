# SPDX-License-Identifier: MIT
"""A training script as PyTorch's users write it, on the CPU: nothing in it knows who starts it."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # DistributedDataParallel must make the models equal
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()

    lowest = torch.cat([p.detach().flatten() for p in model.parameters()])
    highest = lowest.clone()
    dist.all_reduce(lowest, dist.ReduceOp.MIN)
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{ranks} ranks, {'one model' if torch.equal(lowest, highest) else 'models differ'}")


main()
# Exits without destructors: PyTorch 2.6's process group sometimes hangs in its destructor (see
# torch_gloo.py).
sys.stdout.flush()
os._exit(0)
