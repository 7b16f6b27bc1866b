#!/bin/bash
# A real Slurm (slurmctld, slurmd, munge) on the nodes of nodes.sh, beside this file.
#   slurm.sh up [N]        nodes.sh up N (default 2) if need be, then munged, slurmctld (on node1) and a slurmd per node;
#                          again after a node was turned back on: starts what is missing
#   slurm.sh exec CMD ...  run CMD on node1 in the current directory (srun, sbatch, sinfo find their slurm.conf)
#   slurm.sh down          end Slurm and the nodes
# Each node declares CLUSTER_CPUS (default 8) CPUs and CLUSTER_GPUS (default 8) GPUs that are not there: gres/gpu with files
# like /dev/null. The partition is "all". No accounting, no cgroups. Logs: $CLUSTER_DIR/slurm/*.log.
# Needs root and: slurmctld slurmd slurm-client munge, and what nodes.sh needs.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
NODES=$(dirname "$(readlink -f "$0")")/nodes.sh
STATE=$(realpath -m "${CLUSTER_DIR:-build/cluster}")
DIR=$STATE/slurm
CPUS=${CLUSTER_CPUS:-8}
GPUS=${CLUSTER_GPUS:-8}

die() { echo "slurm.sh: $*" >&2; exit 2; }
usage() { sed -n '2,/^set -u/{/^#/p}' "$0"; exit 2; }
on() { local node=$1; shift; "$NODES" exec "$node" "$@"; }

configure() {
  local count i list gpus=
  count=$(wc -l < "$STATE/nodes")
  mkdir -p "$DIR/etc" "$DIR/state" "$DIR/dev"
  chmod 755 "$DIR"
  dd if=/dev/urandom of="$DIR/munge.key" bs=1024 count=1 status=none && chmod 400 "$DIR/munge.key" || die "no munge key"
  for ((i = 0; i < GPUS; i++)); do [ -e "$DIR/dev/gpu$i" ] || mknod -m 666 "$DIR/dev/gpu$i" c 1 3 || die "mknod failed"; done
  list=node[1-$count]
  : > "$DIR/etc/gres.conf"
  if [ "$GPUS" -gt 0 ]; then
    gpus=Gres=gpu:$GPUS
    echo "NodeName=$list Name=gpu File=$DIR/dev/gpu$([ "$GPUS" -eq 1 ] && echo 0 || echo "[0-$((GPUS - 1))]")" > "$DIR/etc/gres.conf"
  fi
  # TmpFS in the node's own /run: Slurm's PMIx makes a folder there that nodes may not share, as they do /tmp.
  cat > "$DIR/etc/slurm.conf" <<END
ClusterName=pretend
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
MpiDefault=none
StateSaveLocation=$DIR/state
SlurmdSpoolDir=/run/slurmd.spool
TmpFS=/run/tmp
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$DIR/slurmctld.log
SlurmdLogFile=$DIR/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
SlurmdTimeout=${CLUSTER_NODE_TIMEOUT:-15}
SlurmctldTimeout=10
MessageTimeout=10
KillWait=2
BatchStartTimeout=10
ReturnToService=2
$([ -z "$gpus" ] || echo GresTypes=gpu)
NodeName=$list CPUs=$CPUS Boards=1 SocketsPerBoard=1 CoresPerSocket=$CPUS ThreadsPerCore=1 RealMemory=4000 $gpus State=UNKNOWN
PartitionName=all Nodes=$list Default=YES MaxTime=INFINITE State=UP
END
  printf 'CgroupAutomount=no\nCgroupPlugin=cgroup/v1\n' > "$DIR/etc/cgroup.conf"   # named so that slurmd probes nothing; unused
}

# Starts on a node what does not run there yet.
node_up() {
  on "$1" env DIR="$DIR" NODE="$1" bash -c '
    exec 9>&-
    running() { [ -s "/run/$1.pid" ] && [ "$(cat "/proc/$(cat "/run/$1.pid")/comm" 2>/dev/null)" = "$1" ]; }
    start() {  # NAME COMMAND...: runs it unless it runs already
      running "$1" && return 0
      "${@:2}" >"$DIR/$1.$NODE.out" 2>&1 || { tail -n 1 "$DIR/$1.$NODE.out" >&2; exit 1; }
    }
    mkdir -p /etc/slurm /run/munge && chmod 755 /run/munge
    [ /etc/slurm/slurm.conf -ef "$DIR/etc/slurm.conf" ] || mount --bind "$DIR/etc" /etc/slurm || exit 1
    start munged munged --force --key-file "$DIR/munge.key" --socket /run/munge/munge.socket.2 --pid-file /run/munged.pid \
      --log-file "$DIR/munged.$NODE.log" --seed-file /run/munge/seed
    [ "$NODE" != node1 ] || start slurmctld slurmctld
    start slurmd slurmd
  ' </dev/null || die "Slurm did not start on $1 (see $DIR/*.log)"
}

up() {
  local tool node count i
  for tool in slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge; do
    command -v "${tool%:*}" >/dev/null || die "no ${tool%:*} here (package ${tool#*:})"; done
  if [ ! -s "$STATE/nodes" ] || [ -n "${1:-}" ] || "$NODES" hosts | grep -q ' dead$'; then
    "$NODES" up "${1:-2}" >/dev/null || die "no nodes"; fi
  [ -s "$DIR/etc/slurm.conf" ] || configure
  for node in $("$NODES" hosts | awk '$3 == "up" {print $1}'); do node_up "$node"; done
  count=$("$NODES" hosts | grep -c ' up$')
  for ((i = 0; i < 150; i++)); do
    if [ "$(on node1 sinfo -h -N -o %t 2>/dev/null | grep -cE '^(idle|mix|alloc|comp)$')" -ge "$count" ]; then
      on node1 sinfo -N -o '%N %t %c %G'
      return 0
    fi
    sleep .2
  done
  die "not every node came up: $(on node1 sinfo -h -N -o '%N %t %E' 2>&1 | tr '\n' ';') (see $DIR/*.log)"
}

command=${1:-}; [ $# -eq 0 ] || shift
case $command in
up) up "$@";;
down) exec "$NODES" down;;
exec) [ $# -gt 0 ] || usage; exec "$NODES" exec node1 "$@";;
*) usage;;
esac
