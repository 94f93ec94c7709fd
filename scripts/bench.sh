#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds in release mode and prints the tables of all benchmarks with their default sizes. Takes
# six to ten minutes after the build; use the machine for nothing else meanwhile.
# docs/benchmarks.md explains the tables.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh

install_packages "${build_packages[@]}" "${test_packages[@]}"  # a new build has tests, too
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_BENCH=ON \
  -DDDP_BUILD_EXAMPLES=ON >/dev/null
cmake --build build --target ddp-launch all_reduce bench_launch bench_store bench_all_reduce \
  bench_reducer bench_recorder bench_step bench_conv2d bench_engine bench_accumulation \
  bench_parallel bench_buffer_ops

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

run build/bin/bench_launch
run build/bin/bench_store
run build/bin/bench_recorder
run build/bin/bench_step
run build/bin/bench_buffer_ops
run build/bin/bench_conv2d
run build/bin/bench_engine
run build/bin/bench_accumulation

gpus=$( (nvidia-smi -L 2>/dev/null || true) | grep -c '^GPU' || true)
if [ "$gpus" -ge 2 ]; then
  run build/bin/ddp-launch --nproc_per_node=gpu build/bin/bench_all_reduce --backend nccl -e 256M
else
  echo
  echo "all_reduce over NCCL: left out, since it needs two GPUs and there are $gpus here."
fi
run build/bin/ddp-launch --nproc_per_node=2 build/bin/bench_parallel
run build/bin/ddp-launch --nproc_per_node=2 build/bin/bench_reducer
run build/bin/ddp-launch --nproc_per_node=2 build/bin/bench_all_reduce --backend shm
run build/bin/ddp-launch --nproc_per_node=2 build/bin/bench_all_reduce --backend tcp
run build/bin/ddp-launch --nproc_per_node=2 build/bin/bench_step --backends shm,tcp
sizes=1K,4K,16K,64K,256K,1M,4M,25M,100M
for ranks in 2 4 8; do
  run build/bin/ddp-launch --nproc_per_node=$ranks build/bin/bench_all_reduce --compare --sizes $sizes
done
