#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Compares training steps with PyTorch's (the distribution's python3-torch), one thread per rank, in
# turns:
#   lenet5, batch 64 a rank, on 2 ranks: ours over shm, DistributedDataParallel over Gloo;
#   resnet18 and unet, batch 16, images of 64 x 64, on 1 rank and one CPU.
#   scripts/bench_torch.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh
rounds=${1:-7}

install_packages "${build_packages[@]}" python3-torch python3-numpy
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_BENCH=ON >/dev/null
cmake --build build --target ddp-launch bench_step >/dev/null

cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')  # the first usable CPU, as in bench_step

# ours MODEL BATCH RANKS STEPS: prints the median milliseconds of a step.
ours() {
  local launch=()
  [ "$3" -eq 1 ] || launch=(build/bin/ddp-launch --nproc_per_node="$3")
  "${launch[@]}" build/bin/bench_step --models "$1" --batch-size "$2" --rounds "$4" |
    awk -v model="$1" '$1 == model { print $3 }'
}
torch() {
  local pin=()
  [ "$3" -gt 1 ] || pin=(taskset -c "$cpu")
  OMP_NUM_THREADS=1 "${pin[@]}" /usr/bin/python3 bench/torch/step.py --model "$1" \
    --batch-size "$2" --ranks "$3" --steps "$4" --warmup 3
}

# beside_torch MODEL BATCH RANKS STEPS: runs ours and PyTorch's in turns; prints both times and the
# ratio.
beside_torch() {
  local a b ratio ratios=
  printf '\n# %s, batch %s, %s rank(s): a = ours, b = PyTorch %s; load %s\n%8s %10s %10s %8s\n' \
    "$1" "$2" "$3" "$version" "$(cut -d' ' -f1 /proc/loadavg)" round a b a/b
  for ((round = 1; round <= rounds; ++round)); do
    a=$(ours "$@")
    b=$(torch "$@")
    ratio=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", a / b }')
    ratios+="$ratio"$'\n'
    printf '%8s %10s %10s %8s\n' "$round" "$a" "$b" "$ratio"
  done
  printf '%s' "$ratios" | sort -n | awk '{ r[NR] = $1 }
    END { printf "# ratio: median %.3f, from %.3f to %.3f\n", r[int((NR + 1) / 2)], r[1], r[NR] }'
}

version=$(/usr/bin/python3 -c 'import torch; print(torch.__version__)')
echo "# $(nproc) CPUs, $(date -u '+%Y-%m-%d %H:%M UTC'); milliseconds of a step, each the median of its run"
beside_torch lenet5 64 2 200
beside_torch resnet18 16 1 10
beside_torch unet 16 1 5
