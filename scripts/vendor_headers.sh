#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Collects the header-only dependencies from the distribution's packages, with their licences, for a
# build on a machine without network or packages:
#   scripts/vendor_headers.sh [DIR]               DIR/include, DIR/licenses (third_party/vendored)
#   cmake -S . -B build -DDDP_VENDORED_HEADERS=DIR
set -euo pipefail
root=$(dirname "$0")/..
source "$root/scripts/install_packages.sh"
target=${1:-$root/third_party/vendored}
packages=(libspdlog-dev libfmt-dev libcxxopts-dev nlohmann-json3-dev catch2)

install_packages "${packages[@]}"
rm -rf "$target/include" "$target/licenses"
mkdir -p "$target/include" "$target/licenses"
for package in "${packages[@]}"; do
  dpkg -L "$package" | grep -E '^/usr/include/.*\.(h|hpp)$' | while read -r header; do
    install -D -m 644 "$header" "$target/include/${header#/usr/include/}"
  done
  install -m 644 "/usr/share/doc/$package/copyright" "$target/licenses/$package"
done
dpkg-query -W "${packages[@]}" >"$target/versions"
echo "$(find "$target/include" -type f | wc -l) headers of ${#packages[@]} packages in $target"
