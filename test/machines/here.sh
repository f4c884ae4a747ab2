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
bash "$here/start.sh" "$work/sluice"
