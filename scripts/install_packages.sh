#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs those of the distribution's packages that are missing:
#   scripts/install_packages.sh [PACKAGE…]   default: what the build and the tests need
# or, in a script:
#   source scripts/install_packages.sh; install_packages PACKAGE…

build_packages=(g++ cmake ninja-build libspdlog-dev libfmt-dev libcxxopts-dev nlohmann-json3-dev
  zlib1g-dev libopenblas-dev libdnnl-dev libjpeg-dev libpng-dev)
data_packages=(dataset-fashion-mnist)
test_packages=(catch2 ccache binutils python3)
optional_packages=(libtorch-dev python3-torch openmpi-bin)  # if the distribution has them

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
      echo "$package"
  done
}

available_packages() {
  local package
  for package in "$@"; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      echo "$package"
    else
      echo "Package $package is not available here: what needs it is left out" >&2
    fi
  done
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "This is neither Debian nor Ubuntu: please install the equivalents of: $*" >&2
    return 0
  fi
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    if ! command -v sudo >/dev/null; then
      echo "Please have root run: apt-get install --no-install-recommends ${missing[*]}" >&2
      return 1
    fi
  fi
  echo "Installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The argument, if it is a number of rounds or seconds; otherwise the calling script's usage, which
# its first lines say.
whole_number() {
  if [[ $1 =~ ^[1-9][0-9]*$ ]]; then
    echo "$1"
  else
    sed -n '3,/^set /{/^#/s/^# \?//p}' "scripts/$(basename "$0")" >&2
    return 2
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  case ${1:-} in -*) sed -n '4,5s/^# \?//p' "$0" >&2; exit 2 ;; esac
  [ $# -gt 0 ] || set -- "${build_packages[@]}" "${data_packages[@]}" "${test_packages[@]}"
  install_packages "$@"
fi
