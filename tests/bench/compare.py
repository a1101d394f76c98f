#!/usr/bin/env python3
"""Interleaved rounds of Baton and its peers on the same files and threads.

Rows: {name, baton, peer, unit, ratio, command, cpu, isa}, the name being
MEASURE/MODEL/TYPE/PEER/ISA; medians over the rounds; ratio > 1 means that Baton
is better (for times it is peer / baton). Where the peer is "budget", its figure
is what Baton allows itself; where it is "one-row", Baton's own step of one row.
"""
import argparse
import json
import os
import re
import statistics
import sys

from engines import Baton, LlamaBench
from servers import (KV_MIB, MOST_STREAMS, Background, Servers, first_token,
                     interference, median_of_histogram, prompt_of, resident_mb)

DEPTH = 512
LONG = 4096


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        text = info.read()
    name = re.search(r"model name\s*:\s*(.*)", text)
    flags = re.search(r"flags\s*:\s*(.*)", text).group(1).split()
    isa = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16",
                       "amx_int8") if f in flags]
    return name.group(1).strip() if name else "unknown", "+".join(isa)


class Table:
    def __init__(self):
        self.cpu, self.isa = cpu_name()
        self.rows = []
        print(f"cpu: {self.cpu} ({self.isa})")

    def add(self, measure, model, ours, theirs, unit, command, peer,
            inverse=False):
        a, b = statistics.median(ours), statistics.median(theirs)
        ratio = b / a if inverse else a / b
        name = f"{measure}/{label(model)}/{peer}/{self.isa}"
        self.rows.append({
            "name": name, "baton": round(a, 3), "peer": round(b, 3),
            "unit": unit, "ratio": round(ratio, 3), "command": command,
            "cpu": self.cpu, "isa": self.isa})
        print(f"{name:52} baton {a:9.2f} peer {b:9.2f} {unit:4} "
              f"ratio {ratio:.3f}  (min {min(ours):.1f} max {max(ours):.1f})",
              flush=True)


def label(model):
    """smollm2-Q4_1.gguf is smollm2/Q4_1."""
    stem = os.path.basename(model).removesuffix(".gguf")
    if stem.startswith("SmolLM2"):
        return "smollm2/" + stem.split(".")[-1]
    name, _, kind = stem.rpartition("-")
    return f"{name}/{kind}"


def peers_of(options):
    return [LlamaBench(f"llama.cpp={options.llama}/llama-bench")] + [
        LlamaBench(text) for text in options.peer]


def engine_rows(options, table, model):
    baton = Baton(options.baton)
    peers = peers_of(options)
    large = os.path.getsize(model) > 500 * 2**20
    count = 16 if large else 64
    for threads in options.threads:
        ours, theirs, commands = [], {p.name: [] for p in peers}, {}
        for _ in range(options.rounds):
            result, ours_command = baton.measure(model, threads, DEPTH, count)
            ours.append(result)
            for peer in peers:
                pp, pp_command = peer.prefill(model, threads, DEPTH)
                tg, tg_command = peer.decode(model, threads, DEPTH, count)
                theirs[peer.name].append((pp, tg))
                commands[peer.name] = (f"{ours_command} | {pp_command}",
                                       f"{ours_command} | {tg_command}")
        for peer in peers:
            for i, (measure, key) in enumerate(
                    ((f"prefill{DEPTH}", "pp"), ("decode", "tg"))):
                table.add(f"{measure}/t{threads}", model,
                          [o[key] for o in ours],
                          [t[i] for t in theirs[peer.name]], "t/s",
                          commands[peer.name][i], peer.name)


def long_prefill_rows(options, table, model):
    baton, threads = Baton(options.baton), max(options.threads)
    peers = peers_of(options)
    ours, theirs, commands = [], {p.name: [] for p in peers}, {}
    for _ in range(max(1, options.rounds // 2)):
        result, ours_command = baton.measure(model, threads, LONG, 0)
        ours.append(result["pp"])
        for peer in peers:
            rate, command = peer.prefill(model, threads, LONG)
            theirs[peer.name].append(rate)
            commands[peer.name] = f"{ours_command} | {command}"
    for peer in peers:
        table.add(f"prefill{LONG}/t{threads}", model, ours, theirs[peer.name],
                  "t/s", commands[peer.name], peer.name)


def step_rows(options, table, model):
    """What a step of several rows costs against one of one row."""
    baton = Baton(options.baton)
    times = {rows: [] for rows in (1, 2, 4, 8)}
    for _ in range(options.rounds):
        for rows, seconds in times.items():
            result, command = baton.measure(model, 1, 64, 12, rows=rows)
            seconds.append(result["step_ms"])
    for rows in (2, 4, 8):
        table.add(f"step{rows}/t1", model, times[rows], times[1], "ms",
                  command, "one-row", inverse=True)


def server_rows(options, table, model):
    servers = Servers(options, model)
    try:
        command = " | ".join(" ".join(c) for c in servers.commands)
        ttft = ([], [])
        for round_number in range(options.rounds):
            prompt = prompt_of(512, 1000 + round_number)
            ttft[0].append(first_token(servers.baton, prompt) * 1000)
            ttft[1].append(first_token(servers.peer, prompt) * 1000)
        table.add("ttft512/server", model, *ttft, "ms", command, "llama.cpp",
                  inverse=True)
        # One request at a time: under load it would show how the cores are
        # shared.
        for number in range(30):
            first_token(servers.baton, prompt_of(512, 2000 + number))
        shares = [median_of_histogram(
            servers.baton, "baton_gateway_overhead_seconds", stage)
                  for stage in ("request", "token")]
        table.add("gateway-share/request+token", model, [sum(shares)], [1.0],
                  "ms", command, "budget", inverse=True)
        for count in (4, MOST_STREAMS):
            rates = ([], [])
            for round_number in range(options.rounds):
                prompts = [prompt_of(32, 50 * round_number + i)
                           for i in range(count)]
                rates[0].append(Background(servers.baton, prompts, 48).rate())
                rates[1].append(Background(servers.peer, prompts, 48).rate())
            table.add(f"streams{count}/server", model, *rates, "t/s", command,
                      "llama.cpp")
        interference_rows(options, table, model, servers, command)
        model_mb = os.path.getsize(model) / 2**20
        for worker in servers.state()["workers"]:
            beyond = resident_mb(worker["pid"]) - model_mb - KV_MIB
            table.add(f"resident-beyond-model-and-kv/{worker['role']}", model,
                      [max(beyond, 1.0)], [150.0], "MiB", command, "budget",
                      inverse=True)
    finally:
        servers.stop()


def interference_rows(options, table, model, servers, command):
    rounds = max(1, options.rounds // 2)
    for name, url in (("baton", servers.baton), ("llama.cpp", servers.peer)):
        results = [interference(url, 100 * i) for i in range(rounds)]
        for measure, beside, alone in (("gap-p99", 0, 1), ("ttft4096", 2, 3)):
            table.add(f"{measure}-beside/{name}", model,
                      [1000 * r[beside] for r in results],
                      [1000 * r[alone] for r in results], "ms", command,
                      "itself-alone", inverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baton", required=True, help="Baton's binaries")
    parser.add_argument("--llama", required=True, help="llama.cpp's binaries")
    parser.add_argument("--model", action="append", required=True,
                        help="the first is also served by both servers")
    parser.add_argument("--peer", action="append", default=[],
                        help="[NAME=]PATH [flags]: one more llama-bench")
    parser.add_argument("--only", default="",
                        help="only models whose file name contains this")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    options = parser.parse_args()
    options.threads = options.threads or [1, 2]
    models = [m for m in options.model if options.only in m]
    if not models:
        sys.exit(f"no model is named like {options.only}")
    table = Table()
    for model in models:
        engine_rows(options, table, model)
        long_prefill_rows(options, table, model)
        step_rows(options, table, model)
        if model == options.model[0]:
            server_rows(options, table, model)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(table.rows, out, indent=1)


if __name__ == "__main__":
    main()
