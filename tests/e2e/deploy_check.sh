#!/usr/bin/env bash
# Checks every file under deploy/ with the tools that read its kind, and every
# command in it with the program that it starts. Needs no cluster and no
# container engine.
#
#   deploy_check.sh SOURCE_DIR [BIN_DIR]    default: SOURCE_DIR/build/release/bin
set -euo pipefail
deploy=$1/deploy
bin=${2:-$1/build/release/bin}
model=$bin/../models/tiny-llama-Q8_0.gguf
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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

# Every process that deploy/ starts, one a line: name, seconds from SIGTERM to
# SIGKILL, command. Programs are those of $bin, configuration files those of
# etc-baton, the model is one that exists.
deployed_processes() {
  mkdir -p "$work/etc"
  for file in "$deploy"/systemd/etc-baton/*.yaml; do
    sed "s|^\( *model:\).*|\1 $model|" "$file" >"$work/etc/${file##*/}"
  done
  compose config | python3 -c '
import configparser, pathlib, sys, yaml
deploy, etc, bin, model = sys.argv[1:]
lines = []

def show(name, limit, command):
    program, *flags = command
    words = [name, limit, bin + "/" + pathlib.Path(program).name]
    for flag in flags:
        flag = flag.replace("/etc/baton", etc).replace("%C", "/var/cache")
        words.append("--model=" + model if flag.startswith("--model=") else flag)
    assert not any(any(c.isspace() for c in word) for word in words), words
    lines.append(" ".join(words))

for name, service in yaml.safe_load(sys.stdin)["services"].items():
    if "build" in service:
        show("compose:" + name, service["stop_grace_period"], service["command"])
for path in sorted(pathlib.Path(deploy, "systemd").glob("*.service")):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(path)
    service = unit["Service"]
    start = service["ExecStart"].split()
    before = service["ExecStartPre"].split()
    assert before == [start[0], "--check-config"] + start[1:], (path.name, before)
    show(path.name, service["TimeoutStopSec"], start)
print(*lines, sep="\n")
' "$deploy" "$work/etc" "$bin" "$model"
}

# The program takes the command, and its drain, with what it needs after that,
# is over before SIGKILL.
process_can_run() { # limit command...
  local limit=$1 drain
  shift
  env -i "$@" --check-config || return 1
  drain=$(env -i "$@" --print-config |
    sed -n 's/^drain-timeout = \([^ ]*\) .*/\1/p')
  [[ $limit =~ ^[0-9]+s$ && $drain =~ ^[0-9]+s$ ]] ||
    { echo "must be in seconds: drain '$drain', stop limit '$limit'"; return 1; }
  [ $((${drain%s} + 10)) -le "${limit%s}" ] ||
    { echo "a drain of $drain and 10 s after it exceed $limit"; return 1; }
}

# Shows that a forgotten --insecure would have been found above.
needs_insecure() { # command...
  local word without=() status=0
  for word in "$@"; do
    [ "$word" = --insecure ] || without+=("$word")
  done
  env -i "${without[@]}" --check-config || status=$?
  [ "$status" -eq 78 ] || { echo "exit code $status, not 78"; return 1; }
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
if deployed_processes >"$work/processes" 2>/dev/null; then
  while read -ra process; do
    check "${process[0]} can run" process_can_run "${process[@]:1}"
    [[ ${process[0]} != compose:* ]] ||
      check "${process[0]} needs --insecure" needs_insecure "${process[@]:2}"
  done <"$work/processes"
else
  check "commands of compose.yaml and of the units" deployed_processes
fi
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
