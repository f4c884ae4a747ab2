#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs the Debian packages the addon is built with, only those that are missing; does nothing when none is.
set -eu

. "${0%/*}/apt.sh"

has() { command -v "$1" >/dev/null 2>&1; }

# What is there is asked of the system itself, so that it need not have come from a package.
missing=''
if has c++ || has g++; then
  # ClamAV's files bring those of zlib and bzip2.
  for header in clamav:libclamav-dev lzma:liblzma-dev zstd:libzstd-dev lz4frame:liblz4-dev; do
    printf '#include <%s.h>\n' "${header%%:*}" | ${CXX:-c++} -x c++ -fsyntax-only - >/dev/null 2>&1 ||
      missing="$missing ${header#*:}"
  done
else
  missing=' libclamav-dev liblzma-dev libzstd-dev liblz4-dev g++'
fi
has make || missing="$missing make"
has python3 || missing="$missing python3"
[ -n "$missing" ] || exit 0

apt_check "Sluice's engine needs the development files of ClamAV, liblzma, zstd and lz4, a C++20 compiler, make and Python 3" $missing
apt_install 'to compile the engine and its bridge to ClamAV' $missing
