#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Collects the header-only dependencies from the distribution's packages, with their licences, for a
# build on a machine without network or packages:
#   scripts/vendor_headers.sh [--with-data] [DIR]      into third_party/vendored, or DIR
#   cmake -S . -B build -DDDP_VENDORED_HEADERS=DIR
#   --with-data   Fashion-MNIST too, 30 MB
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
source "$root/scripts/install_packages.sh"
packages=(libspdlog-dev libfmt-dev libcxxopts-dev nlohmann-json3-dev catch2)
with_data=false
targets=()
for argument in "$@"; do
  case $argument in
    --with-data) with_data=true ;;
    *) targets+=("$argument") ;;
  esac
done
target=${targets[0]:-$root/third_party/vendored}
if [ "${#targets[@]}" -gt 1 ] || [[ $target == -* ]]; then
  sed -n '4,8s/^# \?//p' "$0" >&2
  exit 2
fi

copy_headers() {
  dpkg -L "$1" | grep -E '^/usr/include/.*\.(h|hpp)$' | while read -r header; do
    install -D -m 644 "$header" "$target/include/${header#/usr/include/}"
  done
}
copy_licence() { install -D -m 644 "/usr/share/doc/$1/copyright" "$target/licenses/$1"; }

# Only what this script made before is replaced.
if [ -n "$(ls -A "$target" 2>/dev/null)" ] && [ ! -e "$target/versions" ]; then
  echo "$target is neither empty nor a folder of this script (it has no file 'versions')" >&2
  exit 2
fi
mkdir -p "$target"
touch "$target/versions"
install_packages "${packages[@]}"
rm -rf "$target/include" "$target/licenses" "$target/fashion-mnist"
for package in "${packages[@]}"; do
  copy_headers "$package"
  copy_licence "$package"
done
if $with_data; then
  install_packages dataset-fashion-mnist
  install -D -m 644 -t "$target/fashion-mnist" /usr/share/datasets/fashion-mnist/*.gz
  copy_licence dataset-fashion-mnist
fi
[ -e "$target/include/catch2/catch.hpp" ] ||
  echo "The Catch2 here is version 3 or newer and has a library: no tests can be built from these headers" >&2
dpkg-query -W "${packages[@]}" >"$target/versions"
echo "$(find "$target/include" -type f | wc -l) headers, $(du -sm "$target" | cut -f1) MB in $target"
