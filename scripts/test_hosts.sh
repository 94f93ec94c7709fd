#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests two hosts: the nodes of two_nodes.sh, each with a pid namespace of its own, so that ranks of
# one host cannot open memory of the other. They train over "shm+tcp" to the same parameters as one
# host, and all ranks report a killed rank. Then tests what shm requires of a host.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/two_nodes.sh

own_pids=(unshare --pid --fork --kill-child --mount-proc)
"${own_pids[@]}" true 2>/dev/null || skip "pid namespaces cannot be made here"
train=("$bin/train" --dtype float64 --batch-size 16 --max-steps 20 --log-every 0)

# equal A B: succeeds if two saved models are equal to 1e-12.
equal() {
  DDP_FIRST_MODEL=$1 DDP_SECOND_MODEL=$2 "$bin/main_job_test" "[equal-models]" >"$work/equal.log" ||
    fail "the models differ: $(cat "$work/equal.log")"
}

enter=("${own_pids[@]}")
for model in mlp lenet5; do
  "$bin/ddp-launch" -n 4 "${train[@]}" --model "$model" --save "$work/one.safetensors" \
    >"$work/one.log" 2>&1 || fail "one host: $(cat "$work/one.log")"
  for node in 0 1; do
    start "$node" -n 2 "${train[@]}" --model "$model" --save "$work/two.safetensors"
  done
  finish 120 0 0
  says 0 "$model on cpu over shm\\+tcp: 4 ranks"
  equal "$work/one.safetensors" "$work/two.safetensors"
  passed "2 hosts x 2 ranks train $model to the parameters of 4 ranks on one host"
done

start 0 -n 3 "${train[@]}" --model mlp --save "$work/two.safetensors"
start 1 -n 1 "${train[@]}" --model mlp --save "$work/two.safetensors"
finish 120 0 0
says 0 'over shm\+tcp: 4 ranks'
"$bin/ddp-launch" -n 4 "${train[@]}" --model mlp --save "$work/one.safetensors" >"$work/one.log" 2>&1
equal "$work/one.safetensors" "$work/two.safetensors"
passed "so do 3 + 1 ranks"

for node in 0 1; do start "$node" -n 1 "${train[@]}" --model mlp; done
finish 120 0 0
says 0 'over tcp: 2 ranks'
passed "hosts of one rank each need no shm"

for node in 0 1; do start "$node" -n 2 "$bin/collective_worker" kind; done
# The workers wait for a byte on stdin; without a stdin they continue at once.
finish 60 3 3
says 0 'ranks called different collectives: rank [0-9] called #.* rank 3 called #.* broadcast'
passed "different collectives on two hosts are an error that quotes both"

# Starts ranks 0 and 1 on host 0 and ranks 2 and 3 on host 1, which call all_reduce forever; rank 0
# hosts the store.
start_loop() {
  local host
  for host in 0 1; do
    ip netns exec "${nodes[$host]}" "${own_pids[@]}" env MASTER_ADDR="$address" \
      MASTER_PORT="$port" WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 sh -c '
        for local in 0 1; do
          rank=$(($1 * 2 + local))
          RANK=$rank LOCAL_RANK=$local "$2" loop auto patient >"$3/node$rank.log" 2>&1 &
        done
        wait' sh "$host" "$bin/collective_worker" "$work" &
  done
}

pid_of() {
  local pid
  for pid in $(ip netns pids "${nodes[$(($1 / 2))]}"); do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = collective_work ] || continue
    tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "RANK=$1" && echo "$pid" && return 0
  done
  fail "rank $1 is not there"
}

for victim in 1 2 3 0; do
  for rank in 0 1 2 3; do : >"$work/node$rank.log"; done
  start_loop
  for rank in 0 1 2 3; do says "$rank" "rank $rank ready"; done
  kill -KILL "$(pid_of "$victim")"
  begin=$(date +%s%N)
  wait
  took=$((($(date +%s%N) - begin) / 1000000))
  [ "$took" -lt 5000 ] || fail "it took $took ms until all knew that rank $victim was dead"
  for rank in 0 1 2 3; do
    [ "$rank" = "$victim" ] && continue
    # The ranks learn through the store who is dead; it dies with rank 0.
    [ "$victim" = 0 ] || says "$rank" "\\[shm\\+tcp\\] rank $victim \\(.*\\) died, while rank"
  done
  passed "rank $victim is killed: all have ended after $took ms"
done

enter=()
for node in 0 1; do start "$node" -n 2 "${train[@]}" --model mlp; done
finish 120 0 0
says 0 'over shm: 4 ranks'
enter=(unshare --mount)
for node in 0 1; do start "$node" -n 2 "${train[@]}" --model mlp; done
finish 120 0 0
says 0 'over shm: 4 ranks'
passed "network and mount namespaces alone are one host"

# Prefixes to a command that change its mounts.
without_proc=(unshare --mount sh -c 'umount -l /proc; exec "$@"' sh)
tiny_shm=(unshare --mount sh -c 'mount -t tmpfs -o size=64k tmpfs /dev/shm; exec "$@"' sh)

"${tiny_shm[@]}" "$bin/ddp-launch" -n 4 "${train[@]}" --model lenet5 >"$work/node0.log" 2>&1 ||
  fail "a tiny /dev/shm"
says 0 'over shm: 4 ranks'
passed "a /dev/shm of 64 KiB is enough"

"$bin/ddp-launch" -n 2 "${without_proc[@]}" "$bin/collective_worker" sum >"$work/node0.log" 2>&1 ||
  fail "no /proc"
says 0 'sum 2'
says 0 'rank 1 cannot share memory with other ranks .*: /proc is not mounted: mount -t proc proc /proc'
code=0
"$bin/ddp-launch" -n 2 "${without_proc[@]}" "$bin/collective_worker" sum shm >"$work/node0.log" 2>&1 ||
  code=$?
[ "$code" -ne 0 ] || fail "shm without /proc"
says 0 'backend shm was asked for, but rank 0 .* /proc is not mounted: .*, or choose tcp'
passed "without /proc ranks talk over TCP, and say what to do"
echo "hosts: all passed in $SECONDS s"
