#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Prints a value for DDP_CUDA_ARCHITECTURES: this machine's GPUs alone, which saves time; without a
# GPU PTX only, which a GPU's driver could compile further.
set -euo pipefail
architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u |
  sed 's/\.//; s/$/-real/' | paste -sd ';') || architectures=80-virtual
echo "$architectures"
