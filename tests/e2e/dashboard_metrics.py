#!/usr/bin/env python3
"""Checks that what the dashboard and the alerts ask for exists.

  dashboard_metrics.py --deploy DIR [--check-expressions] [SOURCE...]

SOURCE: the address of a process's metrics (http://host:port or
http://host:port/metrics) or a file with an exposition. With sources, every
metric that deploy/'s dashboard and alerts use must be in one of them, with
every label that the expression selects or groups by. With
--check-expressions, promtool parses every expression of the dashboard.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

METRIC = re.compile(r"\b((?:baton|process)_[a-z0-9_]+)\b(\{[^}]*\})?")
LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)")
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+\S+")
# Added by Prometheus or by the scrape configuration.
SCRAPE_LABELS = {"instance", "job", "role"}


def dashboard_expressions(deploy):
    expressions = {}

    def walk(node, title):
        if isinstance(node, dict):
            title = node.get("title", title)
            if "expr" in node:
                expressions.setdefault(f"panel \"{title}\"", []).append(
                    node["expr"])
            for value in node.values():
                walk(value, title)
        elif isinstance(node, list):
            for value in node:
                walk(value, title)

    for path in sorted((deploy / "grafana" / "dashboards").glob("*.json")):
        walk(json.loads(path.read_text())["panels"], path.name)
    return expressions


def alert_expressions(deploy):
    import yaml

    rules = yaml.safe_load((deploy / "prometheus" / "alerts.yml").read_text())
    return {
        f"alert {rule['alert']}": [rule["expr"]]
        for group in rules["groups"] for rule in group["rules"]
    }


def check_expressions(expressions):
    """promtool is the parser; Grafana's variables are filled in first."""
    import yaml

    rules = []
    for place, texts in expressions.items():
        for text in texts:
            text = text.replace("$__rate_interval", "5m")
            text = re.sub(r"\$\w+", ".*", text)
            rules.append({
                "record": f"check:rule{len(rules)}",
                "expr": text,
                "labels": {"place": place},
            })
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        yaml.safe_dump({"groups": [{"name": "check", "rules": rules}]}, file)
        file.flush()
        done = subprocess.run(["promtool", "check", "rules", file.name],
                              capture_output=True, text=True)
    if done.returncode != 0:
        return [done.stdout + done.stderr]
    return []


def read_source(source):
    if not source.startswith("http"):
        return pathlib.Path(source).read_text()
    url = source if source.endswith("/metrics") else source + "/metrics"
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def samples(texts):
    """Metric name → the label names that its series have."""
    found = {}
    for text in texts:
        for line in text.splitlines():
            match = SAMPLE.match(line)
            if match:
                found.setdefault(match.group(1), set()).update(
                    LABEL.findall(match.group(2) or ""))
    return found


def check_exist(expressions, found):
    faults = []
    for place, texts in expressions.items():
        for text in texts:
            grouped = set()
            for names in re.findall(r"\bby\s*\(([^)]*)\)", text):
                grouped.update(n.strip() for n in names.split(",") if n.strip())
            labels_of_all = set()
            for name, selector in METRIC.findall(text):
                if name not in found:
                    faults.append(f"{place}: no metric {name}")
                    continue
                labels_of_all |= found[name]
                missing = (set(LABEL.findall(selector)) - found[name] -
                           SCRAPE_LABELS)
                faults += [f"{place}: {name} has no label {label}"
                           for label in sorted(missing)]
            if labels_of_all:
                faults += [
                    f"{place}: no metric of it has the label {label}"
                    for label in sorted(grouped - labels_of_all - SCRAPE_LABELS)
                ]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deploy", type=pathlib.Path, required=True)
    parser.add_argument("--check-expressions", action="store_true")
    parser.add_argument("sources", nargs="*")
    arguments = parser.parse_args()
    panels = dashboard_expressions(arguments.deploy)
    everything = {**panels, **alert_expressions(arguments.deploy)}
    faults = []
    if arguments.check_expressions:
        faults += check_expressions(panels)
    if arguments.sources:
        found = samples(read_source(source) for source in arguments.sources)
        faults += check_exist(everything, found)
    elif not arguments.check_expressions:
        parser.error("nothing to check: give sources or --check-expressions")
    for fault in faults:
        print(fault, file=sys.stderr)
    count = sum(len(texts) for texts in everything.values())
    print(f"{count} expressions, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
