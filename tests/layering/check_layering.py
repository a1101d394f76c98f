#!/usr/bin/env python3
"""Checks includes against the layer table of ARCHITECTURE.md, and that no two
headers define a type of one name in one namespace.

Usage: check_layering.py ROOT. Prints each violation as file:line: reason and
exits with 1 if there is any.
"""
import os
import re
import sys

# Core folders see plain C++ only. Edges are known by their suffix.
EDGE = re.compile(r"(_service|_client|_codec|_server|_runner_edge)\.(h|cc)$")
ROOT_FILES = re.compile(r"(^|/)main\.cc$|^gateway/gateway_options\.")
WHOLE_EDGE = ("services/rpc/", "services/http/", "gateway/http/",
              "services/telemetry/metrics_http",
              "services/telemetry/prometheus_metrics")
EDGE_LIBRARIES = re.compile(
    r'^\s*#include\s+[<"](grpc|google/protobuf|google/rpc|prometheus/|'
    r'baton/v1/|boost/)')
INCLUDE = re.compile(r'^\s*#include\s+"([a-z_0-9]+/[^"]+)"')
GGML = re.compile(r'^\s*#include\s+"(ggml|gguf)[a-z-]*\.h"')
JINJA = re.compile(r'^\s*#include\s+"jinja/')

# folder prefix -> prefixes that its core code may include, beside itself
BASE = ["services/base/"]
TABLE = [
    ("services/base/", []),
    ("services/gguf/", BASE),
    ("services/text/", BASE + ["services/gguf/"]),
    ("services/config/", BASE),
    ("services/process/", BASE + ["services/config/"]),
    ("services/telemetry/", BASE + ["services/http/"]),
    ("services/http/", BASE),
    ("services/rpc/", BASE + ["services/telemetry/"]),
    ("services/cli/base/", BASE),
    ("services/cli/cluster/", BASE + ["services/cli/base/",
                                      "services/config/"]),
    ("services/cli/client/", BASE + ["services/cli/base/"]),
    ("services/cli/bench/", BASE + ["services/cli/base/"]),
    ("services/cli/", BASE + ["services/", "kvstore/", "worker/", "gateway/"]),
    ("kvstore/block/", BASE),
    ("kvstore/", BASE + ["kvstore/", "services/telemetry/metrics.h"]),
    ("worker/", BASE + ["kvstore/block/", "worker/", "services/gguf/",
                        "services/telemetry/metrics.h",
                        "kvstore/client/kvstore_client.h"]),
    ("gateway/", BASE + ["kvstore/block/", "gateway/", "services/text/",
                         "services/gguf/", "services/telemetry/metrics.h"]),
]
EDGE_EXTRA = ["services/rpc/", "services/telemetry/", "services/http/",
              "services/text/", "services/gguf/"]
GGML_FOLDERS = ("worker/graph/", "worker/architectures/",
                "worker/model/", "services/gguf/", "tools/")


def folder_rule(path):
    for prefix, allowed in TABLE:
        if path.startswith(prefix):
            return prefix, allowed
    return None, None


def is_edge(path):
    return bool(EDGE.search(path)) or path.startswith(WHOLE_EDGE)


def check_file(root, path):
    prefix, allowed = folder_rule(path)
    if prefix is None or ROOT_FILES.search(path):
        return []
    edge = is_edge(path)
    faults = []
    with open(os.path.join(root, path), encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            where = f"{path}:{number}"
            if EDGE_LIBRARIES.match(line) and not edge:
                faults.append(f"{where}: core code includes {line.strip()}")
            if GGML.match(line) and not path.startswith(GGML_FOLDERS):
                faults.append(f"{where}: {line.strip()} outside the engine")
            if JINJA.match(line) and not path.startswith("services/text/"):
                faults.append(f"{where}: {line.strip()} outside services/text")
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            if target.startswith("tests/"):
                faults.append(f"{where}: product code includes {target}")
            if not target.startswith(("services/", "gateway/", "worker/",
                                      "kvstore/")):
                continue
            good = [prefix] + allowed + (EDGE_EXTRA if edge else [])
            if target.startswith(tuple(good)):
                continue
            if edge and target.endswith("_client.h"):
                continue
            faults.append(f"{where}: {prefix} may not include {target}")
    return faults


def folder_cycles(root, paths):
    """Finds cycles between folders (product code only)."""
    edges = {}
    for path in paths:
        folder = os.path.dirname(path)
        if ROOT_FILES.search(path):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for line in source:
                match = INCLUDE.match(line)
                if match:
                    target = os.path.dirname(match.group(1))
                    if target != folder:
                        edges.setdefault(folder, set()).add(target)
    state, faults = {}, []

    def visit(folder, trail):
        state[folder] = 1
        for target in sorted(edges.get(folder, ())):
            if state.get(target) == 1:
                cycle = trail[trail.index(target):] if target in trail else []
                faults.append("cycle: " + " -> ".join(cycle + [target]))
            elif target not in state:
                visit(target, trail + [target])
        state[folder] = 2

    for folder in sorted(edges):
        if folder not in state:
            visit(folder, [folder])
    return faults


COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\])*"|'
    r"'(?:\\.|[^'\\])+'", re.DOTALL)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
NAMESPACE = re.compile(r"\bnamespace(?:\s+([\w:]+))?\s*$")
# A specialisation, "Name<...>", is no definition of another Name.
TYPE = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+"
    r"(?:\[\[[^]]*\]\]\s*|[A-Z][A-Z_0-9]*(?:\([^)]*\))?\s+)*"
    r"([A-Za-z_]\w*)\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)


def types_defined(source):
    """Names, with their namespace, of the types that a header defines at
    namespace scope, outside unnamed namespaces."""
    text = PREPROCESSOR.sub("", COMMENT_OR_LITERAL.sub('""', source))
    found, scopes, statement = [], [], ""
    for character in text:
        if character == "{":
            namespace = NAMESPACE.search(statement)
            if namespace:
                scopes.append(namespace.group(1) or "")
            elif re.search(r'\bextern\s+""\s*$', statement):
                scopes.append("::")  # extern "C": no scope
            else:
                named = TYPE.search(statement)
                if named and all(scopes):
                    names = [s for s in scopes if s != "::"]
                    found.append("::".join(names + [named.group(1)]))
                scopes.append(None)
            statement = ""
        elif character in "};":
            if character == "}" and scopes:
                scopes.pop()
            statement = ""
        else:
            statement += character
    return found


def twice_defined(root, headers):
    """Two types of one name break the one-definition rule in each binary that
    holds both, and no compiler says so."""
    places = {}
    for path in headers:
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for name in sorted(set(types_defined(source.read()))):
                places.setdefault(name, []).append(path)
    return [f"{name} is defined in {' and '.join(paths)}"
            for name, paths in sorted(places.items()) if len(paths) > 1]


def files_under(root, tops, endings):
    paths = []
    for top in tops:
        for folder, _, names in os.walk(os.path.join(root, top)):
            paths += [os.path.relpath(os.path.join(folder, name), root)
                      for name in names if name.endswith(endings)]
    return sorted(paths)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    product = ("services", "kvstore", "worker", "gateway")
    paths = files_under(root, product, (".h", ".cc"))
    faults = [f for path in paths for f in check_file(root, path)]
    faults += folder_cycles(root, paths)
    faults += twice_defined(
        root, files_under(root, product + ("tests", "tools"), (".h",)))
    print("\n".join(faults) if faults else
          f"layering: {len(paths)} files follow the table")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
