#!/bin/sh
# Runs the native layer under sanitizers: `sh test/sanitize/run.sh [swap|fuzz|parsers|node|memory]...` (default: all), after `node build.mjs --test`.
# Needs Debian's clang, libclang-rt-14-dev and g++. SECONDS_EACH (default 60) is how long swaps and each target of the fuzzer run.
#
#   swap  engines loaded, served, discarded and freed under running scans: AddressSanitizer with LeakSanitizer and
#         UndefinedBehaviorSanitizer, then ThreadSanitizer
#   fuzz  the libFuzzer target of whole scans, with AddressSanitizer and UndefinedBehaviorSanitizer
#   parsers  a libFuzzer target for each of our own parsers, likewise; PARSERS names those that are wanted (default: all). An input that takes longer
#         than its length explains is a finding, too
#   memory  scans in which an allocation fails (every STEP-th of the first 5,000, default 1), or that and those behind it: never
#         clean for what is infected
#   node  the native tests in Node with an addon that is built with AddressSanitizer; leaks are not looked for there, since
#         Node itself keeps memory at its end
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
seconds=${SECONDS_EACH:-60}
[ $# -gt 0 ] || set -- swap fuzz parsers node memory

# All sources of the addon but its border to JavaScript.
engine=$(sed -n '/"target_name": "sluice"/,/\]/s/.*"\(.*\.cc\)".*/native\/\1/p' native/binding.gyp |
  grep -vE '/(sandbox|landlock|seccomp)[.]cc$' | tr '\n' ' ')
sandbox='native/sandbox.cc native/landlock.cc native/seccomp.cc'
flags="-std=c++20 -g -O1 -fno-omit-frame-pointer $(pkg-config --cflags libclamav)"
libraries="$(pkg-config --libs libclamav) -lz -lbz2 -llzma -lzstd -llz4 -pthread -ldl"
# Our own bounds are what is looked at: a scan may take what it likes.
ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
TSAN_OPTIONS=halt_on_error=1:suppressions=$root/test/sanitize/thread.supp
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

need_clang() {
  if ! printf 'int main() { return 0; }' | clang++ -x c++ -fsanitize=address,undefined - -o "$work/tried" >"$work/tried.log" 2>&1; then
    cat "$work/tried.log"
    echo 'This part needs clang with its sanitizers, on Debian: apt-get install clang libclang-rt-dev. The parts node and memory need g++ alone.' >&2
    exit 3
  fi
}

swap() {
  need_clang
  for kind in address,undefined thread; do
    echo "== swap, -fsanitize=$kind"
    clang++ $flags -fsanitize=$kind test/sanitize/swap.cc $engine $sandbox $libraries -o "$work/swap"
    "$work/swap" "$seconds" "$work/swap-files" "$root/signatures/marks"
    rm -rf "$work/swap-files"
  done
}

fuzz() {
  need_clang
  echo '== fuzz'
  clang++ $flags -fsanitize=fuzzer,address,undefined "-DMARKS=\"$root/signatures/marks\"" \
    test/sanitize/fuzz.cc $engine $libraries -o "$work/fuzz"
  # What was found before comes first; what is new stays in FUZZ_CORPUS, if that is set.
  corpus=${FUZZ_CORPUS:-$work/corpus}
  mkdir -p "$corpus"
  # 4 KB reach the depths of our code; libclamav's are not instrumented, and fuzzed elsewhere.
  "$work/fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$root/" "$corpus" test/sanitize/seeds
}

parsers() {
  need_clang
  echo '== parsers'
  clang++ $flags -fsanitize=fuzzer,address,undefined test/sanitize/parsers.cc $engine $libraries -o "$work/parsers"
  for parser in ${PARSERS:-$(PARSER='' "$work/parsers" || true)}; do
    echo "= $parser"
    corpus=${FUZZ_CORPUS:-$work/corpus}/$parser
    mkdir -p "$corpus"
    # Compound files of large sectors have five of them at least.
    PARSER=$parser "$work/parsers" -max_total_time="$seconds" -max_len=24576 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="$root/$parser-" "$corpus" test/sanitize/seeds >"$work/parser.log" 2>&1 || { tail -60 "$work/parser.log"; exit 1; }
    grep -aE 'DONE|number_of_executed_units' "$work/parser.log"
  done
}

memory() {
  echo '== memory'
  # Without a sanitizer, which has an allocator of its own.
  c++ $flags test/sanitize/memory.cc $engine $libraries -o "$work/memory"
  files=''
  for name in clam.exe clam.zip clam.exe.mbox.base64 clam.pdf clam.tar.gz clam.cab clam.ole.doc clam.exe.html clam-upx.exe; do
    files="$files /usr/share/clamav-testfiles/$name"
  done
  "$work/memory" "$root/signatures/marks" "$root/signatures" "${STEP:-1}" 5000 $files
  # What goes through libxml2, iconv and folders.
  node dist/test/sanitize/memory-samples.js "$work/made"
  cp signatures/sluice.* "$work/made/databases"
  # One, then some in a row, then all of them from there on.
  for failing in 1 5 1000000; do
    FAILING=$failing "$work/memory" "$root/signatures/marks" "$work/made/databases" "${STEP:-1}" 5000 "$work"/made/samples/*
  done
}

node_tests() {
  echo '== node'
  # A tree beside this one: the addon is found by its place.
  mkdir -p "$work/tree/native"
  cp native/*.cc native/*.h native/*.gyp native/*.gypi native/*.sh "$work/tree/native"
  cp -r native/faults native/node "$work/tree/native"
  rm -rf "$work/tree/native/faults/build"
  cp -r dist signatures package.json .taprc "$work/tree"
  ln -s "$(readlink -f node_modules)" "$work/tree/node_modules"
  for folder in native native/faults; do
    (cd "$work/tree/$folder" &&
      CXXFLAGS='-fsanitize=address,undefined -g -O1 -fno-omit-frame-pointer' LDFLAGS='-fsanitize=address,undefined' \
        npm_config_nodedir="$root/native/node" node "$root/node_modules/node-gyp/bin/node-gyp.js" rebuild >"$work/build.log" 2>&1) ||
      { cat "$work/build.log"; exit 1; }
  done
  cd "$work/tree"
  # lifetime, faults and sandbox end processes on purpose, which AddressSanitizer takes for findings.
  failed=0
  for test in load scan threads storage border peers door; do
    LD_PRELOAD="$(c++ -print-file-name=libasan.so) $(c++ -print-file-name=libubsan.so)" BORDER_RUNS=2000 TAP_TIMEOUT=600 \
      ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
      node "dist/test/native/$test.test.js" >"$work/$test.log" 2>&1 || true
    # AddressSanitizer keeps freed memory for a while, so that the tests of the size of the process cannot hold.
    bad=$(grep -E '^ *not ok ' "$work/$test.log" | grep -vcE '(reloads|scans) grew the process|reloads leave no memory behind|scans leave neither memory nor' || true)
    if [ "$bad" -gt 0 ] || ! grep -q '^1\.\.' "$work/$test.log" || grep -q 'AddressSanitizer\|runtime error:' "$work/$test.log"; then
      cat "$work/$test.log"
      failed=1
    fi
    echo "$test: $(grep -cE '^ +ok ' "$work/$test.log" || true) checks passed"
  done
  cd "$root"
  return $failed
}

for part in "$@"; do
  case $part in
    swap) swap ;;
    fuzz) fuzz ;;
    parsers) parsers ;;
    node) node_tests ;;
    memory) memory ;;
    *) echo "unknown: $part" >&2; exit 2 ;;
  esac
done
echo 'The sanitizers found nothing.'
