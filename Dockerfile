# Builds with the same build.mjs as everywhere else; what only builds stays in the first stage.
#
#   docker build -t sluice .
#   docker run --init --read-only --tmpfs /tmp --shm-size=1g -p 8080:8080 -v sluice-data:/data sluice
#
# --shm-size: the engine unpacks into /dev/shm, of which Docker gives 64 MB; with less than 256 MB free it uses the slower disk.
# Signatures: `docker exec ID sluice signatures update` fetches ClamAV's into /data, or mount a folder that freshclam fills at
# /var/lib/clamav (read-only will do, with SIGNATURES_UPDATE=off); without either the few that ship are used.
# docs/deploy.md has the rest.
# BASE: a Debian 12 or 13 with Node and npm. `sh deploy/build-image.sh` makes one, and the image, where no registry can be reached.
ARG BASE=node:22-trixie-slim
FROM ${BASE} AS build
WORKDIR /sluice
COPY . .
# The HTTP library brings a binary for each system and each version of Node, 130 MB of them.
RUN node build.mjs \
  && npm prune --omit=dev --ignore-scripts --no-audit --no-fund \
  && find node_modules -name 'uws_*.node' \
    ! -name "uws_linux_$(node -p 'process.arch + "_" + process.versions.modules').node" -delete \
  && chmod 755 dist/src/main.js \
  && rm -f dist/.tsbuildinfo

FROM ${BASE}
# The libraries that the first stage built with. Of freshclam's package the program alone, for
# `sluice signatures update`: with its daemon come cron, logrotate and systemd, 25 MB. All that it links comes with the library.
RUN apt-get update -q \
  && apt-get install -q -y --no-install-recommends libclamav12 liblzma5 libzstd1 liblz4-1 ca-certificates \
  && cd /tmp \
  && apt-get download -q clamav-freshclam \
  && dpkg -x clamav-freshclam_*.deb freshclam \
  && install freshclam/usr/bin/freshclam /usr/bin/ \
  && rm -rf /tmp/* /var/lib/apt/lists/* \
  && useradd --system --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin sluice \
  && install -d -o sluice -g sluice -m 700 /data \
  && ln -s /sluice/dist/src/main.js /usr/local/bin/sluice
WORKDIR /sluice
COPY --from=build /sluice/package.json /sluice/LICENSE ./
COPY --from=build /sluice/node_modules node_modules
COPY --from=build /sluice/native/LICENSE native/LICENSE
COPY --from=build /sluice/native/build/Release/sluice.node native/build/Release/sluice.node
COPY --from=build /sluice/native/build/Release/sockets.node native/build/Release/sockets.node
COPY --from=build /sluice/native/build/Release/process.node native/build/Release/process.node
COPY --from=build /sluice/signatures signatures
COPY --from=build /sluice/src/store/migrations src/store/migrations
COPY --from=build /sluice/dist dist
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080 DATA_DIR=/data
USER sluice
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/livez`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/src/main.js", "serve"]
