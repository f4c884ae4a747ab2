#!/bin/bash
# Runs the two commands of the README, or all of docs/production.md, on fresh machines: folders with a Debian of their own, a Node, a clean clone of this project's last
# commit, as root in /root and as a user with sudo. Prints a row of docs/machines.md for each. Needs root, debootstrap and npm.
#
#   test/machines/run.sh [-d '12 13'] [-n '20 22 24 26'] [-u 'root user'] [-c 'start test' | -c production] [-C] [-k] [-x COMMAND] FOLDER
#
# FOLDER keeps what is the same for all (a Debian, packages, the logs); a machine's own folder is removed when it is done with, unless -k says
# that it stays. -x runs a command of yours in the clone instead, in the machine that -k has left if there is one, and leaves it.
# Each runs in namespaces of its own for mounts and processes, so that nothing stays mounted or running, however this ends. Its folder is the
# root of them, as a real machine's; with -C it is one by chroot, in which nobody may make user namespaces.
# HTTP_SERVER is passed on.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
debians='12 13' nodes='20 22 24 26' users='root user' commands='start test' keeps='' own='' is_chroot=''
while getopts d:n:u:c:Ckx: option; do
  case $option in
    d) debians=$OPTARG ;;
    n) nodes=$OPTARG ;;
    u) users=$OPTARG ;;
    c) commands=$OPTARG ;;
    C) is_chroot=1 ;;
    k) keeps=1 ;;
    x) own=$OPTARG ;;
    *) exit 64 ;;
  esac
done
shift $((OPTIND - 1))
work=$(mkdir -p "${1:?a folder to work in}" && cd "$1" && pwd)
mkdir -p "$work/logs"

[ "$(id -u)" = 0 ] || { echo 'Only root can make machines.' >&2; exit 1; }

# What this machine's apt uses.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
registry=$(npm config get registry)
declare -A names=([12]=bookworm [13]=trixie)
declare -A npms=([20]=10 [22]=10 [24]=11 [26]=11)
# Node 26 wants libatomic1; the rest is what a person has who reads the README: curl and sudo.
packages=ca-certificates,curl,sudo,libatomic1

base() {
  local folder=$work/debian-$1
  [ -e "$folder.made" ] && return
  rm -rf --one-file-system "$folder"
  debootstrap --variant=minbase --include="$packages" "${names[$1]}" "$folder" "$mirror" >"$work/logs/debian-$1.log" 2>&1
  # Certificates that this machine's programs trust besides, for instance those of a proxy.
  if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then cp "$NODE_EXTRA_CA_CERTS" "$folder/etc/ssl/certs/of-the-host.pem"; fi
  # Nothing here has to outlive a power cut.
  echo force-unsafe-io >"$folder/etc/dpkg/dpkg.cfg.d/unsafe-io"
  # The packages that one machine has downloaded are there for the next one.
  mkdir -p "$work/apt-$1"
  touch "$folder.made"
}

# Unpacks a package of npm's into a folder.
unpack() {
  mkdir -p "$2"
  (cd "$work" && tar xzf "$(npm pack --silent "$1")" -C "$2" --strip-components=1)
}

node_of() {
  local folder=$work/node-$1 arch
  [ -e "$folder.made" ] && return
  rm -rf "$folder"
  arch=$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
  unpack "node-linux-$arch@$1" "$folder"
  unpack "npm@${npms[$1]}" "$folder/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$folder/bin/npm"
  ln -s ../lib/node_modules/npm/bin/npx-cli.js "$folder/bin/npx"
  chmod 755 "$folder/lib/node_modules/npm/bin/"*-cli.js
  touch "$folder.made"
}

# Everything of the machine $1, with the Debian $2, the Node $3 and the user $4.
make_machine() {
  local machine=$1 home
  cp -a "$work/debian-$2" "$machine"
  cp -a "$work/node-$3/." "$machine/usr/local/"
  cp /etc/resolv.conf /etc/hosts "$machine/etc/"
  if [ "$4" = root ]; then home=/root; else
    home=/home/user
    chroot "$machine" useradd --create-home --uid 1000 --shell /bin/sh user
    echo 'user ALL=(ALL) NOPASSWD: ALL' >"$machine/etc/sudoers.d/user"
  fi
  git clone --quiet --no-local "$root" "$machine$home/sluice"
  cp "$here/start.sh" "$machine$home/start.sh"
  chroot "$machine" chown -R "$4:" "$home"
}

# Runs `sh -c $3` as the user $2 of the machine $1. The namespace's first process is the shell that mounts; all end with it.
inside() {
  local machine=$1 user=$2 home=/root ids=()
  if [ "$user" != root ]; then
    home=/home/user
    ids=(setpriv --reuid=1000 --regid=1000 --init-groups)
  fi
  local env=("HOME=$home" "USER=$user" "LANG=C.UTF-8" "npm_config_registry=$registry" "npm_config_update_notifier=false"
    'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin')
  local name
  for name in HTTP_SERVER http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || env+=("$name=${!name}")
  done
  [ -z "${NODE_EXTRA_CA_CERTS:-}" ] || env+=('NODE_EXTRA_CA_CERTS=/etc/ssl/certs/of-the-host.pem')
  # The packages by names of its own, and a lock of its own: apt locks the folder.
  local archives=$machine.archives
  rm -rf "$archives"
  mkdir -p "$archives"
  cp -al "$work/apt-$4"/*.deb "$archives/" 2>/dev/null || true
  local code=0
  MACHINE=$machine ARCHIVES=$archives IS_CHROOT=$is_chroot unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount --bind "$MACHINE" "$MACHINE"
    mount -t proc proc "$MACHINE/proc"
    mount -t sysfs -o ro sys "$MACHINE/sys"
    mount -t tmpfs -o mode=755 dev "$MACHINE/dev"
    for node in null zero full random urandom tty; do
      touch "$MACHINE/dev/$node"
      mount --bind "/dev/$node" "$MACHINE/dev/$node"
    done
    mkdir "$MACHINE/dev/shm" "$MACHINE/dev/pts"
    mount -t tmpfs -o mode=1777 shm "$MACHINE/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 pts "$MACHINE/dev/pts"
    ln -s pts/ptmx "$MACHINE/dev/ptmx"
    ln -s /proc/self/fd "$MACHINE/dev/fd"
    for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "$MACHINE/dev/${stream#*:}"; done
    mount --bind "$ARCHIVES" "$MACHINE/var/cache/apt/archives"
    mkdir -p "$MACHINE/var/cache/apt/archives/partial"
    [ -z "$IS_CHROOT" ] || exec chroot "$MACHINE" "$@"
    cd "$MACHINE"
    mkdir -p mnt/before
    pivot_root . mnt/before
    exec chroot . sh -euc "umount -l /mnt/before; exec \"\$@\"" sh "$@"
  ' bash "${ids[@]}" env -i "${env[@]}" sh -c "cd && $3" </dev/null || code=$?
  cp -aln "$archives"/*.deb "$work/apt-$4/" 2>/dev/null || true
  rm -rf "$archives"
  return "$code"
}

ms() { sed -n "s/^$2=\([0-9]*\)ms$/\1/p" "$1" | awk '{ printf "%.1f s", $1 / 1000 }'; }

# Prints the row, and in the place of what failed its last words.
try_machine() {
  local debian=$1 node=$2 user=$3 name="$1-$2-$3" machine started='' tested='' began
  machine=$work/machine-$name
  if [ -n "$own" ]; then
    [ -e "$machine" ] || make_machine "$machine" "$debian" "$node" "$user"
    inside "$machine" "$user" "cd sluice && $own" "$debian"
    return
  fi
  rm -rf --one-file-system "$machine"
  make_machine "$machine" "$debian" "$node" "$user"
  local log=$work/logs/$name
  if [ "$commands" = production ]; then
    "$here/production.sh" "$machine" >"$log.production" 2>&1 || true
    echo "$name $(tail -n 1 "$log.production")"
    [ -n "$keeps" ] || rm -rf --one-file-system "$machine"
    return
  fi
  if [[ $commands == *start* ]]; then
    if inside "$machine" "$user" 'bash start.sh sluice' "$debian" >"$log.start" 2>"$log.start-errors"; then
      started="$(ms "$log.start" nothing) | $(ms "$log.start" installed) | $(ms "$log.start" again) | $(sed -n 's/^engine=//p' "$log.start") | $(sed -n 's/^http=//p' "$log.start")"
    else
      started="failed: $(grep . "$log.start-errors" | tail -n 1) | | | | "
    fi
  fi
  if [[ $commands == *test* ]]; then
    began=$SECONDS
    inside "$machine" "$user" 'cd sluice && npm test' "$debian" >"$log.test" 2>&1 || true
    tested="$(grep -E '^# \{ total' "$log.test" | tail -n 1 | tr -d '#{}') | $(((SECONDS - began) / 60)) min"
  fi
  echo "| $debian | $("$work/node-$node/bin/node" --version | tr -d v) | $user | ${started:-| | | |} | ${tested:-|} |"
  [ -n "$keeps" ] || rm -rf --one-file-system "$machine"
}

[ -n "$own" ] || [ "$commands" = production ] || echo '| Debian | Node | user | `npm start` with nothing installed | with everything installed | again | engine | HTTP | `npm test` | in |'
[ -n "$own" ] || [ "$commands" = production ] || echo '|---|---|---|---|---|---|---|---|---|---|'
for debian in $debians; do
  base "$debian"
  for node in $nodes; do
    node_of "$node"
    for user in $users; do try_machine "$debian" "$node" "$user"; done
  done
done
