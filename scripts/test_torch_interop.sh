#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests our store, launcher and samplers against real PyTorch: its client with our server, our
# client with its server, ranks of both kinds on one store, each launcher with the other's workers,
# the samplers' indices, the results of its DistributedDataParallel, and a model that train saved.
# See docs/interop.md.
#
#   scripts/test_torch_interop.sh [--cache DIR] [--pypi] [--build DIR]
#
#   --cache DIR   where PyTorch is kept between runs (default: $DDP_INTEROP_CACHE, else
#                 ${XDG_CACHE_HOME:-$HOME/.cache}/ddp)
#   --pypi        also test the newest torch of PyPI, in DIR/torch-pypi: 5.4 GB on disk
#   --build DIR   the build directory (default: build)
#
# PyTorch 2.6 comes from the distribution: a small Debian trixie system in DIR/torch-2.6, made by
# mmdebstrap (1.2 GB on disk) and entered with chroot, which needs root. Where that is impossible,
# the script says so and ends with 77. Prints a line for each check and a summary; ends with 1 if a
# check failed.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install_packages.sh
install_packages "${data_packages[@]}"

cache=${DDP_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp}
build=build
pypi=no
usage() { sed -n '4,/^set /s/^# \{0,1\}//p' scripts/test_torch_interop.sh | grep -v '^set '; }
while [ $# -gt 0 ]; do
  case $1 in
    --cache) cache=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --pypi) pypi=yes; shift ;;
    -h | --help) usage; exit ;;
    *) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done

interop=tests/interop
reference=tests/reference
root=$cache/torch-2.6
venv=$cache/torch-pypi
seconds_per_program=180
python=()   # the command that runs the Python with PyTorch
scripts=    # path of $interop inside that Python's root
references= # path of $reference, likewise
prefix=     # prefix of the lines about the current PyTorch
passed=0 failed=0 skipped=0
mounted=() copies=
work=$(mktemp -d)

# ---- End: unmounts, removes copies, and ends processes that still run.

clean_up() {
  local i
  stop_server 2>/dev/null || true
  for ((i = ${#mounted[@]} - 1; i >= 0; --i)); do
    umount "${mounted[i]}" || umount --lazy "${mounted[i]}" ||
      echo "could not unmount ${mounted[i]}: do so before removing $root" >&2
  done
  [ -z "$copies" ] || rm -rf "$copies"
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

skip() { echo "SKIPPED: $*" >&2; exit 77; }

# ---- PyTorch.

make_root() {
  local part=$root.part
  [ -x "$root/usr/bin/python3" ] && return
  install_packages mmdebstrap || skip "mmdebstrap cannot be installed"
  mkdir -p "$cache"
  rm -rf --one-file-system "$part"
  echo "Making $root, a Debian trixie with python3-torch"
  mmdebstrap --quiet --variant=minbase --mode=root --include=python3-torch,python3-numpy \
    trixie "$part" || skip "mmdebstrap made no trixie system (no network?)"
  mv "$part" "$root"
}

use_root() {
  local each
  [ "$(id -u)" -eq 0 ] || skip "PyTorch 2.6 lives in a chroot, which needs root"
  make_root
  for each in proc dev; do
    mount --bind "/$each" "$root/$each" || skip "cannot bind /$each into $root"
    mounted+=("$root/$each")
  done
  copies=$(mktemp -d "$root/tmp/ddp-interop.XXXXXX")
  cp "$interop"/*.py "$reference"/*.py "$copies"
  scripts=${copies#"$root"}
  references=$scripts
  python=(chroot "$root" /usr/bin/env -u PYTHONPATH /usr/bin/python3 -B)
}

use_venv() {
  if [ ! -x "$venv/bin/torchrun" ]; then
    install_packages python3-venv
    echo "Installing the newest torch of PyPI into $venv"
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --no-cache-dir torch numpy || return 1
  fi
  scripts=$interop
  references=$reference
  python=("$venv/bin/python" -B)
}

# ---- Checks.

count() {  # a line that a program printed
  case $1 in
    "ok "*) passed=$((passed + 1)) ;;
    "FAILED "*) failed=$((failed + 1)) ;;
    "skipped "*) skipped=$((skipped + 1)) ;;
    *) return ;;
  esac
  echo "${1%% *} [$prefix] $where: ${1#* }"
}

# checks WHERE COMMAND…: runs a program that reports its own checks. This fails, too, if the program
# reports no check, or if it ends with an error although no check failed.
checks() {
  local where=$1 status=0 before=$failed line
  shift
  timeout "$seconds_per_program" "$@" >"$work/out" 2>"$work/err" || status=$?
  while IFS= read -r line; do count "$line"; done <"$work/out"
  if [ "$status" -ne 0 ] && [ "$failed" -eq "$before" ] || ! grep -q '^ok\|^FAILED' "$work/out"; then
    count "FAILED ran to its end: exit code $status: $(tail -n 2 "$work/err" | tr '\n' ' ')"
  fi
}

# expect_line WHERE NAME LINE COMMAND…: checks that the program succeeds and prints that line.
expect_line() {
  local where=$1 name=$2 line=$3
  shift 3
  if timeout "$seconds_per_program" "$@" >"$work/out" 2>"$work/err" && grep -qx "$line" "$work/out"
  then
    count "ok $name"
  else
    count "FAILED $name: no '$line': $(tail -n 2 "$work/out" "$work/err" | tr '\n' ' ')"
  fi
}

# start_server COMMAND…: starts a server that prints its port and ends when its stdin closes; sets
# $port.
start_server() {
  coproc SERVER { exec "$@" 2>"$work/server"; }
  server_pid=$SERVER_PID
  exec {server_in}>&"${SERVER[1]}" {server_out}<&"${SERVER[0]}"
  exec {SERVER[1]}>&-
  read -r -t 60 -u "$server_out" port && return
  echo "no server: $(tail -n 2 "$work/server")" >&2
  return 1
}

stop_server() {
  [ -n "${server_pid:-}" ] || return 0
  exec {server_in}>&- {server_out}<&-
  timeout 20 tail --pid="$server_pid" -f /dev/null || kill "$server_pid"
  wait "$server_pid" 2>/dev/null || true
  server_pid=
}

our_server=("$build/bin/store_interop" server)

torch_client_on_our_server() {
  start_server "${our_server[@]}"
  checks "PyTorch's client, our server" "${python[@]}" "$scripts/torch_client.py" "$port"
  stop_server
}

our_client_on_torch_server() {  # [libuv]
  start_server "${python[@]}" "$scripts/torch_host.py" "$@"
  checks "our client, PyTorch's server${1:+ ($1)}" "$build/bin/store_interop" client "$port" \
    "$@"
  stop_server
}

# Runs two ranks of each kind on one store.
meet() {  # WHERE
  local where=$1 pids=() pid rank
  for rank in 0 2; do
    timeout "$seconds_per_program" "$build/bin/store_interop" meet "$port" $rank 4 \
      >"$work/meet$rank" 2>&1 &
    pids+=($!)
    timeout "$seconds_per_program" "${python[@]}" "$scripts/torch_meet.py" "$port" \
      $((rank + 1)) 4 >"$work/meet$((rank + 1))" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || true; done
  for rank in 0 1 2 3; do
    checks "$where" grep '^ok\|^FAILED' "$work/meet$rank"
  done
}

mixed_ranks() {
  start_server "${our_server[@]}"
  meet "both kinds of ranks, our server"
  stop_server
}

mixed_ranks_on_torch_server() {  # [libuv]
  start_server "${python[@]}" "$scripts/torch_host.py" "$@"
  meet "both kinds of ranks, PyTorch's server${1:+ ($1)}"
  stop_server
}

# Prints the environment of a worker whose store another process hosts at $port, to be split into
# words.
world_of_2() {  # RANK
  echo "RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=127.0.0.1 \
MASTER_PORT=$port TORCHELASTIC_RUN_ID=interop TORCHELASTIC_RESTART_COUNT=0 \
TORCHELASTIC_USE_AGENT_STORE=True GLOO_SOCKET_IFNAME=lo USE_LIBUV=0"
}

torch_group_on_our_server() {
  local other
  start_server "${our_server[@]}"
  env $(world_of_2 1) timeout "$seconds_per_program" "${python[@]}" "$scripts/torch_gloo.py" \
    >"$work/rank1" 2>&1 &
  other=$!
  checks "init_process_group, our server" env $(world_of_2 0) "${python[@]}" \
    "$scripts/torch_gloo.py"
  wait "$other" || true
  checks "init_process_group, our server" grep '^ok\|^FAILED' "$work/rank1"
  stop_server
}

our_workers_on_torch_server() {  # [libuv]
  local other
  start_server "${python[@]}" "$scripts/torch_host.py" "$@"
  env $(world_of_2 1) timeout "$seconds_per_program" "$build/bin/all_reduce" >"$work/rank1" 2>&1 &
  other=$!
  expect_line "our workers, PyTorch's server${1:+ ($1)}" "all_reduce" "2 ranks on cpu: the sum is 3" \
    env $(world_of_2 0) "$build/bin/all_reduce"
  wait "$other" || true
  stop_server
}

torch_workers_of_our_launcher() {
  checks "PyTorch's workers, ddp-launch" env GLOO_SOCKET_IFNAME=lo USE_LIBUV=0 \
    "$build/bin/ddp-launch" --nproc_per_node=2 --show all "${python[@]}" "$scripts/torch_gloo.py"
}

# Runs a PyTorch script that is not written for any particular launcher.
torch_script_of_our_launcher() {
  local store
  for store in agent worker; do
    expect_line "a PyTorch script, ddp-launch --store $store" "DistributedDataParallel" \
      "2 ranks, one model" env GLOO_SOCKET_IFNAME=lo USE_LIBUV=0 "$build/bin/ddp-launch" \
      --nproc_per_node=2 --store "$store" "${python[@]}" "$scripts/torch_no_libuv.py" \
      "$scripts/torch_ddp.py"
  done
}

# Makes our train available where torchrun runs. Sets $train to its command, and $data and
# $data_seen to the data directory as seen from here and from there. A chroot also gets this
# system's libraries.
bring_train() {
  data=$work/data data_seen=$work/data train=("$build/bin/train")
  if [ "$scripts" != "$interop" ]; then
    local libraries=$copies/ours seen=$scripts/ours
    data=$copies/data data_seen=$scripts/data
    mkdir -p "$libraries"
    # train loads oneDNN itself, if it is there; without it, sums would be rounded otherwise.
    local programs=("$build/bin/train") onednn
    onednn=$(ldconfig -p | grep -om1 '/.*/libdnnl\.so\.[0-9]*$' || true)
    [ -z "$onednn" ] || programs+=("$onednn")
    cp -Lt "$libraries" "${programs[@]}"
    ldd "${programs[@]}" | grep -v ':$' | grep -o '/[^ ]*' | sort -u | xargs cp -Lt "$libraries"
    local loaders=("$libraries"/ld-linux-*)  # one, which has the processor in its name
    train=("$seen/$(basename "${loaders[0]}")" --library-path "$seen" "$seen/train")
  fi
  mkdir -p "$data"
  cp /usr/share/datasets/fashion-mnist/*.gz "$data"
}

# Prints the digest of the parameters that a launcher and its workers train; DIR is $data as the
# workers see it.
digest() {  # DIR COMMAND…
  local directory=$1
  shift
  rm -f "$data/metrics.jsonl"
  timeout "$seconds_per_program" "$@" --device cpu --max-steps 20 --log-every 0 \
    --data-dir "$directory" --metrics "$directory/metrics.jsonl" >"$work/out" 2>"$work/err" || true
  grep -o '"params_sha256":"[0-9a-f]*"' "$data/metrics.jsonl" 2>/dev/null || true
}

free_port() {
  /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

same_digest() {  # NAME FLAG…: flags of torchrun, and the words before our train
  local name=$1 ours theirs
  shift
  ours=$(digest "$data" "$build/bin/ddp-launch" --nproc_per_node=2 "$build/bin/train")
  theirs=$(digest "$data_seen" "${torchrun[@]}" "$@" "${train[@]}")
  if [ -n "$ours" ] && [ "$ours" = "$theirs" ]; then
    count "ok train, $name: the parameters of ddp-launch"
  else
    count "FAILED train, $name: '$theirs' for '$ours': $(tail -n 2 "$work/err" | tr '\n' ' ')"
  fi
}

our_workers_of_torchrun() {
  local where="our workers, torchrun"
  local torchrun=("${python[@]}" "$scripts/torch_no_libuv.py" -m torch.distributed.run
    --nproc-per-node=2 --local-addr=127.0.0.1 --no-python)
  bring_train
  same_digest "standalone" --standalone
  same_digest "static" --master-port="$(free_port)"
  same_digest "static, restarted after a failure" --master-port="$(free_port)" --max-restarts=1 \
    sh -c '[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 3; exec "$@"' sh
}

same_indices() {
  local where="samplers" sets=400
  "${python[@]}" "$scripts/torch_sampler.py" $sets 1 >"$work/theirs"
  "$build/bin/sampler_indices" <"$work/theirs" >"$work/ours"
  if [ "$(wc -l <"$work/theirs")" -eq $sets ] && cmp -s "$work/theirs" "$work/ours"; then
    count "ok $sets random option sets give the same indices"
  else
    count "FAILED $sets random option sets: first difference in line $(cmp "$work/theirs" \
      "$work/ours" | sed 's/.*line //')"
  fi
}

# Recomputes, with this PyTorch, the numbers of ddp_reference_test.
same_training() {
  env GLOO_SOCKET_IFNAME=lo timeout "$seconds_per_program" "${python[@]}" \
    "$references/make_ddp_reference.py" >"$work/trained" 2>"$work/err" || true
  checks "DistributedDataParallel, the reference" /usr/bin/python3 \
    "$reference/compare_ddp_references.py" "$reference/ddp_reference.txt" "$work/trained"
}

# Loads a model that our train saved into PyTorch's LeNet-5.
same_model() {
  local directory=$work/lenet seen=$work/lenet
  if [ "$scripts" != "$interop" ]; then  # in a chroot
    directory=$copies/lenet seen=$scripts/lenet
  fi
  mkdir -p "$directory"
  cp /usr/share/datasets/fashion-mnist/t10k-*.gz "$directory"
  "$build/bin/ddp-launch" --nproc_per_node=2 "$build/bin/train" --device cpu --model lenet5 \
    --max-steps 200 --log-every 0 --save "$directory/model.safetensors" \
    --metrics "$directory/metrics.jsonl" >"$work/out" 2>"$work/err" || true
  checks "train --save" "${python[@]}" "$scripts/torch_lenet.py" "$seen"
}

run_all() {
  prefix="torch $("${python[@]}" -c 'import torch; print(torch.__version__)' 2>/dev/null)"
  torch_client_on_our_server
  our_client_on_torch_server
  mixed_ranks
  mixed_ranks_on_torch_server
  torch_group_on_our_server
  our_workers_on_torch_server
  torch_workers_of_our_launcher
  torch_script_of_our_launcher
  our_workers_of_torchrun
  same_indices
  same_training
  same_model
}

for program in store_interop sampler_indices all_reduce train ddp-launch; do
  [ -x "$build/bin/$program" ] || { echo "$build/bin/$program is missing: build first" >&2; exit 2; }
done
use_root
run_all
if [ $pypi = yes ] && use_venv; then
  run_all
  our_client_on_torch_server libuv
  mixed_ranks_on_torch_server libuv
  our_workers_on_torch_server libuv
elif [ $pypi = yes ]; then
  echo "SKIPPED: torch of PyPI cannot be installed" >&2
else
  echo "SKIPPED: the newest PyTorch, its libuv server (give --pypi)" >&2
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
