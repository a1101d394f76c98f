#!/usr/bin/env bash
# ./dev check: what `./dev test` does not do.
#   layering · clang's thread-safety analysis · TSan on core · ASan and UBSan ·
#   fuzz corpora and a short fuzzing run · another instruction set through the
#   byte gate
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=${BATON_JOBS:-$(nproc)}

step() { printf '\n== %s\n' "$*"; }
progress() { # says that a long command still works
  local start=$SECONDS status=0
  (while sleep 9; do echo "  … $((SECONDS - start)) s"; done) &
  local beat=$!
  "$@" || status=$?
  kill "$beat" 2>/dev/null || true
  wait "$beat" 2>/dev/null || true
  return "$status"
}
configure() { # preset flags…
  progress cmake --preset "$@" >/dev/null
}
run_tests() { # preset label-regex [ctest flags]
  local preset=$1 label=$2
  shift 2
  progress ctest --test-dir "build/$preset" -L "$label" --output-on-failure \
    --no-tests=error "$@"
}

step "layering"
python3 tests/layering/check_layering.py .

step "thread-safety analysis and fuzzing (clang)"
configure clang-tsa -DBATON_FUZZ=ON
progress ninja -C build/clang-tsa -j "$jobs" baton_core baton_fuzzers
for fuzzer in build/clang-tsa/bin/*_fuzz; do
  name=$(basename "$fuzzer")
  corpus=$(mktemp -d)
  echo "-- $name"
  progress "$fuzzer" -max_total_time=20 -rss_limit_mb=2048 -timeout=10 \
    -print_final_stats=0 -verbosity=0 "$corpus" "tests/fuzz/corpus/${name%_fuzz}"
  rm -rf "$corpus"
done

step "ThreadSanitizer on core"
configure tsan-core
progress ninja -C build/tsan-core -j "$jobs" baton_core_tests
run_tests tsan-core core

step "AddressSanitizer and UndefinedBehaviorSanitizer"
configure asan-ubsan
progress ninja -C build/asan-ubsan -j "$jobs" baton_sanitized_tests
run_tests asan-ubsan sanitized

step "another instruction set through the byte gate"
configure variant
progress ninja -C build/variant -j "$jobs" baton_variant_tests
run_tests variant variant

echo
echo "check: ok"
