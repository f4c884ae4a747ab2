# SPDX-License-Identifier: GPL-2.0-only
# The addon of the tests, never shipped: all of the shipped one, and content that makes it fail (`node build.mjs --test`).
{
  "includes": ["../common.gypi"],
  "targets": [
    {
      "target_name": "sluice-faults",
      "ldflags": [
        "-Wl,--wrap=malloc,--wrap=calloc,--wrap=free,--wrap=mmap64,--wrap=pwrite64,--wrap=fdatasync",
        # As they are in the shipped one, which is built before it: compiling them takes most of a minute of a core.
        "<!@(find $PWD/../build/Release/obj.target/sluice -name '*.o' -not -name entry.o)"
      ],
      "sources": [
        "entry.cc",
        "fault.cc",
        "memory.cc",
        "probe.cc"
      ]
    }
  ]
}
