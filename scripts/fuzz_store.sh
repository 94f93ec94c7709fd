#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Fuzzes the store's parser and state with libFuzzer, under the address and undefined-behaviour
# sanitizers.
#   scripts/fuzz_store.sh [SECONDS]      default: 60
# Inputs that reach new code are kept in build-fuzz/corpus for the next run. An input that makes the
# fuzzer fail is left in build-fuzz/, and the exit code is not 0.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh

seconds=$(whole_number "${1:-60}")
command -v clang++ >/dev/null || install_packages clang
has_runtime() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer - -o /dev/null 2>/dev/null
}
has_runtime || install_packages "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"

mkdir -p build-fuzz/corpus
clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
  -Wall -Wextra -Ilibddp tests/store/store_fuzz.cpp libddp/ddp/store/store_state.cpp \
  libddp/ddp/store/wire.cpp libddp/ddp/base/error.cpp -o build-fuzz/store_fuzz
build-fuzz/store_fuzz -max_total_time="$seconds" -max_len=2048 -print_final_stats=1 \
  -artifact_prefix=build-fuzz/ build-fuzz/corpus
