#!/bin/bash
# The short form of run.sh: this machine, with what it has. A copy of what git knows of this tree, beside its packages and with what was built of
# it, is started, scanned with and started again: a file that git doesn't know, or a build that nobody made, is missed here.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/sluice"
cd "$root"
# With their times: what was built is newer than its sources here as it is there.
git ls-files -z | xargs -0 cp -a --parents -t "$work/sluice"
# Without the databases of the tests and the stamps of whole builds, which may be made meanwhile; a stamp counts for its own folder alone.
find dist -mindepth 1 -maxdepth 1 ! -name 'embedded-*' ! -name 'postgres-template-*' ! -name '.checked*' -exec cp -a --parents -t "$work/sluice" {} +
cp -a --parents native/build/Release/*.node "$work/sluice"
ln -s "$root/node_modules" "$work/sluice/node_modules"
bash "$here/start.sh" "$work/sluice"
