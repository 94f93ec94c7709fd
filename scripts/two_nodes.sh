# SPDX-License-Identifier: MIT
#
# To be sourced, in the root of the repository: two nodes, imitated by two network namespaces that a
# cable (a veth pair) joins, which go when the script ends. Needs root and the programs in DDP_BIN;
# the script is skipped (exit code 77) where namespaces cannot be made.
bin=${DDP_BIN:-$PWD/build/bin}
work=$(mktemp -d)
nodes=(ddp-node0-$$ ddp-node1-$$)
address=10.77.0.1
port=29500

clean_up() {
  local node
  for node in "${nodes[@]}"; do
    ip netns pids "$node" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
    ip netns del "$node" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT

skip() { echo "SKIPPED: $(basename "$0" .sh) ($*)"; exit 77; }
fail() {
  echo "FAILED: $*" >&2
  tail -n 30 "$work"/node*.log >&2 || true
  exit 1
}
passed() { printf '  ok %4s s  %s\n' "$SECONDS" "$*"; }

[ "$(id -u)" -eq 0 ] || skip "needs root"
command -v ip >/dev/null || skip "no ip command (package iproute2)"
ip netns add "${nodes[0]}" 2>/dev/null || skip "network namespaces cannot be made here"
ip netns add "${nodes[1]}"
ip link add eth0 netns "${nodes[0]}" type veth peer name eth0 netns "${nodes[1]}"
for i in 0 1; do
  ip -n "${nodes[$i]}" address add "10.77.0.$((i + 1))/24" dev eth0
  ip -n "${nodes[$i]}" link set lo up
  ip -n "${nodes[$i]}" link set eth0 up
done

# start NODE ARGS…: ddp-launch on a node, its output in node<N>.log, its pid in pids[N]. What `enter`
# holds is put before it.
enter=()
pids=()
start() {
  local node=$1
  shift
  ip netns exec "${nodes[$node]}" "${enter[@]}" "$bin/ddp-launch" --nnodes 2 --node_rank "$node" \
    --master_addr "$address" --master_port "$port" "$@" >"$work/node$node.log" 2>&1 &
  pids[node]=$!
}

# finish SECONDS CODE0 CODE1: both nodes end within this time, with these exit codes (x: not 0).
finish() {
  local deadline=$((SECONDS + $1)) node code wanted
  shift
  for node in 0 1; do
    while kill -0 "${pids[$node]}" 2>/dev/null; do
      [ "$SECONDS" -lt "$deadline" ] || fail "node $node has not ended"
      sleep 0.05
    done
    code=0
    wait "${pids[$node]}" || code=$?
    wanted=$1
    shift
    [ "$code" = "$wanted" ] || { [ "$wanted" = x ] && [ "$code" -ne 0 ]; } ||
      fail "node $node ended with $code, not $wanted"
  done
  # Those of a launcher that was killed end after it, within two seconds.
  for node in 0 1; do
    deadline=$((SECONDS + 10))
    while [ -n "$(ip netns pids "${nodes[$node]}")" ]; do
      [ "$SECONDS" -lt "$deadline" ] || fail "processes are left on node $node"
      sleep 0.05
    done
  done
}

# says NODE PATTERN: in its log, or soon will be.
says() {
  local tries
  for tries in $(seq 200); do
    grep -qE -- "$2" "$work/node$1.log" && return 0
    sleep 0.1
  done
  fail "node $1 does not say '$2'"
}
