#!/bin/bash
# Pretend cluster nodes on one machine: each has its own network, PID, IPC, UTS and mount namespace, host name, /etc/hosts,
# boot id, machine id, /run, /dev/shm and sshd; other files are shared, as on a cluster's NFS.
#   nodes.sh up [N]              make node1 .. nodeN (2 to 4, default 2) on 10.78.0.1 .. N, joined by a bridge
#   nodes.sh exec NODE CMD ...   run CMD in NODE, in the current directory, and exit with its code
#   nodes.sh hosts [SLOTS]       a line per node: name, address, state; with SLOTS: node1:SLOTS,node2:SLOTS
#   nodes.sh fault WHAT NODE     link-down: pull its cable (no carrier); link-up: put it back
#                                rate RATE: limit both directions (1gbit); loss PERCENT: drop packets both ways
#                                power-off: cut the cable and kill all its processes; clear: undo all, boot it if it is off
#   nodes.sh down                end all of it and leave nothing behind
# CLUSTER_DIR: working folder (default build/cluster). It names the cluster: several can be up at once.
# Needs root and: iproute2 util-linux openssh-server openssh-client nftables.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
STATE=$(realpath -m "${CLUSTER_DIR:-build/cluster}")
# Names of network namespaces are the machine's; the folder's checksum keeps clusters apart. The switch is a namespace too,
# so that addresses, links and filter tables of ours never meet the machine's.
TAG=tt$(printf %s "$STATE" | cksum | cut -d' ' -f1)
SWITCH=$TAG-switch
NET=10.78.0

die() { echo "nodes.sh: $*" >&2; exit 2; }
usage() { sed -n '2,/^set -u/{/^#/p}' "$0"; exit 2; }
nodes() { cat "$STATE/nodes" 2>/dev/null; }
lock() { exec 9>"$STATE/lock" && flock -w 60 9 || die "another nodes.sh is at work in $STATE"; }
is_node() { nodes | grep -qx -- "$1" || die "no node '$1' (there are: $(nodes | tr '\n' ' '))"; }

# alive NODE: is its first process still the one that was started (pid and start time), and not about to exit?
alive() {
  local pid started line
  read -r pid started 2>/dev/null < "$STATE/$1/pid" || return 1
  line=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
  set -- ${line##*) }   # fields from the state on: 1 state, 7 flags (4: exiting), 20 start time
  [ "${20}" = "$started" ] && [ "$1" != Z ] && (( ($7 & 4) == 0 ))
}

wait_gone() { local i; for ((i = 0; i < 200; i++)); do [ -e "/proc/$1" ] || return 0; sleep .05; done; }

# What runs as process 1 of a node: it makes the node's own view of the files, then its sshd.
write_init() {
  cat > "$STATE/init" <<'END'
state=$1 node=$2 dir=$1/$2
read -r pid _ < /proc/self/stat            # /proc is still the machine's here: the pid as seen from outside
line=$(cat /proc/$pid/stat); set -- ${line##*) }; echo "$pid ${20}" > "$dir/pid.new"
hostname "$node"
set -e
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/lock /run/cgroup
mkdir -m 1777 /run/tmp
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys                  # of this network namespace
mount --move /run/cgroup /sys/fs/cgroup
rmdir /run/cgroup
ln -s /dev/shm /run/shm
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$dir/hosts" /etc/hosts
mount --bind "$state/ssh_config" /etc/ssh/ssh_config
mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
[ ! -e "$state/mca.conf" ] || mount --bind "$state/mca.conf" /etc/openmpi/openmpi-mca-params.conf
for f in hostname machine-id; do [ ! -e /etc/$f ] || mount --bind "$dir/$f" /etc/$f; done
cd /
/usr/sbin/sshd -D -e -f "$state/sshd_config" &
mv "$dir/pid.new" "$dir/pid"
set +e
sleep infinity & while :; do wait; sleep 1; done   # reaps
END
}

write_ssh() {
  local pam
  ssh-keygen -q -t ed25519 -N '' -f "$STATE/host_key" && ssh-keygen -q -t ed25519 -N '' -f "$STATE/user_key" || die "ssh-keygen failed"
  case $(getent shadow root | cut -d: -f2) in '!'*) pam=yes;; *) pam=no;; esac   # without PAM sshd refuses a locked root
  cat > "$STATE/sshd_config" <<END
HostKey $STATE/host_key
AuthorizedKeysFile $STATE/user_key.pub
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM $pam
UseDNS no
PidFile none
PrintMotd no
MaxStartups 200
MaxSessions 200
SetEnv PATH=$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
END
  cat > "$STATE/ssh_config" <<END
Host *
  IdentityFile $STATE/user_key
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
END
}

node_start() {
  local node=$1 number=${1#node} space=$TAG-$1 dir=$STATE/$1 other i
  mkdir -p "$dir" && rm -f "$dir/pid" "$dir/off"
  { echo "127.0.0.1 localhost"; for other in $(nodes); do echo "$NET.${other#node} $other"; done; } > "$dir/hosts"
  echo "$node" > "$dir/hostname"
  cat /proc/sys/kernel/random/uuid > "$dir/boot_id"
  [ -s "$dir/machine-id" ] || tr -d - < /proc/sys/kernel/random/uuid > "$dir/machine-id"
  # The same hardware address after a power-off: the other nodes have it in their caches.
  ip netns add "$space" &&
  ip -n "$SWITCH" link add "p$number" type veth peer name eth0 address "02:00:0a:4e:00:0$number" netns "$space" &&
  ip -n "$space" link set lo up && ip -n "$space" addr add "$NET.$number/24" dev eth0 && ip -n "$space" link set eth0 up &&
  ip -n "$SWITCH" link set "p$number" master br0 up || die "could not make the network of $node"
  setsid nsenter --net="/run/netns/$space" unshare --mount --uts --ipc --pid --fork bash "$STATE/init" "$STATE" "$node" \
    </dev/null >"$dir/log" 2>&1 9>&- &
  for ((i = 0; i < 200; i++)); do
    if [ -s "$dir/pid" ] && nsenter --net="/run/netns/$space" bash -c 'exec 3<>/dev/tcp/127.0.0.1/22' 2>/dev/null; then return 0; fi
    sleep .05
  done
  die "$node did not come up: $(tail -n 1 "$dir/log")"
}

# A power cut: the cable first, so that nothing the dying processes send gets out.
node_stop() {
  local node=$1 number=${1#node} space=$TAG-$1 pid
  ip -n "$SWITCH" link set "p$number" down 2>/dev/null
  if alive "$node"; then read -r pid _ < "$STATE/$node/pid"; kill -9 "$pid" && wait_gone "$pid"; fi
  if [ -e "/run/netns/$space" ]; then
    for pid in $(ip netns pids "$space"); do kill -9 "$pid" 2>/dev/null; done   # where the state above was lost
    ip -n "$SWITCH" link del "p$number" 2>/dev/null
    ip netns del "$space"
  fi
  rm -f "$STATE/$node/pid"
}

up() {
  local count=${1:-2} node tool dead=0 i
  case $count in 2|3|4) ;; *) die "up: '$count' nodes (2, 3 or 4)";; esac
  if [ -s "$STATE/nodes" ]; then
    for node in $(nodes); do alive "$node" || [ -e "$STATE/$node/off" ] || dead=1; done
    if [ $dead = 0 ]; then [ "$(nodes | wc -l)" = "$count" ] || die "up with $(nodes | wc -l) nodes: down first"; hosts; return 0; fi
  fi
  for tool in ip:iproute2 tc:iproute2 nsenter:util-linux setpriv:util-linux sshd:openssh-server ssh:openssh-client nft:nftables; do
    command -v "${tool%:*}" >/dev/null || die "no ${tool%:*} here (package ${tool#*:})"; done
  down   # what a crash left
  mkdir -p "$STATE"; lock; trap '[ $? = 0 ] || { trap - EXIT; down; }' EXIT
  for ((i = 1; i <= count; i++)); do echo "node$i"; done > "$STATE/nodes"
  write_ssh
  write_init
  # Open MPI's session folders in each node's own /run, not in the /tmp that they share.
  if [ -e /etc/openmpi/openmpi-mca-params.conf ]; then
    { cat /etc/openmpi/openmpi-mca-params.conf; echo 'orte_tmpdir_base = /run/tmp'; } > "$STATE/mca.conf"; fi
  ip netns add "$SWITCH" && ip -n "$SWITCH" link add br0 type bridge && ip -n "$SWITCH" link set lo up &&
    ip -n "$SWITCH" link set br0 up || die "could not make the bridge (are network namespaces allowed here?)"
  for node in $(nodes); do node_start "$node"; done
  trap - EXIT
  hosts
}

down() {
  local node file pid
  for file in /run/netns/"$TAG"-node*; do [ ! -e "$file" ] || node_stop "${file##*"$TAG"-}"; done
  if [ -e "/run/netns/$SWITCH" ]; then
    for pid in $(ip netns pids "$SWITCH"); do kill -9 "$pid" 2>/dev/null; done
    ip netns del "$SWITCH"
  fi
  for node in $(nodes); do rm -rf "${STATE:?}/$node"; done
  rm -rf "$STATE"/{nodes,host_key,host_key.pub,user_key,user_key.pub,ssh_config,sshd_config,init,mca.conf,slurm,lock}
  rmdir "$STATE" 2>/dev/null
  return 0
}

hosts() {
  local node state line=
  [ -s "$STATE/nodes" ] || die "not up (CLUSTER_DIR=$STATE)"
  for node in $(nodes); do
    if alive "$node"; then state=up; elif [ -e "$STATE/$node/off" ]; then state=off; else state=dead; fi
    if [ -n "${1:-}" ]; then line=$line${line:+,}$node:$1; else echo "$node $NET.${node#node} $state"; fi
  done
  [ -z "$line" ] || echo "$line"
}

run() {
  [ $# -ge 2 ] || usage
  local node=$1 pid
  shift
  is_node "$node"; alive "$node" || die "$node is not running"
  read -r pid _ < "$STATE/$node/pid"
  # The death signal ends CMD when this script's own process is ended.
  exec nsenter -t "$pid" -m -u -i -n -p --wdns="$PWD" -- setpriv --pdeathsig TERM \
    env HOSTNAME="$node" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@"
}

# Both ends of a node's cable, as "NAMESPACE DEVICE".
ends() { printf '%s\n' "$SWITCH p${1#node}" "$TAG-$1 eth0"; }

fault() {
  [ $# -ge 2 ] || usage
  local what=$1 value= node space device
  case $what in rate|loss) [ $# -eq 3 ] || usage; value=$2; node=$3;; *) [ $# -eq 2 ] || usage; node=$2;; esac
  is_node "$node"; lock
  [ "$what" = clear ] || [ ! -e "$STATE/$node/off" ] || die "$node is off (fault clear $node turns it on)"
  case $what in
  link-down|link-up) ip -n "$SWITCH" link set "p${node#node}" "${what#link-}";;
  rate)
    [[ $value =~ ^[0-9.]+[kmg]?bit$ ]] || die "fault rate: '$value' is no rate such as 1gbit"
    ends "$node" | while read -r space device; do
      tc -n "$space" qdisc replace dev "$device" root tbf rate "$value" burst 128kb latency 20ms; done || die "tc failed";;
  loss) drop_packets "$node" "$value";;
  power-off) node_stop "$node"; : > "$STATE/$node/off";;
  clear)
    ip netns exec "$SWITCH" nft delete table bridge "$node" 2>/dev/null
    if [ -e "$STATE/$node/off" ] || ! alive "$node"; then node_stop "$node"; node_start "$node"; return 0; fi
    ends "$node" | while read -r space device; do tc -n "$space" qdisc del dev "$device" root 2>/dev/null; done
    ip -n "$SWITCH" link set "p${node#node}" up;;
  *) usage;;
  esac
}

drop_packets() {
  local port=p${1#node} thousandths
  [[ $2 =~ ^[0-9]+(\.[0-9]+)?$ ]] && thousandths=$(awk -v p="$2" 'BEGIN{printf "%d", p * 1000}') && [ "$thousandths" -le 100000 ] ||
    die "fault loss: '$2' is no percentage"
  ip netns exec "$SWITCH" nft -f - <<END || die "nft failed"
table bridge $1
delete table bridge $1
table bridge $1 {
  chain f {
    type filter hook forward priority 0; policy accept;
    iifname "$port" numgen random mod 100000 < $thousandths drop
    oifname "$port" numgen random mod 100000 < $thousandths drop
  }
}
END
}

command=${1:-}; [ $# -eq 0 ] || shift
case $command in up|down|exec|hosts|fault) ;; *) usage;; esac
[ "$(id -u)" = 0 ] || die "must run as root"
case $STATE in *[[:space:]]*) die "white space in $STATE";; /run/*|/dev/*|/proc/*|/sys/*) die "CLUSTER_DIR may not be in $STATE: nodes have their own";; esac
case $command in exec) run "$@";; *) "$command" "$@";; esac
