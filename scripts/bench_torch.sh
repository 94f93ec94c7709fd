#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Compares training steps and all_reduce with PyTorch's (the distribution's python3-torch), one
# thread per rank, in turns:
#   lenet5, batch 64 a rank, on 2 ranks: ours over shm, DistributedDataParallel over Gloo;
#   resnet18 and unet, batch 16, images of 64 x 64, and gpt-micro, batch 16, samples of 128 tokens,
#   on 1 rank and one CPU;
#   all_reduce on 2 ranks: ours over TCP, PyTorch's over Gloo;
#   single kernels (bench_torch_kernels).
#   scripts/bench_torch.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh
rounds=$(whole_number "${1:-7}")

install_packages "${build_packages[@]}" "${test_packages[@]}" python3-torch python3-numpy \
  libtorch-dev
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_BENCH=ON \
  -DDDP_BUILD_EXAMPLES=ON >/dev/null
cmake --build build --target ddp-launch bench_step bench_all_reduce \
  bench_torch_kernels >/dev/null

cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')  # the first usable CPU, as in bench_step

# our_step, torch_step MODEL BATCH RANKS STEPS: print the median milliseconds of a step.
our_step() {
  local launch=()
  [ "$3" -eq 1 ] || launch=(build/bin/ddp-launch --nproc_per_node="$3")
  "${launch[@]}" build/bin/bench_step --models "$1" --batch-size "$2" --rounds "$4" |
    awk -v model="$1" '$1 == model { print $3 }'
}
torch_step() {
  local pin=()
  [ "$3" -gt 1 ] || pin=(taskset -c "$cpu")
  OMP_NUM_THREADS=1 "${pin[@]}" /usr/bin/python3 bench/torch/step.py --model "$1" \
    --batch-size "$2" --ranks "$3" --steps "$4" --warmup 3
}

# our_all_reduce BYTES, torch_all_reduce BYTES: print the median microseconds of a call.
our_all_reduce() {
  build/bin/ddp-launch --nproc_per_node=2 build/bin/bench_all_reduce --backend tcp --sizes "$1" |
    awk -v size="$1" '$1 == size { print $5 }'
}
torch_all_reduce() {
  OMP_NUM_THREADS=1 /usr/bin/python3 bench/torch/all_reduce.py --sizes "$1" | awk '{ print $2 }'
}

# in_turns WHAT OURS THEIRS ARGUMENT…: runs both with the arguments in turns; prints both times and
# the ratio. PyTorch's processes over Gloo now and then abort; such a round is left out.
in_turns() {
  local what=$1 ours=$2 theirs=$3 a b ratio ratios=
  shift 3
  printf '\n# %s: a = ours, b = PyTorch %s; load %s\n%8s %10s %10s %8s\n' \
    "$what" "$version" "$(cut -d' ' -f1 /proc/loadavg)" round a b a/b
  for ((round = 1; round <= rounds; ++round)); do
    a=$("$ours" "$@")
    b=$("$theirs" "$@") || { printf '%8s %10s %10s\n' "$round" "$a" failed; continue; }
    ratio=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", a / b }')
    ratios+="$ratio"$'\n'
    printf '%8s %10s %10s %8s\n' "$round" "$a" "$b" "$ratio"
  done
  printf '%s' "$ratios" | sort -n | awk '{ r[NR] = $1 }
    END { printf "# ratio: median %.3f, from %.3f to %.3f\n", r[int((NR + 1) / 2)], r[1], r[NR] }'
}

# steps MODEL BATCH RANKS STEPS
steps() { in_turns "$1, batch $2, $3 rank(s), ms of a step" our_step torch_step "$@"; }

version=$(/usr/bin/python3 -c 'import torch; print(torch.__version__)')
echo "# $(nproc) CPUs, $(date -u '+%Y-%m-%d %H:%M UTC'); each time is the median of its run"
steps lenet5 64 2 200
steps resnet18 16 1 10
steps unet 16 1 5
steps gpt-micro 16 1 10
for size in 1024 65536 1048576 26214400; do
  in_turns "all_reduce of $size bytes, 2 ranks, us of a call" our_all_reduce torch_all_reduce "$size"
done
echo
build/bin/bench_torch_kernels --rounds "$rounds"
