#!/bin/sh
# One of two Postgres servers, of which one is the primary and the other its synchronous standby. haproxy-postgres.cfg is in front of them.
#
#   sh postgres-pair.sh serve [SETTING ...]   starts it: as the standby, if the other one is the primary
#   sh postgres-pair.sh promote               makes a primary of the standby, when the other one has ended
#   sh postgres-pair.sh alone                 lets a primary that waits for its standby start without it: nobody has promoted that one, or ever will
#
# Environment: PGDATA; PGPASSWORD of the user `sluice`; PEER, the address of the other one; CHECKED_FROM, the network of the HAProxy that asks who is the primary;
# FIRST=yes for the one that makes the database.
set -eu
export PGUSER=sluice PGHOST="${PGHOST:-/var/run/postgresql}" PGCONNECT_TIMEOUT=2
settings=$PGDATA/postgresql.auto.conf
# In seconds: how often it looks for the other one. After so many looks without its standby commits of the primary no longer wait for it.
LOOK=${LOOK_SECONDS:-2}
LOOKS_AWAY=5

here() { psql -d postgres -Atqc "$1"; }
# f: it is a primary. t: a standby. Nothing: no answer.
peer() { psql "host=$PEER dbname=postgres" -Atqc 'SELECT pg_is_in_recovery()' 2>/dev/null || true; }

initialise() {
  password=$(mktemp)
  printf %s "$PGPASSWORD" >"$password"
  initdb -D "$PGDATA.new" -U sluice -A scram-sha-256 --pwfile="$password" -E UTF8
  rm "$password"
  {
    echo "host postgres haproxy_check $CHECKED_FROM trust"
    cat "$PGDATA.new/pg_hba.conf"
    echo 'host all sluice all scram-sha-256'
    echo 'host replication sluice all scram-sha-256'
  } >"$PGDATA.new/pg_hba.all"
  mv "$PGDATA.new/pg_hba.all" "$PGDATA.new/pg_hba.conf"
  echo "include '$(cd "$(dirname "$0")" && pwd)/postgres-pair.conf'" >>"$PGDATA.new/postgresql.conf"
  printf '%s\n' 'CREATE DATABASE sluice' 'CREATE ROLE haproxy_check LOGIN' | postgres --single -D "$PGDATA.new" postgres
}

# Of the primary, in place of whatever is here: an old primary may have rows that the new one never saw.
copy() {
  pg_basebackup -d "host=$PEER" -D "$PGDATA.new" -R -c fast
}

# Leaves a data folder that may serve, or waits until there can be one.
prepare() {
  until [ -f "$PGDATA/standby.signal" ]; do
    rm -rf "$PGDATA.new"
    role=$(peer)
    if [ "$role" = f ]; then
      echo 'The other one is the primary: this one begins as its copy'
      copy
    elif [ ! -s "$PGDATA/PG_VERSION" ] && [ "${FIRST:-}" = yes ]; then
      initialise
    # Commits waited for the standby to the end, so it may have been promoted, and be away for a moment.
    elif [ -s "$PGDATA/PG_VERSION" ] && { [ "$role" = t ] || ! grep -q "^synchronous_standby_names = '\*'" "$settings"; }; then
      return
    else
      echo 'Waits for the other one'
      sleep "$LOOK"
      continue
    fi
    rm -rf "$PGDATA"
    mv "$PGDATA.new" "$PGDATA"
  done
}

set_standbys() {
  here "ALTER SYSTEM SET synchronous_standby_names = '$1'"
  here 'SELECT pg_reload_conf()' >/dev/null
}

# Has commits wait for the standby while it is there.
watch() {
  away=0
  while sleep "$LOOK" && kill -0 $$; do
    state=$(here "SELECT count(*) || ' ' || current_setting('synchronous_standby_names') FROM pg_stat_replication WHERE state = 'streaming' AND NOT pg_is_in_recovery()") || continue
    case $state in '0 *') away=$((away + 1)) ;; *) away=0 ;; esac
    if [ "$state" = '1 ' ]; then
      set_standbys '*'
    elif [ "$away" -ge "$LOOKS_AWAY" ]; then
      echo 'The standby is away: commits no longer wait for it'
      set_standbys ''
    fi
  done 2>/dev/null
}

case ${1:-} in
  serve)
    shift
    prepare
    watch &
    exec postgres -D "$PGDATA" "$@"
    ;;
  promote)
    [ "$(peer)" != f ] || { echo 'The other one is the primary: end it first' >&2; exit 1; }
    set_standbys ''
    here 'SELECT pg_promote()'
    ;;
  alone) sed -i '/^synchronous_standby_names/d' "$settings" ;;
  *)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
