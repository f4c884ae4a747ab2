#!/bin/bash
# The short form of run.sh: this machine, with what it has. A clean clone of the last commit beside these packages is built, started, scanned
# with and started again.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet "$root" "$work/sluice"
ln -s "$root/node_modules" "$work/sluice/node_modules"
# The addons of this tree were compiled from clean. Where they are newer than its sources, and these are the commit's, compiling them in the
# clone would be the same once more, for a minute of a core.
release=native/build/Release
if [ -e "$root/$release/sluice.node" ] && [ -z "$(git -C "$root" status --porcelain -- native package-lock.json)" ] &&
  [ -z "$(find "$root/native" -path '*/build' -prune -o -type f -newer "$root/$release/sluice.node" -print)" ]; then
  mkdir -p "$work/sluice/$release"
  cp "$root/$release/"*.node "$work/sluice/$release/"
fi
bash "$here/start.sh" "$work/sluice"
