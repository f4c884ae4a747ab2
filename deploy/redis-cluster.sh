#!/bin/sh
# Makes a Redis Cluster of six members, three masters with a replica each. Where it is made, every member hears where the others are now: one that has come back with another address is found again.
#
#   REDISCLI_AUTH=... sh redis-cluster.sh HOST:PORT ...
#
# It can be run as often as one likes. It ends with 1 while members that are to be a cluster are not all there.
set -eu

ask() {
  address=$1
  shift
  redis-cli -h "${address%:*}" -p "${address##*:}" "$@"
}

# CLUSTER MEET wants addresses.
members=
for member in "$@"; do
  found=$(getent ahostsv4 "${member%:*}") || continue
  address=${found%% *}:${member##*:}
  [ "$(ask "$address" ping 2>&1)" != PONG ] || members="$members $address"
done

for member in $members; do
  case $(ask "$member" cluster info) in *cluster_slots_assigned:0*) continue ;; esac
  for other in $members; do
    case $(ask "$member" cluster nodes) in
      *" $other@"*) ;;
      *) ask "$member" cluster meet "${other%:*}" "${other##*:}" ;;
    esac
  done
  is_made=yes
done
[ -z "${is_made:-}" ] || exit 0

answering=$(echo "$members" | wc -w)
[ "$answering" -eq "$#" ] || { echo "$answering of $# members answer" >&2; exit 1; }
# shellcheck disable=SC2086 # They are words.
redis-cli --cluster create $members --cluster-replicas 1 --cluster-yes
