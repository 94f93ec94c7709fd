#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds, tests and measures on a machine with a GPU, and reports, in less than nine minutes:
# docs/gpu/README.md.
#   scripts/gpu_check.sh [--dry-run] OUT
set -euo pipefail
command -v python3 >/dev/null || { echo "gpu_check: python3 is missing; please install it" >&2; exit 2; }
exec python3 "$(dirname "$0")/gpu_check/main.py" "$@"
