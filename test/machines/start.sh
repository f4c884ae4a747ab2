#!/bin/bash
# What somebody does who tries Sluice, in the folder of a clean clone: `npm start`, the curl line that it shows, a stop. Three times: with
# nothing installed, with everything installed but no data, and once more. Prints `name=milliseconds` for each, from `npm start` to listening.
# The first start also scans a test file and the largest upload there may be, and reads the refusal of one that is refused early.
set -euo pipefail

folder=${1:?the folder of a clone}
data=$(mktemp -d)
log=$(mktemp)
pid=''
trap 'stop; rm -rf "$data" "$log"' EXIT
trap 'exit 130' HUP INT TERM
cd "$folder"
export PORT=0 ADMIN_PORT=0 DATA_DIR="$data/data"

now() { date +%s%N; }
fail() {
  cat "$log" >&2
  echo "$1" >&2
  exit 1
}

# npm, its shell, the supervisor, the server and the database: the last one isn't in the group, and ends with the others.
stop() {
  [ -n "$pid" ] || return 0
  kill -TERM -- "-$pid" 2>/dev/null || true
  wait "$pid" || true
  pid=''
}

start() {
  : >"$log"
  began=$(now)
  setsid npm start >"$log" 2>&1 </dev/null &
  pid=$!
  until grep -q '"msg":"listening"' "$log"; do
    kill -0 "$pid" 2>/dev/null || fail '`npm start` ended'
    sleep 0.02
  done
  echo "$1=$((($(now) - began) / 1000000 ))ms"
  port=$(sed -n 's/.*"port":\([0-9]*\),"msg":"listening".*/\1/p' "$log")
  until curl -fs -o /dev/null "http://127.0.0.1:$port/readyz"; do
    kill -0 "$pid" 2>/dev/null || fail '`npm start` ended'
    sleep 0.02
  done
  echo "$1-ready=$((($(now) - began) / 1000000 ))ms"
  scan
}

# The port is another one each time.
scan() {
  line=$(sed -n 's/^  \(echo hello .*\)/\1/p' "$DATA_DIR/first-account.txt" | sed "s/127.0.0.1:[0-9]*/127.0.0.1:$port/")
  answer=$(sh -c "$line" 2>/dev/null) || fail "the curl line failed: $line"
  case $answer in
    *'"infected":false'*) ;;
    *) fail "the curl line was answered with $answer" ;;
  esac
}

# Prints status and body. Its first argument is a key, the second a file, whose name the server gets.
upload() { curl -s -w ' %{http_code}' -H "X-API-KEY: $1" -F "file=@$2" "http://127.0.0.1:$port/api/v1/scans" || true; }

expect() {
  case $2 in
    $3) ;;
    *) fail "$1 was answered with $2" ;;
  esac
}

more_scans() {
  local key
  key=$(sed -n 's/^  API key *//p' "$DATA_DIR/first-account.txt")
  printf '%s%s' 'X5O!P%@AP[4\PZX54(P^)7CC)7}$' 'EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*' >"$data/eicar.com"
  expect 'the test file' "$(upload "$key" "$data/eicar.com")" '*"infected":true* 200'
  head -c 10485760 /dev/zero >"$data/largest"
  expect 'an upload of 10 MB' "$(upload "$key" "$data/largest")" '*"infected":false* 200'
  head -c 52428800 /dev/zero >"$data/refused"
  expect 'an upload of 50 MB' "$(upload "$key" "$data/refused")" '*"error"* 400'
  expect 'an upload without a key' "$(upload '' "$data/largest")" '*"error"* 401'
}

start nothing
# What was installed and built, and what was not.
grep -v '^{' "$log" >&2 || true
more_scans
stop
rm -rf "$DATA_DIR"
start installed
stop
start again
stop
engine=$(sed -n 's/.*"name":"\([^"]*\)".*"msg":"signatures loaded".*/\1/p' "$log" | head -n 1)
echo "engine=$engine"
sed -n 's/.*"library":"\([^ "]*\).*/http=\1/p' "$log"
