#!/bin/sh
# Real clients of clamd's protocol and of ICAP against Sluice: `sh test/clients/run.sh [PART]...`, as root, after `node build.mjs --test`.
# Each is asked for a clean content and for EICAR. It installs nothing: what is not there is named and left out. Debian has them in
# clamav-milter, postfix, exim4-daemon-heavy, rspamd, amavisd-new, samba with samba-vfs-modules and smbclient, php-cli, golang-go, a JDK, haproxy.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
clients=$root/test/clients
work=$(mktemp -d)
chmod 755 "$work"
socket=$work/clamd.sock
failed=0
pids=''

stop() {
  [ ! -e "$work/postfix/etc" ] || postfix -c "$work/postfix/etc" stop >/dev/null 2>&1 || true
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  wait
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' HUP INT TERM

# Runs in the background until the end.
start() {
  log=$1
  shift
  "$@" >"$work/$log.log" 2>&1 </dev/null &
  pids="$! $pids"
}

has() {
  for program in "$@"; do
    command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ] || { echo "$program is not installed: left out"; return 1; }
  done
}

# Waits for a port.
open() {
  for _ in $(seq 120); do
    if curl -s --max-time 1 "telnet://127.0.0.1:$1" </dev/null >/dev/null 2>&1 || [ $? -eq 28 ]; then return 0; fi
    sleep 0.5
  done
  echo "nothing listens on port $1"
  return 1
}

# expect NAME PATTERN TEXT
expect() {
  if printf '%s' "$3" | grep -q "$2"; then echo "ok: $1"; else
    echo "FAILED: $1: wanted $2, got: $3"
    failed=1
  fi
}

# What an SMTP server on the port says of the mail: the last answer.
mail() {
  curl -s -v --max-time 30 --url "smtp://127.0.0.1:$1" --mail-from a@example.org --mail-rcpt b@example.org --upload-file "$2" 2>&1 |
    grep -E '^< [0-9]' | tail -1
}

contents() {
  printf '%s%s' 'X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-' 'ANTIVIRUS-TEST-FILE!$H+H*' >"$work/infected"
  head -c 300000 /dev/zero | tr '\0' a >"$work/clean"
  for name in clean infected; do
    {
      printf 'From: a@example.org\r\nTo: b@example.org\r\nSubject: test\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n'
      printf -- '--x\r\nContent-Type: application/octet-stream; name=a.bin\r\nContent-Disposition: attachment; filename=a.bin\r\nContent-Transfer-Encoding: base64\r\n\r\n'
      base64 "$work/$name" | sed 's/$/\r/'
      printf -- '--x--\r\n'
    } >"$work/$name.eml"
  done
}

serve() {
  mkdir -m 777 "$work/share" "$work/exim" "$work/amavis"
  start sluice env PORT=18901 ADMIN_PORT=0 DATA_DIR="$work/data" SIGNATURES_DIR="$root/signatures" \
    BOOTSTRAP_EMAIL=a@example.org PLANS=LARGE:100000 BOOTSTRAP_PLAN=LARGE \
    CLAMD_SOCKET="$socket" CLAMD_SOCKET_MODE=666 CLAMD_PORT=13311 CLAMD_ACCOUNT=a@example.org \
    CLAMD_PATHS="$work/share,$work/exim,$work/amavis" ICAP_PORT=11345 ICAP_ACCOUNT=a@example.org \
    node dist/src/main.js serve
  for _ in $(seq 120); do
    grep -q '"msg":"ready' "$work/sluice.log" && return 0
    sleep 0.5
  done
  cat "$work/sluice.log"
  exit 1
}

programs() {
  has php && for way in socket port REQMOD RESPMOD; do
    said=$(php "$clients/nextcloud.php" "$socket" 13311 11345)
    expect "Nextcloud's way, $way, clean" "^$way clean: clean$" "$said"
    expect "Nextcloud's way, $way, EICAR" "^$way infected: infected$" "$said"
  done
  has java && for name in 'clean OK' 'infected FOUND'; do
    expect "Java, ${name% *}" "${name#* }$" "$(java "$clients/Clamd.java" 13311 <"$work/${name% *}")"
  done
  has go && for name in 'clean OK' 'infected FOUND'; do
    expect "Go, ${name% *}" "${name#* }$" "$(GOCACHE="$work/go" go run "$clients/clamd.go" "$socket" <"$work/${name% *}")"
  done
  if has haproxy; then
    printf 'defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\nlisten clamd\n bind 127.0.0.1:13312\n server one 127.0.0.1:13311\nlisten icap\n bind 127.0.0.1:11346\n server one 127.0.0.1:11345\n' >"$work/haproxy.cfg"
    start haproxy haproxy -f "$work/haproxy.cfg"
    open 13312
    said=$(php "$clients/nextcloud.php" "$socket" 13312 11346)
    expect "HAProxy in front of clamd's protocol" '^port infected: infected$' "$said"
    expect 'HAProxy in front of ICAP' '^RESPMOD infected: infected$' "$said"
  fi
}

rspamd_both() {
  has rspamd || return 0
  mkdir -m 777 "$work/rspamd"
  echo com >"$work/rspamd/tld"
  cat >"$work/rspamd.conf" <<END
lua = "/usr/share/rspamd/rules/rspamd.lua";
options { pidfile = "$work/rspamd/pid"; filters = []; url_tld = "$work/rspamd/tld"; tempdir = "$work/rspamd"; dns { nameserver = ["127.0.0.1"]; } control_socket = "$work/rspamd/control mode=0600"; }
logging { type = "file"; filename = "$work/rspamd/log"; level = "info"; }
worker { type = "normal"; bind_socket = "127.0.0.1:11998"; count = 1; }
modules { path = "/usr/share/rspamd/plugins/"; }
antivirus { clamav { type = "clamav"; servers = "$socket"; symbol = "CLAM_VIRUS"; scan_mime_parts = true; scan_text_mime = true; } }
external_services { icap { type = "icap"; servers = "127.0.0.1:11345"; scheme = "respmod"; symbol = "ICAP_VIRUS"; scan_mime_parts = true; scan_text_mime = true; } }
actions { reject = 15; }
END
  start rspamd rspamd -i -f -c "$work/rspamd.conf"
  open 11998
  said=$(curl -s --max-time 60 --data-binary "@$work/infected.eml" http://127.0.0.1:11998/checkv2)
  expect 'rspamd, clamav, EICAR' 'CLAM_VIRUS' "$said"
  expect 'rspamd, icap, EICAR' 'ICAP_VIRUS' "$said"
  said=$(curl -s --max-time 60 --data-binary "@$work/clean.eml" http://127.0.0.1:11998/checkv2 | sed 's/_VIRUS/_FOUND/; t; s/$/ nothing/')
  expect 'rspamd, clean' 'nothing' "$said"
}

postfix_milter() {
  has clamav-milter postfix || return 0
  mkdir -p "$work/postfix/etc" "$work/postfix/queue" "$work/postfix/data"
  chown postfix "$work/postfix/data"
  printf 'MilterSocket inet:11889@127.0.0.1\nClamdSocket unix:%s\nOnInfected Reject\nOnFail Defer\nForeground yes\nTemporaryDirectory /tmp\n' "$socket" >"$work/milter.conf"
  start milter clamav-milter -c "$work/milter.conf"
  open 11889
  cat >"$work/postfix/etc/main.cf" <<END
compatibility_level = 3.6
queue_directory = $work/postfix/queue
data_directory = $work/postfix/data
maillog_file = $work/postfix/log
maillog_file_prefixes = $work
myhostname = mail.example.org
mydestination =
inet_interfaces = loopback-only
inet_protocols = ipv4
default_transport = discard:
smtpd_relay_restrictions = permit_mynetworks, reject
mynetworks = 127.0.0.0/8
smtpd_milters = inet:127.0.0.1:11889
milter_default_action = tempfail
alias_maps =
END
  {
    echo '127.0.0.1:12526 inet n - n - - smtpd'
    echo 'postlog unix-dgram n - n - 1 postlogd'
    echo 'cleanup unix n - n - 0 cleanup'
    for service in discard anvil proxymap tlsmgr; do echo "$service unix - - n - 0 $service"; done
    echo 'rewrite unix - - n - - trivial-rewrite'
    echo 'qmgr unix n - n 300 1 qmgr'
    for service in bounce defer; do echo "$service unix - - n - 0 bounce"; done
  } >"$work/postfix/etc/master.cf"
  postfix -c "$work/postfix/etc" start >"$work/postfix.log" 2>&1
  open 12526
  expect 'Postfix with clamav-milter, clean' '250 2.0.0 Ok' "$(mail 12526 "$work/clean.eml")"
  expect 'Postfix with clamav-milter, EICAR' '550 5.7.1' "$(mail 12526 "$work/infected.eml")"
}

exim() {
  has exim4 || return 0
  mkdir -m 777 "$work/exim/scan"
  chmod 777 "$work/exim"
  cat >"$work/exim.conf" <<END
spool_directory = $work/exim
log_file_path = $work/exim/%slog
primary_hostname = mail.example.org
daemon_smtp_ports = 12527
local_interfaces = 127.0.0.1
av_scanner = clamd:$socket
acl_smtp_rcpt = accept
acl_smtp_data = check
begin acl
check:
  deny malware = *
       message = malware (\$malware_name)
  accept
begin routers
drop:
  driver = redirect
  data = :blackhole:
END
  start exim exim4 -C "$work/exim.conf" -bdf
  open 12527
  expect 'Exim, clean' '< 250' "$(mail 12527 "$work/clean.eml")"
  expect 'Exim, EICAR' '550 malware' "$(mail 12527 "$work/infected.eml")"
}

amavis() {
  has amavisd || return 0
  mkdir "$work/amavis-conf" "$work/amavis/tmp" "$work/amavis/db"
  chown -R amavis:amavis "$work/amavis"
  chmod 755 "$work/amavis"
  cat >"$work/amavis-conf/amavisd.conf" <<END
use strict;
\$max_servers = 1; \$daemon_user = 'amavis'; \$daemon_group = 'amavis'; \$mydomain = 'example.org'; \$myhostname = 'mail.example.org';
\$MYHOME = '$work/amavis'; \$TEMPBASE = "\$MYHOME/tmp"; \$db_home = "\$MYHOME/db"; \$pid_file = "\$MYHOME/pid"; \$lock_file = "\$MYHOME/lock";
\$QUARANTINEDIR = undef; \$virus_quarantine_to = undef; \$enable_db = 0; \$do_syslog = 0; \$logfile = "\$MYHOME/log";
\$inet_socket_port = 12025; \$inet_socket_bind = '127.0.0.1'; @inet_acl = qw(127.0.0.1);
\$forward_method = 'smtp:[127.0.0.1]:12999'; \$notify_method = undef; \$final_virus_destiny = D_REJECT;
@bypass_spam_checks_maps = (1); @decoders = (); @av_scanners_backup = ();
@av_scanners = (['ClamAV-clamd', \\&ask_daemon, ["CONTSCAN {}\\n", '$socket'], qr/\\bOK\$/m, qr/\\bFOUND\$/m, qr/^.*?: (?!Infected Archive)(.*) FOUND\$/m]);
1;
END
  start amavis amavisd -c "$work/amavis-conf/amavisd.conf" foreground
  open 12025
  # Nobody takes what is clean: that it is handed on shows that it was.
  expect 'amavisd-new, clean' '451 4.5.0' "$(mail 12025 "$work/clean.eml")"
  expect 'amavisd-new, EICAR' '554 5.7.0 Reject.*INFECTED' "$(mail 12025 "$work/infected.eml")"
}

samba() {
  has smbd smbclient && [ -e /usr/lib/*/samba/vfs/virusfilter.so ] || return 0
  cp "$work/clean" "$work/infected" "$work/share"
  chmod 644 "$work"/share/*
  mkdir "$work/smb"
  cat >"$work/smb.conf" <<END
[global]
map to guest = Bad User
smb ports = 10446
interfaces = lo
bind interfaces only = yes
private dir = $work/smb
pid directory = $work/smb
state directory = $work/smb
cache directory = $work/smb
lock directory = $work/smb
ncalrpc dir = $work/smb/rpc
log file = $work/smb/log
load printers = no
disable spoolss = yes
[share]
path = $work/share
guest ok = yes
vfs objects = virusfilter
virusfilter:scanner = clamav
virusfilter:socket path = $socket
virusfilter:scan on open = yes
END
  start smbd setsid smbd -F --no-process-group -s "$work/smb.conf"
  open 10446
  for name in clean infected; do
    said=$(cd "$work/smb" && smbclient //127.0.0.1/share -p 10446 -N -s "$work/smb.conf" -c "get $name" 2>&1 || true)
    case $name in
      clean) expect 'Samba, clean' 'getting file' "$said" ;;
      *) expect 'Samba, EICAR' ACCESS_DENIED "$said" ;;
    esac
  done
}

contents
serve
for part in ${*:-programs rspamd_both postfix_milter exim amavis samba}; do $part; done
exit $failed
