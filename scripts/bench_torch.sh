#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Training steps beside PyTorch's (the distribution's python3-torch), one thread a rank, in turns:
#   lenet5, batch 64 a rank, on 2 ranks: ours over shm, DistributedDataParallel over Gloo;
#   resnet18 and unet, batch 16, images of 64 x 64, on 1 rank and one CPU;
# then samples a second of resnet18 on 2 ranks over those of 1 rank, without PyTorch.
#   scripts/bench_torch.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh
rounds=${1:-7}

install_packages "${build_packages[@]}" python3-torch python3-numpy
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_BENCH=ON >/dev/null
cmake --build build --target ddp-launch bench_step >/dev/null

cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')  # the first that may be used, as in bench_step

# MODEL BATCH RANKS STEPS: the median milliseconds of a step.
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

# TITLE FACTOR A B: runs A and B in turns; prints their milliseconds, and FACTOR times the ratio.
take_turns() {
  local title=$1 factor=$2 a b ratio ratios=
  printf '\n# %s; load %s\n%8s %10s %10s %8s\n' "$title" "$(cut -d' ' -f1 /proc/loadavg)" \
    round a b ratio
  for ((round = 1; round <= rounds; ++round)); do
    a=$($3)
    b=$($4)
    ratio=$(awk -v f="$factor" -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", f * a / b }')
    ratios+="$ratio"$'\n'
    printf '%8s %10s %10s %8s\n' "$round" "$a" "$b" "$ratio"
  done
  printf '%s' "$ratios" | sort -n | awk '{ r[NR] = $1 }
    END { printf "# ratio: median %.3f, from %.3f to %.3f\n", r[int((NR + 1) / 2)], r[1], r[NR] }'
}

beside_torch() {
  take_turns "$1, batch $2, $3 rank(s): a = ours, b = PyTorch $version" 1 "ours $*" "torch $*"
}

version=$(/usr/bin/python3 -c 'import torch; print(torch.__version__)')
echo "# $(nproc) CPUs, $(date -u '+%Y-%m-%d %H:%M UTC'); milliseconds of a step, each the median of its run"
beside_torch lenet5 64 2 200
beside_torch resnet18 16 1 10
beside_torch unet 16 1 5
take_turns "resnet18, batch 16: a = 1 rank, b = 2 ranks; ratio of samples/s" 2 \
  "ours resnet18 16 1 10" "ours resnet18 16 2 10"
