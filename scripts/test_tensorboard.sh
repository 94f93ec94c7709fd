#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Reads our event files with the tensorboard package itself, installed from PyPI into
# ${XDG_CACHE_HOME:-$HOME/.cache}/ddp/tensorboard (200 MB). Ends with 77 if it cannot be installed.
#   scripts/test_tensorboard.sh [BUILD_DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh

build=${1:-build}
venv=${DDP_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}/tensorboard
skip() { echo "SKIPPED: $*" >&2; exit 77; }

if ! "$venv/bin/python" -c 'import tensorboard' 2>/dev/null; then
  install_packages python3-venv
  echo "Installing tensorboard of PyPI into $venv"
  /usr/bin/python3 -m venv "$venv" || skip "python3-venv makes no environment"
  "$venv/bin/pip" install --quiet tensorboard || skip "tensorboard cannot be installed"
fi
install_packages "${data_packages[@]}"
"$venv/bin/python" tests/interop/read_events.py \
  "$build/bin/summary_events" "$build/bin/train"
