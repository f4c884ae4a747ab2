#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs freshclam, which fetches ClamAV's signatures, where it is not there. Its daemon stays off: Sluice runs the program itself.
set -eu

. "${0%/*}/apt.sh"

command -v freshclam >/dev/null 2>&1 && exit 0
apt_check "ClamAV's signatures are fetched by freshclam" clamav-freshclam
apt_install "to fetch ClamAV's signatures" clamav-freshclam
if command -v systemctl >/dev/null 2>&1; then
  $as_root systemctl disable --now clamav-freshclam.service >/dev/null 2>&1 || true
fi
