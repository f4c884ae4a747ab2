#!/bin/sh
# Builds the image where neither docker nor a registry of images is to be had: the Dockerfile with buildah, on a base of debootstrap and npm's Node.
#
#   sh deploy/build-image.sh          as root; needs buildah, debootstrap and npm
#
# RELEASE (trixie) and NODE_VERSION (22) choose the base, FOLDER (/var/tmp/sluice-image) has everything: the base, buildah's storage, and
# sluice.tar, which `docker load` and `podman load` take. BASE names another base; then nothing is bootstrapped.
set -eu

release=${RELEASE:-trixie}
node_version=${NODE_VERSION:-22}
folder=${FOLDER:-/var/tmp/sluice-image}
project=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
base=${BASE:-}

# vfs and chroot need nothing of the kernel that a container or a small virtual machine may lack.
storage() { buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver vfs "$@"; }

# What the base of the registry has as well: a Debian without anything, Node with its headers, and npm.
bootstrap() {
  root=$folder/root-$release
  if [ ! -e "$root/.complete" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=ca-certificates "$release" "$root"
    rm -rf "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/var/log/*.log
    touch "$root/.complete"
  fi
  case $(uname -m) in
    x86_64) arch=x64 ;;
    aarch64) arch=arm64 ;;
    *) echo "There is no Sluice for $(uname -m)" >&2 && exit 1 ;;
  esac
  packages=$folder/packages
  rm -rf "$packages" && mkdir -p "$packages/node" "$packages/npm"
  (cd "$packages" && npm pack --silent "node-linux-$arch@$node_version" npm@10 >/dev/null)
  tar -xzf "$packages"/node-linux-*.tgz -C "$packages/node" --strip-components=1
  tar -xzf "$packages"/npm-*.tgz -C "$packages/npm" --strip-components=1

  container=$(storage from scratch)
  storage add --quiet "$container" "$root" / >/dev/null
  storage copy --quiet "$container" "$packages/node/bin/node" /usr/local/bin/node >/dev/null
  storage copy --quiet "$container" "$packages/node/include" /usr/local/include >/dev/null
  storage copy --quiet "$container" "$packages/npm" /usr/local/lib/node_modules/npm >/dev/null
  storage run --isolation chroot "$container" -- sh -c '
    ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
    ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
    rm -f /.complete'
  storage config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd node "$container"
  storage commit --quiet --rm "$container" "$base" >/dev/null
}

mkdir -p "$folder"
if [ -z "$base" ]; then
  base=localhost/sluice-base:$release-node$node_version
  echo "Making $base in $folder"
  bootstrap
fi

# Certificates that this machine trusts are lent to the build, for a network that looks into TLS. They are not in the image.
certificates=/etc/ssl/certs/ca-certificates.crt
printf 'cafile=%s\n' "$certificates" >"$folder/npmrc"

# `docker build --build-arg BASE=... -t sluice .` in buildah's words. The format is docker's because the other one has no HEALTHCHECK.
storage build --isolation chroot --format docker --build-arg "BASE=$base" \
  --volume "$certificates:$certificates:ro" --volume "$folder/npmrc:/root/.npmrc:ro" \
  -t sluice "$project"

rm -f "$folder/sluice.tar"
storage push --quiet sluice "docker-archive:$folder/sluice.tar:sluice:latest"
storage images
