#!/bin/bash
# Runs all commands of docs/production.md, in their order, on a machine of its own: a root folder in namespaces for mounts and processes, and for the
# network where nothing is fetched, where systemd is played by a few lines below: they check the unit, and run its ExecStart as its user with its variables.
#
#   test/machines/production.sh           a copy-on-write of this machine's own files, with what it has installed; the project is built here
#   test/machines/production.sh ROOT      a folder with a fresh Debian and a Node, as `run.sh -c production` makes it: packages are fetched, all is built
#
# Prints each command with its first lines of output, and `production: well` at the end. Needs root.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
if [ -z "${INSIDE:-}" ]; then
  # A copy of this machine has a network of its own; a fresh one fetches.
  net=--net
  [ -z "${1:-}" ] || net=''
  INSIDE=1 exec unshare --mount --pid $net --fork --kill-child "$here/production.sh" "$@"
fi

mount --make-rprivate /
[ -n "${1:-}" ] || ip link set lo up
stage=$(mktemp -d)
mount -t tmpfs stage "$stage"
trap 'umount -l "$stage"; rmdir "$stage"' EXIT

layer() {
  mkdir -p "$stage/$2.new" "$stage/$2.work" "$3"
  mount -t overlay "$2" -o "lowerdir=$1,upperdir=$stage/$2.new,workdir=$stage/$2.work" "$3"
}

if [ -n "${1:-}" ]; then
  root=$1
  fetches=1 refuses=0
  project_inside=/root/project
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  # Of this machine, as run.sh hands it on: where packages come from, and whom to trust.
  outside=$(printf 'export npm_config_registry=%q' "$(npm config get registry)")
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || outside+=$(printf '\nexport %s=%q' "$name" "${!name}")
  done
  [ ! -e "$root/etc/ssl/certs/of-the-host.pem" ] || outside+=$'\nexport NODE_EXTRA_CA_CERTS=/etc/ssl/certs/of-the-host.pem'
  rm -rf "$root$project_inside"
  git clone --quiet --no-local "$project" "$root$project_inside"
else
  root=$stage/root
  fetches='' refuses=1 outside=''
  layer / machine "$root"
  layer "$project" project "$root/opt/sluice"
  # What a service of this machine has left is none of the fresh one.
  rm -rf "$root/var/lib/sluice" "$root/etc/sluice.env" "$root/usr/local/bin/sluice"
  # Packages that are here stay as they are.
  echo 'APT::Get::Upgrade "false";' >"$root/etc/apt/apt.conf.d/99-as-it-is"
fi
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"

# What stands for systemd. The log of the service is a file.
cat >"$root/usr/local/bin/systemctl" <<'SYSTEMCTL'
#!/bin/bash
set -euo pipefail
unit=/etc/systemd/system/sluice.service
value() { sed -n "s/^$1=//p" "$unit"; }
start() {
  install -d -o "$(value User)" -g "$(value Group)" -m "$(value StateDirectoryMode)" "/var/lib/$(value StateDirectory)"
  cd "$(value WorkingDirectory)"
  umask "$(value UMask)"
  variables=("PATH=/usr/local/bin:/usr/bin:/bin")
  read -ra own <<<"$(value Environment)"
  mapfile -t named </etc/sluice.env
  read -ra program <<<"$(value ExecStart)"
  setsid setpriv --reuid="$(value User)" --regid="$(value Group)" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
    env -i "${variables[@]}" "${own[@]}" "${named[@]}" "${program[@]}" >/var/log/sluice.log 2>&1 </dev/null &
  echo $! >/run/sluice.pid
}
case "$*" in
  daemon-reload) if command -v systemd-analyze >/dev/null; then systemd-analyze verify --man=no "$unit"; fi ;;
  'enable --now sluice') start ;;
  'reload sluice')
    lines=$(grep -c '"msg":"ready"' /var/log/sluice.log)
    kill -USR2 "$(cat /run/sluice.pid)"
    for _ in $(seq 600); do
      [ "$(grep -c '"msg":"ready"' /var/log/sluice.log)" = "$lines" ] || exit 0
      sleep 0.1
    done
    exit 1
    ;;
  # They are Debian's, with units of their own.
  'enable --now clamav-freshclam') test -e /lib/systemd/system/clamav-freshclam.service ;;
  'reload caddy') test -e /lib/systemd/system/caddy.service ;;
  *) echo "systemctl $*: not on the page" >&2; exit 64 ;;
esac
SYSTEMCTL
printf '#!/bin/sh\n[ "$*" = "-u sluice --no-pager" ] && exec cat /var/log/sluice.log\n' >"$root/usr/local/bin/journalctl"
chmod 755 "$root/usr/local/bin/systemctl" "$root/usr/local/bin/journalctl"

# Indented lines are commands; those of one paragraph are one script, as somebody pastes them.
commands=$(sed -n 's/^    //p; /^$/p' "$project/docs/production.md" | cat -s)

# What this machine can't do is left out here, and nothing else: the network, and a repository to fetch from.
if [ -n "$fetches" ]; then
  commands=${commands//https:\/\/git.example.com\/sluice.git/$project_inside}
else
  commands=$(sed '/^apt-get update$/d; /^git clone /d; /^git pull$/d' <<<"$commands")
fi

cat >"$root/tmp/production" <<SCRIPT
set -euo pipefail
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive SLUICE_NO_INSTALL=$refuses
$outside
set -v
$commands
set +v
# What the page has promised.
key=\$(cat /tmp/key)
answer=\$(echo hello | curl -sS -w ' %{http_code}' -H "X-API-KEY: \$key" -F 'file=@-;filename=hello.txt' http://127.0.0.1:8080/api/v1/scans)
case \$answer in *'"infected":false'*' 200') ;; *) echo "the scan was answered with \$answer" >&2; exit 1 ;; esac
[ "\$(stat -c %U /var/lib/sluice)" = sluice ]
[ "\$(stat -c '%U %a' /etc/sluice.env)" = 'root 600' ]
[ "\$(ps -o user= -p "\$(cat /run/sluice.pid)" | tr -d ' ')" = sluice ]
echo 'production: well'
SCRIPT
# The key is for the last look; the page removes the file.
sed -i "s|^cat /var/lib/sluice/first-account.txt\$|&; sed -n 's/^  API key *//p' /var/lib/sluice/first-account.txt >/tmp/key|" "$root/tmp/production"
chroot "$root" /bin/bash /tmp/production || {
  code=$?
  tail -n 20 "$root/var/log/sluice.log" >&2 || true
  exit "$code"
}
