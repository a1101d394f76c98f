#!/usr/bin/env bash
# ./dev check [STEP…]: what `./dev test` does not do; by default all of:
#   layering   includes against the layer table
#   clang      thread-safety analysis of core code; a short run of each fuzzer
#   tsan       ThreadSanitizer on core
#   variant    another instruction set through the byte gate and golden logits
#   asan       AddressSanitizer and UndefinedBehaviorSanitizer
#   mutation   the engine's tests notice every way of breaking verification
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=${BATON_JOBS:-$(nproc)}

# shellcheck source=cmake/heartbeat.sh
source cmake/heartbeat.sh
# shellcheck source=cmake/configure.sh
source cmake/configure.sh

build() { # preset "targets" [cmake flags]
  local preset=$1 targets=()
  read -ra targets <<<"$2"
  shift 2
  configure "$preset" "$@"
  with_heartbeat "building $preset" \
    ninja -C "build/$preset" -j "$jobs" "${targets[@]}"
}
run_tests() { # preset label
  with_heartbeat "testing $1" ctest --test-dir "build/$1" -L "$2" \
    --output-on-failure --no-tests=error
}

check_layering() { python3 tests/layering/check_layering.py .; }

check_clang() {
  build clang-tsa "baton_core baton_fuzzers" -DBATON_FUZZ=ON
  local fuzzer name corpus
  for fuzzer in build/clang-tsa/bin/*_fuzz; do
    name=$(basename "$fuzzer")
    corpus=$(mktemp -d)
    echo "-- $name"
    with_heartbeat "$name" "$fuzzer" -max_total_time=20 \
      -rss_limit_mb=2048 -timeout=10 -verbosity=0 \
      "$corpus" "tests/fuzz/corpus/${name%_fuzz}"
    rm -rf "$corpus"
  done
}

check_tsan() {
  build tsan-core baton_core_tests
  TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp" run_tests tsan-core core
}

check_variant() {
  build variant baton_variant_tests
  run_tests variant variant
}

check_asan() {
  build asan-ubsan baton_sanitized_tests
  run_tests asan-ubsan sanitized
}

check_mutation() { tests/mutation/run.sh; }

steps=("$@")
[ $# -gt 0 ] || steps=(layering clang tsan variant asan mutation)
for step in "${steps[@]}"; do
  printf '\n== %s\n' "$step"
  "check_$step"
done
echo
echo "check: ok (${steps[*]})"
