#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs the Debian packages the addon is built with, only those that are missing; does nothing when none is.
set -eu

packages='libclamav-dev g++ make python3'

has() { command -v "$1" >/dev/null 2>&1; }

# What is there is asked of the system itself, so that it need not have come from a package.
missing=''
if has c++ || has g++; then
  printf '#include <clamav.h>\n' | ${CXX:-c++} -x c++ -fsyntax-only - >/dev/null 2>&1 || missing='libclamav-dev'
else
  missing='libclamav-dev g++'
fi
has make || missing="$missing make"
has python3 || missing="$missing python3"
[ -n "$missing" ] || exit 0

if [ "${SLUICE_NO_INSTALL:-}" = 1 ]; then
  printf 'apt-get install --no-install-recommends%s\n' "$(printf ' %s' $missing)"
  exit 3
fi

fail() {
  printf '%s\n' "$1" "Then run the same command again." >&2
  exit 1
}

if ! has apt-get; then
  fail "Sluice's engine needs ClamAV's development files, a C++20 compiler, make and Python 3 (on Debian: $packages).
Install what your system calls them: no apt-get was found here to do it."
fi

if [ "$(id -u)" = 0 ]; then
  as_root=''
elif has sudo; then
  as_root='sudo'
else
  fail "These packages are missing:$(printf ' %s' $missing)
Install them as root: apt-get install --no-install-recommends $missing"
fi

printf 'Installing with apt-get, to compile the engine and its bridge to ClamAV:%s\n' "$(printf ' %s' $missing)"
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
if ! { $as_root apt-get update -q && $as_root apt-get install -q -y --no-install-recommends $missing; }; then
  fail "apt-get could not install:$(printf ' %s' $missing)"
fi
