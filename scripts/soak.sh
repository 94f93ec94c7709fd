#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Measures the promised times; the tests only assert five times the promise. Fails if a line says
# BROKEN:
#   scripts/soak.sh [ROUNDS]    (default 100: eight minutes; needs a build with tests in build/)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh
rounds=$(whole_number "${1:-100}")
# Not grep -q, which may end before its input has.
if ! cmake --build build --target help 2>/dev/null | grep '^soak:' >/dev/null; then
  echo "soak: needs a build with tests in build/: cmake --preset cpu" >&2
  exit 1
fi
cmake --build build --target soak ddp-launch collective_worker
exec build/bin/soak "$rounds"
