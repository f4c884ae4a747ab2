#!/bin/bash
# Runs images as a container engine would: namespaces of their own for mounts and processes, a root that is read only, tmpfs at /tmp and
# /dev/shm, user 10001 without capabilities and with no_new_privs. Then an upgrade: the second image on the folder that the first one has left.
#
#   test/machines/image.sh ROOT [NEWER_ROOT]      each the root of an image, as `buildah mount` gives it; needs root
#
# DATABASE_URL is passed on; without it there is the embedded database. Prints a line for all that was looked at.
set -euo pipefail

data=$(mktemp -d)
log=$(mktemp)
pid=''
trap 'stop; rm -rf "$data" "$log"' EXIT
trap 'exit 130' HUP INT TERM
chown 10001:10001 "$data"
chmod 700 "$data"

fail() {
  cat "$log" >&2
  echo "$1" >&2
  exit 1
}

# Runs a command of the image $1; what is behind it comes after `--`.
inside() {
  ROOT=$1 DATA=$data unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount --bind "$ROOT" "$ROOT"
    mount -t proc proc "$ROOT/proc"
    mount -t tmpfs -o mode=755 dev "$ROOT/dev"
    for node in null zero full random urandom; do
      touch "$ROOT/dev/$node"
      mount --bind "/dev/$node" "$ROOT/dev/$node"
    done
    ln -s /proc/self/fd "$ROOT/dev/fd"
    mkdir "$ROOT/dev/shm"
    mount -t tmpfs -o mode=1777,size=1g shm "$ROOT/dev/shm"
    mount -t tmpfs -o mode=1777 tmp "$ROOT/tmp"
    mount --bind "$DATA" "$ROOT/data"
    mount -o remount,bind,ro "$ROOT"
    # The first process of the namespace passes signals on, as the --init of a container engine.
    trap "kill -TERM \$child" TERM
    chroot "$ROOT" setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
      env -i "${@:2}" &
    child=$!
    # A signal ends a wait as well.
    until code=0; wait "$child" || code=$?; ! kill -0 "$child" 2>/dev/null; do :; done
    exit "$code"
  ' bash "$@" </dev/null
}

settings=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_ENV=production HOST=127.0.0.1 PORT=0 ADMIN_PORT=0 DATA_DIR=/data)
# Beside a database that isn't its own Sluice makes no account by itself.
own_key=0123456789abcdef0123456789abcdef
[ -z "${DATABASE_URL:-}" ] || settings+=("DATABASE_URL=$DATABASE_URL" BOOTSTRAP_EMAIL=ada@example.com BOOTSTRAP_PASSWORD=a-long-password "BOOTSTRAP_API_KEY=$own_key")

start() {
  : >"$log"
  inside "$1" "${settings[@]}" sh -c 'cd /sluice && exec node dist/src/main.js serve' >"$log" 2>&1 &
  pid=$!
  until grep -q '"msg":"listening"' "$log"; do
    kill -0 "$pid" 2>/dev/null || fail 'the image ended'
    sleep 0.05
  done
  port=$(sed -n 's/.*"port":\([0-9]*\),"msg":"listening".*/\1/p' "$log")
  until curl -fs -o /dev/null "http://127.0.0.1:$port/readyz"; do sleep 0.05; done
}

stop() {
  [ -n "$pid" ] || return 0
  began=$(date +%s%N)
  # The shell in the namespace: `unshare`, its parent, passes no signal on. Whether that is a child of this shell or in its place is bash's choice.
  kill -"${1:-TERM}" "$(pgrep -P "$(pgrep -x unshare -P "$pid" || echo "$pid")")" 2>/dev/null || true
  code=0
  wait "$pid" || code=$?
  pid=''
  echo "stopped: exit code $code, $((($(date +%s%N) - began) / 1000000)) ms"
}

key() { if [ -n "${DATABASE_URL:-}" ]; then echo "$own_key"; else sed -n 's/^  API key *//p' "$data/first-account.txt"; fi; }
scan() { curl -s -w ' %{http_code}' -H "X-API-KEY: $(key)" -F "file=@-;filename=$1" "http://127.0.0.1:$port/api/v1/scans"; }

expect() {
  case $2 in
    $3) echo "$1: $2" ;;
    *) fail "$1: $2" ;;
  esac
}

look() {
  expect 'a test file' "$(printf '%s%s' 'X5O!P%@AP[4\PZX54(P^)7CC)7}$' 'EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*' | scan eicar.com)" '*"infected":true* 200'
  expect 'ten megabytes' "$(head -c 10485760 /dev/zero | scan zeros)" '*"infected":false* 200'
  expect 'who it runs as' "$(ps -o uid= -p "$(pgrep -f 'main.js serve --no-supervisor' -u 10001 | head -n 1)" | tr -d ' ')" 10001
  expect 'version' "$(curl -s "http://127.0.0.1:$port/version")" '{*'
}

# The health check of the image, in a container of its own on the same network.
health() {
  local program='fetch(`http://127.0.0.1:${process.env.PORT}/livez`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))' code=0
  inside "$1" "${settings[@]}" "PORT=$2" node -e "$program" || code=$?
  echo "$code"
}

look_at_folders() {
  expect 'writing to the root' "$(inside "$1" "${settings[@]}" sh -c 'touch /sluice/x 2>&1; touch /etc/x 2>&1; touch /tmp/x /dev/shm/x /data/x && rm /data/x && echo well' | tr '\n' ' ')" \
    '*Read-only*Read-only*well *'
}

first=$1
for root in "$@"; do
  start "$root"
  [ "$root" = "$first" ] || expect 'the key of before' "$(echo hello | scan hello.txt)" '*"infected":false* 200'
  look
  expect 'health check' "$(health "$root" "$port")" 0
  expect 'health check of nobody' "$(health "$root" 1)" 1
  look_at_folders "$root"
  stop
  start "$root"
  expect 'after a restart' "$(echo hello | scan hello.txt)" '*"infected":false* 200'
  # The processes of the next one have the same numbers again: nothing that is left may be taken for theirs.
  stop KILL
  start "$root"
  expect 'after a kill' "$(echo hello | scan hello.txt)" '*"infected":false* 200'
  stop
done
