#!/usr/bin/env bash
# ./dev soak [HOURS]: the end-to-end gates again and again, 2 hours by default.
# Stops at the first failure and keeps that run's output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
hours=${1:-2}
bin=build/release/bin
end=$((SECONDS + hours * 3600))
log=$(mktemp)
round=0
while [ "$SECONDS" -lt "$end" ]; do
  round=$((round + 1))
  for test in byte_gate_test failure_test soak_requests_test; do
    echo "round $round, $((SECONDS / 60)) min: $test"
    if ! "$bin/$test" >"$log" 2>&1; then
      cat "$log"
      echo "soak: $test failed in round $round (output: $log)"
      exit 1
    fi
    grep -E "tokens compared|resident" "$log" || true
  done
done
rm -f "$log"
echo "soak: ok, $round rounds"
