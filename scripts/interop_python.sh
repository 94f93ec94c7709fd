#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Prints the path of a Python that has the packages tensorboard and safetensors, for tests that read
# our files with them. The first time they are installed from PyPI into
# ${DDP_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}/python (200 MB). If that is impossible,
# says so and ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh

cache=${DDP_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}
venv=$cache/python
skip() { echo "SKIPPED: TensorBoard and safetensors do not read our files: $*" >&2; exit 77; }
has_packages() { "$venv/bin/python" -c 'import numpy, safetensors, tensorboard' 2>/dev/null; }

if ! has_packages; then
  install_packages python3-venv >&2 || skip "python3-venv cannot be installed"
  mkdir -p "$cache" || skip "$cache cannot be made"
  exec {lock}>"$cache/python.lock"  # one installation at a time
  flock "$lock"
fi
if ! has_packages; then
  echo "Installing tensorboard and safetensors of PyPI into $venv" >&2
  /usr/bin/python3 -m venv --clear "$venv" >&2 || skip "python3-venv makes no environment"
  timeout 300 "$venv/bin/pip" --timeout 15 --retries 1 --disable-pip-version-check install --quiet \
    numpy safetensors tensorboard >&2 || skip "they cannot be installed from PyPI"
  has_packages || skip "what PyPI has does not work with this Python"
fi
echo "$venv/bin/python"
