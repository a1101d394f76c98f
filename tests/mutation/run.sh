#!/usr/bin/env bash
# Breaks the verification of drafts on purpose, one patch at a time, in a copy
# of the tree, and demands that the engine's tests notice each. Called by
# ./dev check mutation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/heartbeat.sh
source cmake/heartbeat.sh
tree=$PWD/build/mutation/tree
build=$PWD/build/mutation/build
jobs=${BATON_JOBS:-$(nproc)}

# What git knows of, as it lies here.
rm -rf "$tree"
mkdir -p "$tree"
git ls-files -co --exclude-standard -z |
  tar --null --files-from=- --create | tar --extract --directory "$tree"
run_tests() { ctest --test-dir "$build" -R '^worker_engine_tests$' --no-tests=error; }

[ -f "$build/build.ninja" ] || with_heartbeat "configuring the copy" quietly \
  cmake -S "$tree" -B "$build" --preset release
compile() {
  with_heartbeat "building the copy" ninja -C "$build" -j "$jobs" worker_engine_tests
}
compile
run_tests >"$build/plain.log" 2>&1 || {
  cat "$build/plain.log"
  echo "the tests fail without any mutation" >&2
  exit 1
}
for mutation in tests/mutation/*.patch; do
  name=$(basename "$mutation" .patch)
  patch -s -d "$tree" -p1 <"$mutation"
  compile
  if run_tests >"$build/$name.log" 2>&1; then
    echo "mutation $name: not noticed by any test" >&2
    exit 1
  fi
  grep -q "Failed\|SEGFAULT\|Timeout\|Exception" "$build/$name.log"
  echo "mutation $name: noticed"
  patch -s -R -d "$tree" -p1 <"$mutation"
done
