#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Prints the path of a Python that has the tensorboard package, for tests that read our event files
# with it. The first time it is installed from PyPI into
# ${DDP_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}/tensorboard (200 MB). If that is
# impossible, says so and ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh

cache=${DDP_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}
venv=$cache/tensorboard
skip() { echo "SKIPPED: TensorBoard does not read our event files: $*" >&2; exit 77; }
has_tensorboard() { "$venv/bin/python" -c 'import tensorboard' 2>/dev/null; }

if ! has_tensorboard; then
  install_packages python3-venv >&2 || skip "python3-venv cannot be installed"
  mkdir -p "$cache" || skip "$cache cannot be made"
  exec {lock}>"$cache/tensorboard.lock"  # one installation at a time
  flock "$lock"
fi
if ! has_tensorboard; then
  echo "Installing tensorboard of PyPI into $venv" >&2
  /usr/bin/python3 -m venv --clear "$venv" >&2 || skip "python3-venv makes no environment"
  timeout 300 "$venv/bin/pip" --timeout 15 --retries 1 --disable-pip-version-check install --quiet \
    tensorboard >&2 || skip "it cannot be installed from PyPI"
  has_tensorboard || skip "what PyPI has does not work with this Python"
fi
echo "$venv/bin/python"
