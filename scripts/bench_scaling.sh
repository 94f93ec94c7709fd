#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Speed-up of two ranks on two CPUs over one rank: the ratio of samples per second of resnet18
# (batch 16 per rank, images of 64 x 64, one thread per rank), for
#   alone   two processes at the same time that know nothing of each other: what the machine gives
#   bound   two ranks, ddp-launch --bind core
#   free    two ranks, wherever the system puts them
# in turns:
#   scripts/bench_scaling.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh
rounds=$(whole_number "${1:-9}")

install_packages "${build_packages[@]}" "${test_packages[@]}"  # a new build has tests, too
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDP_BUILD_BENCH=ON >/dev/null
cmake --build build --target ddp-launch bench_step >/dev/null

read -r first second <<<"$(taskset -cp $$ | sed 's/.*: //' |
  awk '{ split($0, n, /[,-]/); print n[1], /^[0-9]+-/ ? n[1] + 1 : n[2] }')"  # of 0-3 or 1,5
[ -n "$second" ] || { echo "bench_scaling: two CPUs are needed" >&2; exit 1; }
bench=(build/bin/bench_step --models resnet18 --batch-size 16 --rounds 12)
samples() { awk '$1 == "resnet18" { print $5 }'; }

one() { taskset -c "$first" "${bench[@]}" | samples; }
bound() { build/bin/ddp-launch -n 2 --bind core "${bench[@]}" | samples; }
free() { build/bin/ddp-launch -n 2 "${bench[@]}" | samples; }
alone() {
  local other
  other=$(mktemp)
  taskset -c "$second" "${bench[@]}" | samples >"$other" &
  one >"$other.1"
  wait $!
  cat "$other" "$other.1" | awk '{ sum += $1 } END { print sum }'
  rm "$other" "$other.1"
}

echo "# $(nproc) CPUs, $(date -u '+%Y-%m-%d %H:%M UTC'), load $(cut -d' ' -f1 /proc/loadavg)"
printf '# %8s %8s %8s %8s   (samples/s; times as many)\n' '1 rank' alone bound free
results=
for ((round = 1; round <= rounds; ++round)); do
  line=$(echo "$(one) $(alone) $(bound) $(free)" |
    awk '{ printf "  %8d %8.2f %8.2f %8.2f", $1, $2 / $1, $3 / $1, $4 / $1 }')
  echo "$line"
  results+="$line"$'\n'
done
median() {
  awk -v column="$1" 'NF { print $column }' <<<"$results" | sort -n |
    awk '{ v[NR] = $1 } END { printf "%s (%s to %s)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}
echo "# medians: alone $(median 2), bound $(median 3), free $(median 4)"
