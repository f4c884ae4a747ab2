#!/bin/bash
# Runs images as a container engine would: namespaces of their own for mounts and processes, a root that is read only, tmpfs at /tmp and
# /dev/shm, user 10001 without capabilities and with no_new_privs. Then an upgrade: the second image on the folder that the first one has left.
#
#   test/machines/image.sh ROOT [NEWER_ROOT]      each the root of an image, as `buildah mount` gives it; needs root
#
# DATABASE_URL is passed on; without it there is the embedded database. Signatures come from a mirror on loopback: by the image's own `sluice
# signatures update` into /data, and by this machine's freshclam into a folder that the images read at /var/lib/clamav. MIRROR is a folder with
# files for the mirror besides (main.cvd, daily.cvd, bytecode.cvd).
# Prints a line for all that was looked at. Needs curl, psql, freshclam and Python 3.
set -euo pipefail

data=$(mktemp -d)
log=$(mktemp)
pid=''
clam=$(mktemp -d)
mirror_pid=''
trap 'stop; [ -z "$mirror_pid" ] || kill "$mirror_pid"; rm -rf "$data" "$log" "$clam"' EXIT
trap 'exit 130' HUP INT TERM
chown 10001:10001 "$data"
chmod 700 "$data"
mkdir "$clam/mirror" "$clam/signatures"
chmod 755 "$clam" "$clam/signatures"

fail() {
  cat "$log" >&2
  echo "$1" >&2
  exit 1
}

# Runs a command of the image $1; what is behind it comes after `--`.
inside() {
  # The folder for signatures is a volume: a container engine makes the place where one is mounted.
  mkdir -p "$1/var/lib/clamav"
  ROOT=$1 DATA=$data SIGNATURES=$clam/signatures unshare --mount --pid --fork --kill-child bash -euc '
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
    mount --bind "$SIGNATURES" "$ROOT/var/lib/clamav"
    mount -o remount,bind,ro "$ROOT/var/lib/clamav"
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

settings=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NODE_ENV=production HOST=127.0.0.1 PORT=0 ADMIN_PORT=0 DATA_DIR=/data SIGNATURES_POLL_SECONDS=2)
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

# How many rows the history has, as the owner of the key sees it.
rows() {
  local email=ada@example.com password=a-long-password cookies=$data.cookies count
  if [ -z "${DATABASE_URL:-}" ]; then
    email=$(sed -n 's/^  e-mail *//p' "$data/first-account.txt")
    password=$(sed -n 's/^  password *//p' "$data/first-account.txt")
  fi
  curl -fs -o /dev/null -c "$cookies" -H 'Content-Type: application/json' -d "{\"email\":\"$email\",\"password\":\"$password\"}" \
    "http://127.0.0.1:$port/web/auth/login"
  count=$(curl -fs -b "$cookies" "http://127.0.0.1:$port/web/scans/stats" | sed -n 's/.*"totalElements":\([0-9]*\).*/\1/p')
  rm -f "$cookies"
  echo "$count"
}

# Rows come from the journal within a second or so.
expect_rows() {
  local found='' attempt
  for attempt in $(seq 100); do
    found=$(rows)
    [ "$found" != "$scans" ] || break
    sleep 0.1
  done
  expect "rows of $scans scans" "$found" "$scans"
}

expect() {
  case $2 in
    $3) echo "$1: $2" ;;
    *) fail "$1: $2" ;;
  esac
}

look() {
  scans=$((scans + 2))
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

# The newest migration that the database has.
tables() { psql -XAtq -c "SELECT 'migration ' || max(version) FROM schema_migrations" "${DATABASE_URL:-host=$data/postgres/socket user=sluice dbname=postgres}"; }

hello() {
  scans=$((scans + 1))
  expect "$1" "$(echo hello | scan hello.txt)" '*"infected":false* 200'
}

# A mirror as an operator has one where the official ones can't be reached. Its port is one that was free a moment ago.
serve_mirror() {
  [ -z "${MIRROR:-}" ] || cp "$MIRROR"/* "$clam/mirror/"
  mirror_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  python3 -m http.server -b 127.0.0.1 -d "$clam/mirror" "$mirror_port" >"$clam/mirror.log" 2>&1 &
  mirror_pid=$!
  until curl -fs -o /dev/null "http://127.0.0.1:$mirror_port/"; do sleep 0.1; done
  {
    printf '%s\n' "DatabaseDirectory $clam/signatures" 'DatabaseOwner root' "PrivateMirror http://127.0.0.1:$mirror_port"
    local name
    for name in main daily bytecode; do [ -e "$clam/mirror/$name.cvd" ] || echo "ExcludeDatabase $name"; done
    echo "DatabaseCustomURL http://127.0.0.1:$mirror_port/fresh.ndb"
  } >"$clam/freshclam.conf"
}

# The mirror gets a signature named $2 for the word $1, in the file $3, which nothing has found so far.
publish() {
  scans=$((scans + 1))
  expect 'a mark without a signature' "$(printf %s "$1" | scan mark.txt)" '*"infected":false* 200'
  printf '%s:0:*:%s\n' "$2" "$(printf %s "$1" | od -An -v -tx1 | tr -d ' \n')" >"$clam/mirror/$3"
}

# The running server finds the word $1 to be $2; $3: what has brought the signature.
expect_found() {
  local began=$SECONDS answer='' attempt
  for attempt in $(seq 60); do
    scans=$((scans + 1))
    answer=$(printf %s "$1" | scan mark.txt)
    case $answer in *'"infected":true'*) break ;; esac
    sleep 1
  done
  expect "after $3, $((SECONDS - began)) s" "$answer" "*$2* 200"
}

# As `docker exec` runs it. Nothing is in /var/lib/clamav, so what it fetches goes to /data.
look_at_update() {
  local word began
  word="an updated mark of $(date +%s%N)"
  rm -f "$clam"/signatures/*
  publish "$word" Test.Updated updated.ndb
  local update=("SIGNATURES_MIRROR=none" "SIGNATURES_URLS=http://127.0.0.1:$mirror_port/updated.ndb" sluice signatures update)
  began=$(date +%s%N)
  expect 'signatures update' "$(inside "$1" "${settings[@]}" "${update[@]}" 2>>"$clam/update.log" || cat "$clam/update.log")" \
    'OK: *self-test passed*/data/signatures/updated.ndb is new'
  echo "it took $((($(date +%s%N) - began) / 1000000)) ms"
  expect_found "$word" Test.Updated 'signatures update'
  expect 'whose they are' "$(stat -c '%u %a' "$data/signatures/updated.ndb")" '10001 *'
  expect 'once more' "$(inside "$1" "${settings[@]}" "${update[@]}" 2>>"$clam/update.log")" '*has the newest signatures already'
  expect 'from a mirror without the file' "$(inside "$1" "${settings[@]}" "${update[@]/updated.ndb/none.ndb}" 2>&1 >/dev/null | tail -n 1)" \
    'sluice: nothing was changed: *'
}

look_at_freshclam() {
  local word
  word="a fresh mark of $(date +%s%N)"
  publish "$word" Test.Fresh fresh.ndb
  freshclam --config-file="$clam/freshclam.conf" --quiet --stdout >>"$clam/freshclam.log" 2>&1 || fail "$(cat "$clam/freshclam.log")"
  expect_found "$word" Test.Fresh freshclam
  echo "signatures: $(cd "$clam/signatures" && echo *)"
}

serve_mirror
scans=0
first=$1
for root in "$@"; do
  start "$root"
  expect 'tables' "$(tables)" 'migration *'
  expect_rows
  [ "$root" = "$first" ] || hello 'the key of before'
  look
  look_at_update "$root"
  look_at_freshclam
  expect 'health check' "$(health "$root" "$port")" 0
  expect 'health check of nobody' "$(health "$root" 1)" 1
  look_at_folders "$root"
  stop
  start "$root"
  expect_rows
  hello 'after a restart'
  # The processes of the next one have the same numbers again: nothing that is left may be taken for theirs.
  stop KILL
  start "$root"
  expect_rows
  hello 'after a kill'
  expect_rows
  stop
done
