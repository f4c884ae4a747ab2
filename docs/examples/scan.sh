#!/bin/sh
# Scans the file that is named first. SLUICE_URL and SLUICE_API_KEY say where, and as whom.
# Ends with 0 when it is clean, 1 when it is infected, 2 when there is no verdict.
set -eu
# Within curl's quotes, quotes and backslashes of a name need one more backslash.
path=$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')
answer=$(curl --silent --show-error --max-time 120 --write-out '\n%{http_code}' \
  --header "X-API-KEY: $SLUICE_API_KEY" --form "file=@\"$path\"" "$SLUICE_URL/api/v1/scans") || exit 2
status=${answer##*
}
body=${answer%
*}
printf '%s\n' "$body"
[ "$status" = 200 ] || exit 2
case $body in
  *'"infected":false'*) exit 0 ;;
  *) exit 1 ;;
esac
