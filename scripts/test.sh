#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what is missing, builds, and runs the tests: all tests in a release build, then the tests
# of store, collectives, engine, data and launcher with the address and undefined-behaviour
# sanitizers, and with the thread sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh

install_packages "${build_packages[@]}" "${data_packages[@]}" "${test_packages[@]}" clang-format
mapfile -t optional < <(available_packages "${optional_packages[@]}")
install_packages "${optional[@]}"
# Clones in different folders share the compiler cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
cache=$(command -v ccache >/dev/null && echo ccache) || true
launcher=("-DCMAKE_CXX_COMPILER_LAUNCHER=$cache" "-DCMAKE_CUDA_COMPILER_LAUNCHER=$cache")

# A build that is there, such as quickstart.sh's, keeps what it has compiled.
first_build=()
[[ -e build/CMakeCache.txt ]] || first_build=(-DCMAKE_UNITY_BUILD=ON "${launcher[@]}")

step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }
# Six tests at a time, of which at most two compute: others mostly wait. The variable is for those
# that configure a project.
run_tests() {
  CMAKE_CXX_COMPILER_LAUNCHER=$cache ctest -j 6 --resource-spec-file "$PWD/tests/cores.json" \
    --output-on-failure --test-dir "$@"
}

step "format and layers"
scripts/check.sh

step "release build"
# Without it tensorboard_test and safetensors_package_test are skipped; then this says why.
interop_python=$(scripts/interop_python.sh) || interop_python=/usr/bin/python3
# quickstart.sh has set DDP_WARNINGS_AS_ERRORS, whose default counts here.
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_TESTS=ON -DDDP_BUILD_BENCH=ON \
  -UDDP_WARNINGS_AS_ERRORS -DDDP_CUDA_EMULATION=ON -DDDP_INTEROP_PYTHON="$interop_python" \
  -DDDP_CUDA_ARCHITECTURES="$(scripts/gpu_architectures.sh)" "${first_build[@]}"
cmake --build build

sanitized=(base_test store_test buffer_ops_test collectives_test start_test shm_test hang_test
  engine_test engine_policies_test data_loader_test process_test hang_process_test
  launcher_unit_test launcher_test launcher_stop_test prove_test
  no_image_file_test data_without_zlib_test io_without_zlib_test)  # they replace parts of libraries
# A sanitizer's build takes the CPU time that the tests before it leave. The job is ninja itself,
# which ends its compilers when it is told to end.
build_job=
trap '[[ -z $build_job ]] || kill "$build_job" 2>/dev/null || true' EXIT
start_build() {
  cmake --preset "$1" -DDDP_BUILD_EXAMPLES=OFF -DCMAKE_UNITY_BUILD=ON "${launcher[@]}" >/dev/null
  nice -n 19 ninja -C "build-$1" "${sanitized[@]}" >"build-$1/build.log" 2>&1 &
  build_job=$!
}
finish_build() {
  step "rest of the $1 build"
  local status=0
  wait "$build_job" || status=$?
  build_job=
  [[ $status == 0 ]] || cat "build-$1/build.log"
  return "$status"
}
run_sanitized() {
  step "$1 tests"
  run_tests "build-$1" -R "^($(IFS='|'; echo "${sanitized[*]}"))\$"
}
export TSAN_OPTIONS=atexit_sleep_ms=0  # by default every process sleeps a second at exit

start_build asan
step "release tests"
run_tests build
finish_build asan
start_build tsan
run_sanitized asan
finish_build tsan
run_sanitized tsan
step "done"
