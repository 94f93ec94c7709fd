#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# Times all_reduce of float32 sums in PyTorch over Gloo, on the CPU, one thread per rank: each size
# in bytes with the median microseconds of a call.
import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing


def measure(rank, options, rendezvous):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank,
                                         world_size=options.ranks)
    for size in options.sizes:
        values = torch.zeros(size // 4)
        calls = []
        for _ in range(options.warmup + options.calls):
            begin = time.perf_counter()
            torch.distributed.all_reduce(values)
            calls.append(1e6 * (time.perf_counter() - begin))
        if rank == 0:
            print(f"{size} {statistics.median(calls[options.warmup:]):.1f}", flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")],
                        default=[1024])
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(measure, (options, os.path.join(directory, "rendezvous")),
                                    nprocs=options.ranks)


if __name__ == "__main__":
    main()
