# SPDX-License-Identifier: MIT
#
# To be sourced in the root of the repository. Provides two nodes: network namespaces joined by a
# cable (a veth pair), which are removed when the script ends. Needs root and the programs in
# DDP_BIN; where namespaces cannot be created, the script is skipped (exit code 77).
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
ip link add eth0 netns "${nodes[0]}" type veth peer name eth1 netns "${nodes[1]}"
for i in 0 1; do
  ip -n "${nodes[$i]}" address add "10.77.0.$((i + 1))/24" dev "eth$i"
  ip -n "${nodes[$i]}" link set lo up
  ip -n "${nodes[$i]}" link set "eth$i" up
done

# start NODE ARGS…: starts ddp-launch on a node, with its output in node<N>.log and its pid in
# pids[N]. The words in `enter` are put before the command.
enter=()
pids=()
start() {
  local node=$1
  shift
  : >"$work/node$node.log"  # or the caller may read the last round's lines, since & opens it later
  ip netns exec "${nodes[$node]}" "${enter[@]}" "$bin/ddp-launch" --nnodes 2 --node_rank "$node" \
    --master_addr "$address" --master_port "$port" "$@" >"$work/node$node.log" 2>&1 &
  pids[node]=$!
}

# finish SECONDS CODE0 CODE1: checks that both nodes end within this time, with these exit codes (x:
# not 0).
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
  # Workers of a killed launcher end after it, within two seconds.
  for node in 0 1; do
    deadline=$((SECONDS + 10))
    while [ -n "$(ip netns pids "${nodes[$node]}")" ]; do
      [ "$SECONDS" -lt "$deadline" ] || fail "processes are left on node $node"
      sleep 0.05
    done
  done
}

# says NODE PATTERN: waits a while until the node's log has the pattern.
says() {
  local tries
  for tries in $(seq 200); do
    grep -qE -- "$2" "$work/node$1.log" && return 0
    sleep 0.1
  done
  fail "node $1 does not say '$2'"
}
