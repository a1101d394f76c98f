#!/usr/bin/env bash
# Starts a cluster on the demo model, then: openai and grpcio from PyPI
# (tests/e2e/real_clients.py), promtool on every process's /metrics, and the
# dashboard's and alerts' metrics against the live ones.
#
#   real_clients.sh BIN_DIR MODEL VENV_DIR
set -euo pipefail
bin=$1 model=$2 venv=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! cmp -s "$here/requirements.txt" "$venv/requirements.done"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check \
    -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/requirements.done"
fi
work=$(mktemp -d)
"$bin/baton" up --model "$model" --http 127.0.0.1:0 --grpc 127.0.0.1:0 \
  --state-file "$work/state.json" --log-dir "$work" >"$work/up.log" 2>&1 &
up=$!
finish() {
  kill "$up" 2>/dev/null || true
  wait "$up" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
http=""
for _ in $(seq 300); do
  http=$(jq -r '.gateway.http // empty' "$work/state.json" 2>/dev/null || true)
  if [ -n "$http" ] && curl -fs -o /dev/null "http://$http/readyz"; then
    break
  fi
  kill -0 "$up" || { cat "$work"/*.log; exit 1; }
  sleep 0.2
done
grpc=$(jq -r .gateway.grpc "$work/state.json")
"$venv/bin/python" "$here/real_clients.py" "$http" "$grpc" ||
  { tail -n 20 "$work"/*.log; exit 1; }

mapfile -t listeners < <(jq -r '[.gateway.http, .kvstore.http,
  .workers[].http] | .[]' "$work/state.json")
for listener in "${listeners[@]}"; do
  curl -fs "http://$listener/metrics" >"$work/${listener##*:}.metrics"
  promtool check metrics <"$work/${listener##*:}.metrics"
done
python3 "$here/dashboard_metrics.py" --deploy "$here/../../deploy" \
  "${listeners[@]/#/http://}"
echo "real clients: ok"
