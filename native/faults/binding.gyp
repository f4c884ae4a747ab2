# SPDX-License-Identifier: GPL-2.0-only
# The addon of the tests, never shipped: all of the shipped one, and content that makes it fail (`node build.mjs --test`).
{
  "includes": ["../common.gypi"],
  "targets": [
    {
      "target_name": "sluice-faults",
      "ldflags": ["-Wl,--wrap=malloc,--wrap=calloc,--wrap=free,--wrap=mmap64"],
      "sources": [
        "entry.cc",
        "fault.cc",
        "memory.cc",
        "probe.cc",
        "../addon.cc",
        "../scanner.cc",
        "../loader.cc",
        "../engine.cc",
        "../engine-set.cc",
        "../gates.cc",
        "../literals.cc",
        "../overlap.cc",
        "../patterns.cc",
        "../stretches.cc",
        "../maps.cc",
        "../matcher.cc",
        "../window-counts.cc",
        "../progress.cc",
        "../clamav-load.cc",
        "../clamav.cc",
        "../content-types.cc",
        "../listener.cc",
        "../states.cc",
        "../storage.cc",
        "../quota.cc",
        "../files.cc",
        "../held.cc",
        "../streams.cc",
        "../zip.cc",
        "../ar.cc",
        "../foreign.cc",
        "../rpm.cc",
        "../tar.cc",
        "../seven-zip.cc",
        "../layers.cc",
        "../tables.cc",
        "../digests.cc",
        "../expressions.cc",
        "../regexes.cc",
        "../allocations.cc",
        "../exit-gate.cc",
        "../sandbox.cc",
        "../landlock.cc",
        "../seccomp.cc"
      ]
    }
  ]
}
