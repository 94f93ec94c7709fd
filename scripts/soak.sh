#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Measures the promised times; the tests only assert five times the promise. Fails if a line says
# BROKEN:
#   scripts/soak.sh [ROUNDS]    (default 100: eight minutes; needs a build with tests in build/)
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-100}
[ -x build/bin/soak ] || cmake --build build --target soak ddp-launch collective_worker >/dev/null
exec build/bin/soak "$rounds"
