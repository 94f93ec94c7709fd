#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests two nodes (two_nodes.sh): they train to the same parameters as one node, end together when a
# rank fails or the cable is pulled, and restart together.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/two_nodes.sh

same_verdict() {
  [ "$(tail -n 1 "$work/node0.log")" = "$(tail -n 1 "$work/node1.log")" ] ||
    fail "the nodes differ in their verdict"
}

train=("$bin/train" --model lenet5 --backend tcp --batch-size 16 --max-steps 20 --log-every 0)
params_of() { grep -o '"params_sha256":"[^"]*"' "$1"; }

code=0
"$bin/ddp-launch" --nnodes 2 --node_rank 0 --master_addr localhost -n 2 true \
  >"$work/node0.log" 2>&1 || code=$?
[ "$code" -eq 2 ] || fail "a loopback address was not refused"
says 0 'localhost is a loopback address'
passed "a loopback address is refused"

# A host name with two addresses: one where no server listens, and one that no host has.
printf '%s\n' "$address headless" '10.77.0.9 headless' >"$work/hosts"
code=0
ip netns exec "${nodes[1]}" sh -c 'mount --bind "$1" /etc/hosts; shift; exec "$@"' sh "$work/hosts" \
  timeout 20 "$bin/ddp-launch" --nnodes 2 --node_rank 1 --master_addr headless --timeout-start 3 true \
  >"$work/node1.log" 2>&1 || code=$?
[ "$code" -eq 2 ] || fail "a node 0 that is not there: exit code $code"
says 1 'node 0 does not answer: .*10\.77\.0\.1:29500: Connection refused'
says 1 'node 0 does not answer: .*10\.77\.0\.9:29500: [A-Z]'
passed "who cannot connect lists every address and why"

# Both hosts have one of the name's addresses, like docker0's; node 0 has the other one, too.
enter=(sh -c 'mount --bind "$1" /etc/hosts; shift; exec "$@"' sh "$work/hosts")
printf '%s\n' '172.17.0.1 shared' "$address shared" >"$work/hosts"
for node in 0 1; do ip -n "${nodes[$node]}" address add 172.17.0.1/32 dev lo; done
for node in 1 0; do
  : >"$work/node$node.log"
  ip netns exec "${nodes[$node]}" "${enter[@]}" "$bin/ddp-launch" --nnodes 2 --rdzv_backend c10d \
    --rdzv_endpoint "shared:$port" -n 1 true >"$work/node$node.log" 2>&1 &
  pids[node]=$!
  [ "$node" = 0 ] || says 1 'waiting: node 0 does not answer'
done
finish 20 0 0
passed "without ranks, node 0 is the host that has all addresses of the name"

# Node 0 listens at both, and node 1 reaches the second one.
for node in 0 1; do address=shared start "$node" -n 1 true; done
finish 20 0 0
for node in 0 1; do ip -n "${nodes[$node]}" address del 172.17.0.1/32 dev lo; done
passed "node 0 listens at all its addresses of the name"

: >"$work/hosts"
for node in 0 1; do address=late-name start "$node" -n 1 true; done
enter=()
says 1 "waiting: cannot resolve host 'late-name'"
printf '%s\n' "$address late-name" >>"$work/hosts"
finish 10 0 0
passed "nodes wait for a host name of node 0 that appears late"

"$bin/ddp-launch" -n 4 "${train[@]}" --metrics "$work/local.jsonl" >"$work/local.log" 2>&1 ||
  fail "four local ranks: $(cat "$work/local.log")"
start 0 -n 2 "${train[@]}" --metrics "$work/nodes.jsonl"
says 0 '1/2 nodes here; missing node 1; listening on 10\.77\.0\.1:29500'
start 1 -n 2 "${train[@]}" --metrics "$work/nodes.jsonl"
finish 120 0 0
[ -n "$(params_of "$work/local.jsonl")" ] || fail "no parameters"
[ "$(params_of "$work/local.jsonl")" = "$(params_of "$work/nodes.jsonl")" ] ||
  fail "2 x 2 ranks end with other parameters than 4"
passed "2 nodes x 2 ranks train lenet5 to the parameters of 4 local ranks"

link_local() { ip -n "${nodes[0]}" -6 -o address show dev eth0 scope link -tentative | grep -o 'fe80[^/]*' || true; }
for tries in $(seq 50); do [ -n "$(link_local)" ] || sleep 0.1; done
if [ -n "$(link_local)" ]; then
  for node in 0 1; do address="$(link_local)%eth$node" start "$node" -n 1 "${train[@]}"; done
  finish 60 0 0
  passed "a link-local address will do, whatever the hosts call their interfaces"
else
  echo "  SKIPPED: no IPv6"
fi

# The first launcher of node 1 cannot run its program.
start 0 --timeout-start 60 -n 1 true
says 0 '1/2 nodes here'
code=0
ip netns exec "${nodes[1]}" "$bin/ddp-launch" --nnodes 2 --node_rank 1 --master_addr "$address" \
  --master_port "$port" -n 1 ./nothere >"$work/node1.log" 2>&1 || code=$?
[ "$code" -eq 127 ] || fail "a program that is not there: exit code $code"
says 0 "missing node 1; .*; refused [^ ]*: cannot run './nothere': No such file"
start 1 -n 1 true
finish 10 0 0
passed "who waits for a node hears that it cannot run its program"

# Two jobs one after the other; the output of node 0's first one is read late.
mkfifo "$work/console"
(sleep 7; cat >/dev/null) <"$work/console" &
ip netns exec "${nodes[0]}" "$bin/ddp-launch" --nnodes 2 --node_rank 0 --master_addr "$address" \
  --master_port "$port" -n 1 seq 50000 >"$work/console" 2>"$work/node0.log" &
first=$!
start 1 -n 1 true
wait "${pids[1]}" || fail "the first job"
start 1 -n 1 true
start 0 -n 1 true
for node in 0 1; do says "$node" "waiting: an earlier job has yet to end at $address:$port"; done
wait "$first" || fail "the first job's node 0"
finish 10 0 0
passed "the launchers of a second job wait until the first one has ended"

# Under Open MPI, without flags. Open MPI reaches the other host through a script that enters its
# namespace. Its own files have a folder of their own: see tests/jobs/mpirun_test.cpp.
if command -v mpirun >/dev/null; then
  cat >"$work/rsh" <<EOF
#!/bin/sh
host=\$1
shift
exec ip netns exec ${nodes[1]} unshare --uts sh -c "hostname \$host; exec sh -c '\$*'"
EOF
  chmod +x "$work/rsh"
  mkdir "$work/ompi"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_orte_tmpdir_base="$work/ompi" ip netns exec "${nodes[0]}" \
    timeout 120 mpirun --mca plm_rsh_agent "$work/rsh" --bind-to none \
    --host "$(hostname):1,${nodes[1]}:1" -np 2 \
    "$bin/ddp-launch" -v -n 2 "${train[@]}" --metrics "$work/mpirun.jsonl" >"$work/node0.log" 2>&1 ||
    fail "mpirun over two nodes"
  says 0 "store at $address:"
  [ "$(params_of "$work/local.jsonl")" = "$(params_of "$work/mpirun.jsonl")" ] ||
    fail "2 x 2 ranks under mpirun end with other parameters than 4"
  passed "mpirun starts a launcher on each of two nodes, without flags"
else
  echo "  SKIPPED: no mpirun (package openmpi-bin)"
fi

worker='[ $RANK = 3 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 7; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 60'
for node in 0 1; do start "$node" -n 2 sh -c "$worker"; done
finish 20 7 7
same_verdict
says 0 'rank 3 .*exited with code 7.*3 other ranks stopped because of it'
passed "a rank's failure ends both nodes with the same verdict"

for node in 0 1; do start "$node" -n 2 --max_restarts 1 sh -c "$worker"; done
finish 30 0 0
says 0 'restart 1 of 1'
says 1 'restart 1 of 1'
passed "both nodes start again"

for node in 0 1; do start "$node" -n 2 --max_restarts 1 --store worker sh -c "$worker"; done
finish 30 0 0
passed "also if the workers host the store"

for node in 0 1; do start "$node" -n 1 sh -c '[ $RANK = 0 ] || { echo here >&2; sleep 60; }'; done
says 1 'here'
sleep 1
kill -TERM "${pids[0]}"
finish 5 143 143
says 0 'SIGTERM: no rank runs here any more; what is left of the job has 30 s'
says 1 'SIGTERM on node 0 .*: stopping 1 rank, which has 30 s'
passed "a signal to a node whose ranks have ended stops the other node"

for node in 0 1; do start "$node" -n 2 --max_restarts 9 sh -c 'exit 7'; done
says 0 'restart 3 of 9'
kill -TERM "${pids[0]}"
finish 5 143 143
says 1 'node 0 .*was stopped by SIGTERM'
passed "a signal in the pause before a restart ends both nodes"

for node in 0 1; do start "$node" -n 2 --max_restarts 9 sh -c 'exit 7'; done
says 1 'restart 2 of 9'
kill -USR1 "${pids[1]}"
finish 5 143 143
says 0 'node 1 .*was stopped by SIGUSR1'
passed "so does a request to stop"

for node in 0 1; do start "$node" -n 2 --max_restarts 9 "$bin/collective_worker" fail tcp; done
finish 60 3 3
same_verdict
for node in 0 1; do says "$node" 'step 5 has failed 3 times in a row, last on rank [0-9]'; done
passed "the same failure three times ends both nodes"

printf '#!/no/such/interpreter\n' >"$work/unfit"
chmod +x "$work/unfit"
start 0 -n 1 sleep 60
start 1 -n 1 "$work/unfit"
finish 5 127 127
says 0 'node 1 .*: cannot run'
passed "workers that cannot be started end both nodes, and both say why"

start 0 -n 1 sh -c 'exit 0'
start 1 -n 1 --max_restarts 2 sleep 60
code=0
wait "${pids[1]}" || code=$?
[ "$code" -eq 2 ] || fail "a launcher with other restarts ended with $code"
says 1 'node 0 has .*--max_restarts 0.*, this node .*--max_restarts 2'
start 1 -n 1 sh -c 'exit 0'
finish 5 0 0
passed "launchers with different flags do not start a job"

for signal in TERM USR1; do
  start 0 -n 1 sleep 60
  says 0 '1/2 nodes here'
  kill "-$signal" "${pids[0]}"
  code=0
  wait "${pids[0]}" || code=$?
  [ "$code" -eq 143 ] || fail "a launcher that waits ended with $code after SIG$signal"
done
passed "a signal to a launcher that waits has its own exit code"

for node in 0 1; do start "$node" -n 1 sh -c 'echo here >&2; sleep 60'; done
for node in 0 1; do says "$node" 'here'; done
kill -KILL "${pids[0]}"
finish 20 x x
says 1 '(node 0 .*cannot be reached|the launcher of node 0 .*was killed)'
passed "a launcher that is killed ends the other node"

# The other node's rank fails because its peer is gone.
for node in 0 1; do start "$node" -n 1 "${train[@]}" --max-steps 100000; done
says 0 'lenet5 on cpu'
kill -KILL "$(ip netns pids "${nodes[1]}" | xargs ps -o pid=,comm= -p | awk '$2 == "ddp-agent" {print $1}')"
finish 20 1 137
says 0 ': the agent \(pid [0-9]*\) was killed by SIGKILL$'
passed "an agent that is killed is named by the other node, not the rank that misses its peer"

for node in 0 1; do start "$node" -n 1 "${train[@]}" --max-steps 100000; done
says 0 'lenet5 on cpu'
ip netns pids "${nodes[1]}" | xargs kill -KILL
finish 40 1 137
says 0 'ddp-launch: node 1 .* has vanished: no sign of life for 15 s$'
passed "a node whose processes are all killed at once is named, not the rank that misses its peer"

for node in 0 1; do start "$node" -n 1 sh -c 'echo here >&2; sleep 60'; done
for node in 0 1; do says "$node" 'here'; done
kill -TERM "${pids[1]}"
finish 20 143 143
says 0 'node 1 .*was stopped by SIGTERM'
passed "a signal to one launcher ends both nodes"

for node in 0 1; do
  start "$node" -n 1 --max_restarts 1 "$bin/train" --model mlp --backend tcp --epochs 1000
done
says 0 'epoch 1/1000'
ip netns pids "${nodes[1]}" | while read -r pid; do
  [ "$(cat "/proc/$pid/comm")" != train ] || kill -TERM "$pid"
done
finish 60 143 143
says 0 'asked to stop: the last step is'
says 0 'a signal to a rank of another node asked the job to stop'
says 1 'SIGTERM to rank 1 asked the job to stop'
passed "a signal to one rank ends both nodes as asked"

# stop_while_saving NODE SECONDS0 SECONDS1: only NODE's launcher gets a SIGTERM. Ranks 0 and 1, one
# on each node, then take this long to save, and both must get the time.
stop_while_saving() {
  local node
  for node in 0 1; do
    start "$node" -n 1 --grace 15 sh -c \
      'trap "sleep $1; echo saved >&2; exit 0" TERM; echo here >&2; while :; do sleep 0.1; done' \
      sh "$([ "$node" = 0 ] && echo "$2" || echo "$3")"
  done
  for node in 0 1; do says "$node" 'here'; done
  kill -TERM "${pids[$1]}"
  finish 20 143 143
  for node in 0 1; do says "$node" 'saved'; done
  says $((1 - $1)) "SIGTERM on node $1 (.*): stopping 1 rank"
  says $((1 - $1)) "node $1 .*was stopped by SIGTERM"
}
stop_while_saving 0 0 7
stop_while_saving 1 4 0
passed "the workers of the other node have --grace, too, and the store stays for them"

for node in 0 1; do
  start "$node" -n 1 --grace 1 sh -c 'trap "" TERM; echo here >&2; while :; do sleep 0.1; done'
done
for node in 0 1; do says "$node" 'here'; done
kill -TERM "${pids[0]}"
finish 10 143 143
for node in 0 1; do says "$node" "rank $node had not ended after 1 s and was killed; give it longer"; done
passed "but not longer"

worker='trap "[ $RANK = 1 ] && exit 9" TERM; echo here >&2; while :; do sleep 0.1; done'
for node in 0 1; do start "$node" -n 1 --grace 3 sh -c "$worker"; done
for node in 0 1; do says "$node" 'here'; done
kill -TERM "${pids[0]}"
finish 20 143 9
says 1 'rank 1 .*exited with code 9 .*when asked to stop$'
passed "a worker that fails when a signal to the other node stops the job is named by its own"

worker='trap "[ $RANK = 0 ] && exit 9" TERM; echo here >&2; while :; do sleep 0.1; done'
for node in 0 1; do start "$node" -n 1 --max_restarts 2 --grace 3 sh -c "$worker"; done
for node in 0 1; do says "$node" 'here'; done
kill -TERM "${pids[0]}"
finish 20 9 9
same_verdict
says 1 'rank 0 .*exited with code 9 .*when asked to stop$'
passed "a worker that fails when a signal stops the job is named by both nodes"

# Signals all processes of a node, as `scontrol suspend` does.
signal_job() { for node in 0 1; do ip netns pids "${nodes[$node]}"; done | xargs kill "-$1"; }
for node in 0 1; do start "$node" -n 1 sh -c 'echo here >&2; sleep 20'; done
for node in 0 1; do says "$node" 'here'; done
signal_job STOP
sleep 17
signal_job CONT
finish 30 0 0
passed "a job that is suspended for a while goes on"

endless=("$bin/train" --model mlp --backend tcp --epochs 100 --log-every 10)
for node in 0 1; do start "$node" -n 2 "${endless[@]}" --save "$work/stopped.safetensors"; done
says 0 'step|loss'
kill -USR1 "${pids[1]}"
finish 20 143 143
[ -s "$work/stopped.safetensors" ] || fail "train did not save when it was asked to stop"
passed "a request to one launcher stops train on both nodes at the same step"

for node in 0 1; do start "$node" -n 2 "${endless[@]}"; done
says 0 'step|loss'
ip -n "${nodes[0]}" link set eth0 down
pulled=$SECONDS
finish 60 x x
says 0 'node 1 .*no sign of life for 15 s'
says 1 'node 0 .*cannot be reached any more'
passed "the cable is pulled: both nodes have ended after $((SECONDS - pulled)) s"
echo "multinode: all passed in $SECONDS s"
