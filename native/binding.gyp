# SPDX-License-Identifier: GPL-2.0-only
# The addon that is shipped.
{
  "includes": ["common.gypi"],
  "targets": [
    {
      "target_name": "sluice",
      "variables": {
        "parts": [
          "engine.cc",
          "engine-set.cc",
          "gates.cc",
          "literals.cc",
          "overlap.cc",
          "patterns.cc",
          "places.cc",
          "stretches.cc",
          "maps.cc",
          "pages.cc",
          "matcher.cc",
          "window-counts.cc",
          "progress.cc",
          "ciphers.cc",
          "clamav-load.cc",
          "clamav.cc",
          "content-types.cc",
          "listener.cc",
          "states.cc",
          "storage.cc",
          "quota.cc",
          "files.cc",
          "first-pairs.cc",
          "held.cc",
          "streams.cc",
          "output.cc",
          "members.cc",
          "zip.cc",
          "archives.cc",
          "cms.cc",
          "foreign.cc",
          "dmg.cc",
          "base64.cc",
          "heads.cc",
          "pieces.cc",
          "spelled.cc",
          "bundles.cc",
          "rtf.cc",
          "openpgp.cc",
          "encoded.cc",
          "entities.cc",
          "marks.cc",
          "pdf.cc",
          "pdf-encryption.cc",
          "pdf-filters.cc",
          "pdf-lexer.cc",
          "pdf-objects.cc",
          "pdf-scripts.cc",
          "compound.cc",
          "macros.cc",
          "office-encryption.cc",
          "listed.cc",
          "seven-zip.cc",
          "tnef.cc",
          "volumes.cc",
          "layers.cc",
          "layers-compound.cc",
          "layers-disks.cc",
          "layers-marked.cc",
          "layers-bundles.cc",
          "layers-spelled.cc",
          "tables.cc",
          "digests.cc",
          "expressions.cc",
          "regexes.cc",
          "allocations.cc",
          "freed-memory.cc",
          "exit-gate.cc",
          "sandbox.cc",
          "landlock.cc",
          "seccomp.cc"
        ]
      },
      "sources": [
        "entry.cc",
        # The border to JavaScript is apart: programs of the tests have all else without Node.
        "<!@(sh units.sh border 1 addon.cc scanner.cc loader.cc)",
        "<!@(sh units.sh units 8 <@(parts))"
      ]
    },
    {
      # Sockets; needs nothing of libclamav, so that it loads where that is missing.
      "target_name": "sockets",
      "sources": ["sockets.cc", "connections.cc", "sweeps.cc"],
      "libraries/": [["exclude", "."]]
    },
    {
      # What a process gives up, and how its threads call each other; likewise.
      "target_name": "process",
      "sources": ["process.cc", "freed-memory.cc", "bell.cc", "peers.cc"],
      "libraries/": [["exclude", "."]]
    }
  ]
}
