#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Tests jobs of a real Slurm on this machine: srun and sbatch, with a launcher on each node and
# without, stops, requeues and suspensions. The daemons, one controller and two nodes, run in
# namespaces of their own, and Slurm's packages are installed into overlays that go with them, so
# the machine stays as it is. Needs root and the programs in DDP_BIN; takes one to two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${DDP_BIN:-$PWD/build/bin}

skip() { echo "SKIPPED: test_slurm ($*)"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "needs root"
# In a mount namespace of its own; all processes of this one end with it.
if [ "${1:-}" != inside ]; then
  exec unshare --mount --pid --fork --kill-child --propagation private "$PWD/scripts/test_slurm.sh" inside
fi
mount -t proc proc /proc
made=()
[ -d /run/netns ] || { mkdir /run/netns && made=(/run/netns); }
mount -t tmpfs tmpfs /run/netns

work=$(mktemp -d)
clean_up() {
  umount --lazy /usr /etc /var "$work/overlays" /run/netns 2>/dev/null || true
  rm -rf "$work" "${made[@]}"
}
trap clean_up EXIT
mkdir "$work"/{overlays,state,log,jobs}
mount -t tmpfs tmpfs "$work/overlays"
for folder in usr etc var; do
  mkdir "$work/overlays/$folder" "$work/overlays/$folder.work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$work/overlays/$folder,workdir=$work/overlays/$folder.work" \
    "/$folder" || skip "overlays cannot be mounted here"
done
source scripts/install_packages.sh
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d  # packages start no daemons
chmod +x /usr/sbin/policy-rc.d
install_packages slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins iproute2

ip netns add head
ip -n head link set lo up
ip -n head link add bridge type bridge
ip -n head link set bridge up
ip -n head address add 10.78.0.254/24 dev bridge
printf '%s\n' '127.0.0.1 localhost' '10.78.0.254 head' '10.78.0.1 node1' '10.78.0.2 node2' >/etc/hosts
for node in 1 2; do
  ip netns add "node$node"
  ip -n "node$node" link set lo up
  ip link add eth0 netns "node$node" type veth peer name "node$node" netns head
  ip -n head link set "node$node" master bridge up
  ip -n "node$node" address add "10.78.0.$node/24" dev eth0
  ip -n "node$node" link set eth0 up
done

mkdir -p /etc/slurm
cat >/etc/slurm/slurm.conf <<EOF
ClusterName=test
SlurmctldHost=head
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket=$work/munge.socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/state/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SwitchType=switch/none
NodeName=node[1-2] CPUs=4 RealMemory=2000 State=UNKNOWN
PartitionName=all Nodes=node[1-2] Default=YES State=UP
EOF
head -c 64 /dev/urandom >"$work/munge.key"
chmod 600 "$work/munge.key"
chmod 755 "$work"
munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" \
  --pid-file="$work/munged.pid" --seed-file="$work/munge.seed" --log-file="$work/log/munged"
on_head() { ip netns exec head unshare --uts sh -c 'hostname head; exec "$@"' sh "$@"; }
on_head slurmctld
for node in 1 2; do  # not by `ip netns exec`, which hides cgroups from slurmd
  # shellcheck disable=SC2016  # the inner shell expands it
  nsenter --net="/run/netns/node$node" \
    unshare --uts --mount --pid --ipc --fork --mount-proc sh -c '
    hostname "$1"
    mount -t tmpfs -o size=1g tmpfs /dev/shm
    exec slurmd -D -N "$1"' sh "node$node" >"$work/log/slurmd$node" 2>&1 &
done

fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$work"/log/* "$work"/jobs/*.log >&2 || true
  exit 1
}
passed() { printf '  ok %4s s  %s\n' "$SECONDS" "$*"; }
cd "$work/jobs"

# eventually SECONDS COMMAND…: until it succeeds.
eventually() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "not in time: $*"
    sleep 0.2
  done
}
are_idle() { [ "$(on_head sinfo -h -o '%T %D' 2>/dev/null)" = 'idle 2' ]; }
says() { grep -Eq "$2" "$1" 2>/dev/null; }
state_is() { on_head scontrol show job "$1" | grep -q "JobState=$2"; }
eventually 60 are_idle
passed "Slurm $(on_head sinfo --version | cut -d' ' -f2) has two nodes"

train=("$bin/train" --model lenet5 --batch-size 16 --backend tcp --log-every 0)
params_of() { grep -o '"params_sha256":"[^"]*"' "$1"; }
# run NAME COMMAND…: with its output in NAME.log.
run() {
  local log=$1.log
  shift
  on_head timeout 120 "$@" >"$log" 2>&1 || fail "exit code $? of $*"
}
same_params() { [ -n "$(params_of "$1")" ] && [ "$(params_of "$1")" = "$(params_of here)" ]; }

ip netns exec head "$bin/ddp-launch" -n 4 "${train[@]}" --max-steps 20 --metrics here >here.log 2>&1 ||
  fail "four ranks without Slurm"
run direct srun -N2 -n4 "${train[@]}" --max-steps 20 --metrics direct
same_params direct || fail "srun's ranks train another model"
passed "srun starts the ranks"
run launchers srun -N2 -n2 "$bin/ddp-launch" -n 2 "${train[@]}" --max-steps 20 --metrics launchers
same_params launchers || fail "the ranks of srun's launchers train another model"
passed "srun starts a launcher on each node"
run exported env RANK=0 WORLD_SIZE=2 srun -N2 -n2 "$bin/ddp-launch" -n 2 "${train[@]}" \
  --max-steps 20 --metrics exported
same_params exported || fail "with RANK in the environment, the launchers train another model"
passed "a batch script may export RANK"
printf '%s\n' node2 node1 >hosts
run_arbitrary() {
  on_head env SLURM_HOSTFILE=hosts timeout 60 srun -m arbitrary -n2 "$bin/all_reduce" >arbitrary.log 2>&1
}
if run_arbitrary; then fail "rank 0 is not on the first node"; fi
says arbitrary.log 'set MASTER_ADDR to the host of task 0' || fail "a rank 0 on another node"
passed "a rank 0 that is not on the first node is told"

# submit NAME OPTION… -- COMMAND: a batch job on both nodes; prints its number.
submit() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  printf '#!/bin/bash\n%s\n' "$2" >"$name.sh"
  on_head sbatch --parsable -N2 -n2 --open-mode=append -o "$name.log" "${options[@]}" "$name.sh"
}
launcher="$bin/ddp-launch -n 2 --grace 30 ${train[*]} --epochs 1000 --log-every 20"

job=$(submit requeued --requeue -- "srun -K1 $launcher --max-steps 2000 --checkpoint-dir saved
code=\$?
[ \$code != 143 ] || scontrol requeue \$SLURM_JOB_ID
exit \$code")
eventually 60 says requeued.log 'step 20/'
on_head scancel --signal=USR1 "$job"
eventually 60 state_is "$job" PENDING
on_head scontrol update jobid="$job" starttime=now  # not after Slurm's two minutes
eventually 200 state_is "$job" COMPLETED
says requeued.log 'resumed' || fail "the requeued job began anew"
passed "a job that is asked to stop saves, is requeued and goes on"

job=$(submit suspended --export=ALL,DDP_TIMEOUT=6 -- "srun -K1 $launcher --max-steps 2000")
eventually 60 says suspended.log 'step 20/'
on_head scontrol suspend "$job"
sleep 10
on_head scontrol resume "$job"
eventually 120 state_is "$job" COMPLETED
passed "a job may be suspended for longer than its timeout"

job=$(submit killed -- "srun -K1 $launcher")
eventually 60 says killed.log 'step 20/'
pkill -KILL -n -f -- "$bin/train --model lenet5"
eventually 30 state_is "$job" FAILED
says killed.log 'was killed by SIGKILL' || fail "no verdict"
passed "a killed rank ends the job with a verdict"
