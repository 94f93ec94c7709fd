# SPDX-License-Identifier: MIT
"""Prints random option sets with what PyTorch's DistributedSampler deals for them, in the format
of sampler_indices.cpp.

    torch_sampler.py COUNT SEED
"""
import random
import sys

from torch.utils.data import DistributedSampler

count, seed = map(int, sys.argv[1:])
choose = random.Random(seed)
for _ in range(count):
    size = choose.choice([choose.randrange(20), choose.randrange(1000), choose.randrange(20000)])
    world_size = choose.randint(1, 17)
    rank = choose.randrange(world_size)
    sampler_seed = choose.choice([0, choose.randrange(100), choose.getrandbits(63)])
    epoch = choose.choice([0, 1, choose.randrange(1000)])
    shuffle, drop_last = choose.random() < 0.8, choose.random() < 0.5
    sampler = DistributedSampler(range(size), world_size, rank, shuffle, sampler_seed, drop_last)
    sampler.set_epoch(epoch)
    print(size, world_size, rank, sampler_seed, epoch, int(shuffle), int(drop_last), ":",
          *sampler)
