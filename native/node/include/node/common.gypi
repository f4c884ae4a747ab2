# SPDX-License-Identifier: GPL-2.0-only
# What node-gyp reads from Node's headers, for addons that know nothing of Node but Node-API: those headers are a package
# (node-api-headers), so that nothing is downloaded, and the binaries are the same whichever Node compiles them.
{
  "variables": {
    "node_engine%": "v8"
  },
  "target_defaults": {
    "default_configuration": "Release",
    "configurations": {
      "Release": { "cflags": ["-O3", "-fno-omit-frame-pointer"] }
    },
    "cflags": ["-pthread"],
    "ldflags": ["-pthread"]
  }
}
