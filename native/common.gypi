# SPDX-License-Identifier: GPL-2.0-only
# How every binary of native/ is compiled: one Node-API 8 library that loads in every supported Node, linked against the system's libclamav.
{
  "target_defaults": {
    "include_dirs": [
      "<!(node -p \"require('node-addon-api').include_dir\")",
      "<!(node -p \"require('node-api-headers').include_dir\")"
    ],
    "defines": [
      "NAPI_VERSION=8",
      "NAPI_CPP_EXCEPTIONS",
      "NODE_ADDON_API_CPP_EXCEPTIONS_ALL",
      # A thread that is terminated during a scan takes no answer and no exception: neither may end the process.
      "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"
    ],
    "cflags_cc!": ["-fno-exceptions", "-std=gnu++17", "-std=gnu++20", "-fno-rtti"],
    "cflags_cc": [
      "-std=c++20",
      "-fexceptions",
      "-Wall",
      "-Wextra",
      # A unit (units.sh) includes files whose types of their own have no name outside.
      "-Wno-subobject-linkage",
      "<!@(pkg-config --cflags libclamav 2>/dev/null || true)"
    ],
    "libraries": [
      "<!@(pkg-config --libs libclamav 2>/dev/null || echo -lclamav)",
      "-lz", "-lbz2", "-llzma", "-lzstd", "-llz4"
    ],
    # A worker that ends may unload its addons; a loading thread still runs in this one.
    "ldflags": ["-Wl,-z,nodelete"]
  }
}
