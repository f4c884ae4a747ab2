#!/bin/sh
# Installs the Debian packages that the tests and the bench use, only those that are missing, and starts none of their services.
set -eu

. "${0%/*}/../native/apt.sh"

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
# Clients of clamd.
/usr/bin/python3 -c 'import pyclamd' >/dev/null 2>&1 || need python3-pyclamd
# A server that takes mail.
/usr/bin/python3 -c 'import aiosmtpd' >/dev/null 2>&1 || need python3-aiosmtpd
perl -MClamAV::Client -e 1 >/dev/null 2>&1 || need libclamav-client-perl
has clamdscan || need clamdscan
has curl || need curl
has zip || need zip
# What packs and unpacks containers (test/containers/).
for tool in unzip bzip2 zstd lz4 lzip cpio genisoimage; do has "$tool" || need "$tool"; done
has xz || need xz-utils
has 7z || need p7zip-full
# Without windows Chromium takes a quarter of the processor time; one that is there will do.
has chromium-headless-shell || has chromium || need chromium-headless-shell
# The proxies of deploy/; of Apache the program alone.
[ -x /usr/sbin/nginx ] || need nginx
[ -x /usr/sbin/haproxy ] || need haproxy
[ -x /usr/sbin/apache2 ] || need apache2-bin
has caddy || need caddy
# What the examples of the documentation are written in; a JDK, since Java's is run from its source.
has go || need golang-go
has javac || need default-jdk-headless
has php || need php-cli
php -r 'exit(function_exists("curl_init") ? 0 : 1);' >/dev/null 2>&1 || need php-curl
# Clients of ICAP; of c-icap the client alone is used.
has c-icap-client || need c-icap
[ -x /usr/sbin/squid ] || need squid
# The alert rules and the dashboard of deploy/; it brings promtool along.
has prometheus || need prometheus
[ -n "$missing" ] || exit 0

apt_check 'The tests need programs of other projects' $missing

# Debian starts a service when it installs it, unless this file says no (101). Ours is there only while we install.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '$as_root rm -f "$policy"' EXIT
  trap 'exit 130' HUP INT TERM
  printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
  $as_root chmod 755 "$policy"
fi

apt_install 'for the tests to run against' $missing

# Nor at the next boot: several of them want the same port.
for service in nginx haproxy caddy c-icap squid prometheus; do
  case " $missing " in
    *" $service "*) ! has systemctl || $as_root systemctl --quiet disable "$service.service" || true ;;
  esac
done
