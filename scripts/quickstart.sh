#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what is missing, builds into build/, and trains LeNet-5 on Fashion-MNIST: over NCCL if
# there are two GPUs or more, otherwise with two ranks on the CPU.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh

install_packages "${build_packages[@]}" "${data_packages[@]}"

architectures=$(scripts/gpu_architectures.sh)
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_TESTS=OFF \
  -DDDP_BUILD_BENCH=OFF -DDDP_WARNINGS_AS_ERRORS=OFF -DCMAKE_UNITY_BUILD=ON \
  -DDDP_CUDA_ARCHITECTURES="$architectures" | grep -E '^-- (ddp|  )' ||
  { echo "configuring failed" >&2; exit 1; }
cmake --build build

main_job() {
  echo "\$ build/bin/ddp-launch $*"
  build/bin/ddp-launch "$@"
}
train=(build/bin/train --model lenet5 --epochs 3 --batch-size 64 --lr 0.05 --momentum 0.9
  --lr-schedule cosine)

# Prints the number of GPUs that this build's programs can use. A program prints its device, which
# shows whether CUDA is built in and works. ddp-launch counts the GPUs, as it respects
# CUDA_VISIBLE_DEVICES; where it cannot (a container may lack NVML), there is still the one that the
# program used.
usable_gpus() {
  local gpus=0
  if [[ $(build/bin/all_reduce) == *" on cuda:"* ]]; then
    gpus=$(build/bin/ddp-launch -n gpu --dry-run true | grep -cE '^ *[0-9]+ +[0-9]+ ') || gpus=1
  fi
  echo "$gpus"
}

echo
gpus=$(usable_gpus)
if [ "$gpus" -ge 2 ]; then
  main_job --nproc_per_node=2 "${train[@]}"
elif [ "$gpus" -eq 1 ]; then
  echo "One GPU: one rank on it, then two ranks on the CPU."
  main_job --nproc_per_node=1 "${train[@]}"
  main_job --nproc_per_node=2 "${train[@]}" --device cpu
else
  echo "No GPU that this build can use: two ranks on the CPU."
  main_job --nproc_per_node=2 "${train[@]}"
fi
