# SPDX-License-Identifier: GPL-2.0-only
# For setup scripts: installs packages of Debian with apt-get, as root or through sudo, and waits for others that use it.

# As long as another program may hold apt's locks: a machine's first update of itself takes minutes.
apt_wait_seconds=600

fail() {
  printf '%s\n' "$1" 'Then run the same command again.' >&2
  exit 1
}

# Of its locks apt-get waits for dpkg's by itself, and for that of the lists not at all.
update_lists() {
  said=$(mktemp)
  waited=0
  until LC_ALL=C $as_root apt-get update -q >"$said" 2>&1; do
    cat "$said"
    if ! grep -q 'Could not get lock' "$said" || [ "$waited" -ge "$apt_wait_seconds" ]; then
      rm -f "$said"
      return 1
    fi
    [ "$waited" -gt 0 ] || printf 'Waiting for another program that uses apt, %s s at most\n' "$apt_wait_seconds"
    sleep 1
    waited=$((waited + 1))
  done
  rm -f "$said"
}

# apt_check WHO PACKAGE...: ends the script where they can't be installed; with SLUICE_NO_INSTALL=1 it prints the command instead.
apt_check() {
  who=$1
  shift
  if [ "${SLUICE_NO_INSTALL:-}" = 1 ]; then
    printf 'apt-get install --no-install-recommends %s\n' "$*"
    exit 3
  fi
  if ! command -v apt-get >/dev/null 2>&1; then
    fail "$who (on Debian: $*).
Install what your system calls them: no apt-get was found here to do it."
  fi
  as_root=''
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo >/dev/null 2>&1 || fail "These packages are missing: $*
Install them as root: apt-get install --no-install-recommends $*"
  as_root='sudo'
}

# apt_install WHY PACKAGE...: after apt_check.
apt_install() {
  printf 'Installing with apt-get, %s:' "$1"
  shift
  printf ' %s' "$@"
  printf '\n'
  # sudo drops the environment, so the setting goes in by env.
  if ! { update_lists && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o DPkg::Lock::Timeout="$apt_wait_seconds" "$@"; }; then
    fail "apt-get could not install: $*"
  fi
}
