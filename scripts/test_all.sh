#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs scripts/test.sh and the longer tests: the fuzzer for a minute, real PyTorch, and the
# soak test.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/test.sh
scripts/fuzz_store.sh 60
scripts/soak.sh
status=0
scripts/test_torch_interop.sh || status=$?
[ "$status" -eq 77 ] && echo "SKIPPED: real PyTorch (see above)" && status=0
exit "$status"
