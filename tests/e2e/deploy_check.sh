#!/usr/bin/env bash
# Checks every file under deploy/ with the tools that read its kind. Needs no
# cluster and no container engine. Usage: deploy_check.sh SOURCE_DIR
set -euo pipefail
deploy=$1/deploy
failures=0

check() { # title command...
  local title=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "ok    $title"
  else
    echo "FAIL  $title"
    printf '      %s\n' "${output//$'\n'/$'\n'      }"
    failures=$((failures + 1))
  fi
}

compose() { # arguments...
  BATON_MODEL=model.gguf BATON_MODEL_DIR=/models \
    docker-compose -f "$deploy/compose.yaml" "$@"
}

# No container engine can say it here: each service runs unprivileged.
compose_is_hardened() {
  compose --profile monitoring config | python3 -c '
import sys, yaml
services = yaml.safe_load(sys.stdin)["services"]
assert {"gateway", "prefill", "decode", "kvstore", "prometheus", "grafana"} <= set(services), services.keys()
for name, service in services.items():
    assert service["cap_drop"] == ["ALL"], name
    assert service["security_opt"] == ["no-new-privileges:true"], name
    for port in service.get("ports", []):
        text = port if isinstance(port, str) else str(port)
        assert text.startswith("127.0.0.1:"), (name, port)
    if name in ("gateway", "prefill", "decode", "kvstore"):
        assert service["user"] == "65532:65532", name
        assert service["read_only"] is True, name
        assert service["healthcheck"]["test"], name
        assert service["stop_grace_period"], name
'
}

# A unit as systemd sees it, apart from programs that are not installed.
unit_is_valid() { # file
  local output
  output=$(systemd-analyze verify "$1" 2>&1 |
    grep -v 'is not executable: No such file or directory' || true)
  [ -z "$output" ] || { echo "$output"; return 1; }
}

dashboard_is_complete() {
  jq -e '.uid == "baton"
    and ([.. | .expr? // empty] | length > 30)
    and ([.panels[].id] | length == (unique | length))' \
    "$deploy/grafana/dashboards/baton.json"
}

mapfile -t yaml < <(find "$deploy" -name '*.yaml' -o -name '*.yml' | sort)
check "yamllint" yamllint -s -d \
  '{extends: relaxed, rules: {line-length: {max: 100}}}' "${yaml[@]}"
check "compose.yaml" compose config -q
check "compose.yaml, monitoring" compose --profile monitoring config -q
check "compose services are hardened" compose_is_hardened
check "prometheus.yml" promtool check config "$deploy/prometheus/prometheus.yml"
check "alerts.yml" promtool check rules "$deploy/prometheus/alerts.yml"
check "alerts_test.yml" promtool test rules "$deploy/prometheus/alerts_test.yml"
check "dashboard" dashboard_is_complete
check "dashboard expressions" python3 \
  "$(dirname "${BASH_SOURCE[0]}")/dashboard_metrics.py" \
  --deploy "$deploy" --check-expressions
# Only a machine with systemd has its checker.
if command -v systemd-analyze >/dev/null; then
  for unit in "$deploy"/systemd/*.service; do
    check "$(basename "$unit")" unit_is_valid "$unit"
  done
fi
[ "$failures" -eq 0 ] || { echo "$failures checks failed"; exit 1; }
