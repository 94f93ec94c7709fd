#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The lenet5 step, batch 64 a rank, 2 ranks of one thread each: ours over shm beside PyTorch's
# DistributedDataParallel over Gloo (the distribution's python3-torch), in turns.
#   scripts/bench_torch.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh
rounds=${1:-7}

install_packages "${build_packages[@]}" python3-torch python3-numpy
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_BENCH=ON >/dev/null
cmake --build build --target ddp-launch bench_step >/dev/null

ours() {
  build/bin/ddp-launch --nproc_per_node=2 build/bin/bench_step --models lenet5 |
    awk '$1 == "lenet5" { print $3 }'
}
torch() { OMP_NUM_THREADS=1 /usr/bin/python3 bench/torch/lenet5_ddp.py; }

version=$(/usr/bin/python3 -c 'import torch; print(torch.__version__)')
echo "# lenet5, batch 64, 2 ranks, $(nproc) CPUs, PyTorch $version, $(date -u '+%Y-%m-%d %H:%M UTC')"
echo "# milliseconds of a step, each the median of its run; the runs take turns"
printf '%8s %8s %8s %8s\n' round ours torch ratio
ratios=
for ((round = 1; round <= rounds; ++round)); do
  a=$(ours)
  b=$(torch)
  ratio=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", a / b }')
  ratios+="$ratio"$'\n'
  printf '%8s %8s %8s %8s\n' "$round" "$a" "$b" "$ratio"
done
printf '%s' "$ratios" | sort -n | awk '{ r[NR] = $1 }
  END { printf "# ratio: median %.3f, from %.3f to %.3f\n", r[int((NR + 1) / 2)], r[1], r[NR] }'
