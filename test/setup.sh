#!/bin/sh
# Installs the Debian packages that the tests and the bench use, only those that are missing, and starts none of their services.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }

missing=''
need() { missing="$missing $1"; }

# What is there is asked of the system itself, so that it need not have come from a package.
has redis-server || need redis-server
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need postgresql
has clamscan || need clamav
has freshclam || need clamav-freshclam
has clamd || [ -x /usr/sbin/clamd ] || need clamav-daemon
[ -d /usr/share/clamav-testfiles ] || need clamav-testfiles
# By its path: a Python of one's own may come before the one that the package is for.
/usr/bin/python3 -c 'import requests' >/dev/null 2>&1 || need python3-requests
has curl || need curl
has zip || need zip
# Without windows Chromium takes a quarter of the processor time; one that is there will do.
has chromium-headless-shell || has chromium || need chromium-headless-shell
# The proxies of deploy/; of Apache the program alone.
[ -x /usr/sbin/nginx ] || need nginx
[ -x /usr/sbin/haproxy ] || need haproxy
[ -x /usr/sbin/apache2 ] || need apache2-bin
has caddy || need caddy
[ -n "$missing" ] || exit 0

if [ "${SLUICE_NO_INSTALL:-}" = 1 ]; then
  printf 'apt-get install --no-install-recommends%s\n' "$missing"
  exit 3
fi

fail() {
  printf '%s\n' "$1" 'Then run the same command again.' >&2
  exit 1
}

if ! has apt-get; then
  fail "The tests need what Debian packages as:$missing
Install what your system calls them: no apt-get was found here to do it."
fi

if [ "$(id -u)" = 0 ]; then
  as_root=''
elif has sudo; then
  as_root='sudo'
else
  fail "These packages are missing:$missing
Install them as root: apt-get install --no-install-recommends$missing"
fi

printf 'Installing with apt-get, for the tests to run against:%s\n' "$missing"

# Debian starts a service when it installs it, unless this file says no (101). Ours is there only while we install.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '$as_root rm -f "$policy"' EXIT
  trap 'exit 130' HUP INT TERM
  printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
  $as_root chmod 755 "$policy"
fi

# sudo drops the environment, so the setting goes in by env.
if ! { $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing; }; then
  fail "apt-get could not install:$missing"
fi

# Nor at the next boot: several of them want the same port.
for service in nginx haproxy caddy; do
  case " $missing " in
    *" $service "*) ! has systemctl || $as_root systemctl --quiet disable "$service.service" || true ;;
  esac
done
