#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# units.sh FOLDER COUNT FILE...: makes so many C++ files that include the ones named, about as many lines in each, and prints their names: the
# headers that most of them include are compiled once for each unit then, which halves the processor time of a build.
set -eu

folder=build/$1 units=$2
shift 2
mkdir -p "$folder"
wc -l "$@" | awk -v folder="$folder" -v units="$units" '
  $2 != "total" { names[++files] = $2; lines[files] = $1; all += $1 }
  END {
    for (i = 1; i <= files; i++) {
      unit = int(done * units / all)
      path = folder "/" unit ".cc"
      if (!(unit in begun)) print path
      begun[unit] = 1
      printf "#include \"../../%s\"\n", names[i] >path
      done += lines[i]
    }
  }'
